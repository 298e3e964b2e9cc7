"""A status with something in every field, whatever fields there are.

So no field can be forgotten where all must be seen.
"""

import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from annotated_types import MaxLen, MinLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

Model = TypeVar("Model", bound=BaseModel)
TEXT = "2026-01-02T03:04:05Z"
"""An instant, for some strings must be one."""


def filled(model: type[Model]) -> Model:
    """Build an instance in which every field, however deep, differs from its default."""
    return model.model_validate(_fields(model))


def _fields(model: type[BaseModel]) -> dict[str, Any]:
    return {
        name: _value(field.annotation, field.metadata)
        for name, field in model.model_fields.items()
    }


def _value(kind: Any, bounds: Iterable[Any]) -> Any:
    origin = get_origin(kind)
    arguments = get_args(kind)
    bounds = [
        single
        for bound in bounds
        for single in (bound.metadata if isinstance(bound, FieldInfo) else [bound])
    ]
    if origin is Annotated:
        return _value(arguments[0], [*arguments[1:], *bounds])
    if origin is Literal:
        return arguments[0]
    if origin in (Union, types.UnionType):
        return _value(
            next(one for one in arguments if one is not types.NoneType), bounds
        )
    if origin in (list, tuple):
        least = next(
            (bound.min_length for bound in bounds if isinstance(bound, MinLen)), 1
        )
        return [_value(arguments[0], ())] * least
    if origin is dict:
        return {"key": _value(arguments[1], ())}
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return _fields(kind)
    if kind is str:
        return TEXT[
            : next(
                (bound.max_length for bound in bounds if isinstance(bound, MaxLen)),
                None,
            )
        ]
    return {bool: True, int: 7, float: 7.5}[kind]
