"""What the API server would refuse: types, bounds, unknown fields, and the rules between fields.

The same models make the schema that the API server checks by, so both find the same. The server stops at the first kind of
problem; here all are told.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from benchrun.api import without_branch
from benchrun.api.schema.structural import Schema
from benchrun.names import API_VERSION
from benchrun.preflight.remark import Remark, error, note

Object = Mapping[str, Any]
Spec = TypeVar("Spec", bound=BaseModel)

_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA = ("name", "generateName", "namespace", "labels", "annotations", "ownerReferences", "finalizers")
_WRITTEN_BY_THE_SERVER = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


def object_remarks(body: Object, schema: Schema) -> list[Remark]:
    """About everything around the spec; `schema` is that of the whole object."""
    remarks = []
    if body.get("apiVersion") != API_VERSION:
        remarks.append(error("apiVersion", f"{body.get('apiVersion')!r}: this benchrun knows {API_VERSION}"))
    remarks += [_unknown(name, name, _TOP) for name in body if name not in _TOP]
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return [*remarks, error("metadata", "must be there, with a name")]
    known = (*_METADATA, *_WRITTEN_BY_THE_SERVER)
    remarks += [_unknown(f"metadata.{name}", str(name), known) for name in metadata if name not in known]
    return remarks + _name_remarks(metadata, schema)


def spec_of(body: Object, model: type[Spec]) -> tuple[Spec | None, list[Remark]]:
    """The spec, or what is wrong with it."""
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        return None, [error("spec", "must be there")]
    try:
        return model.model_validate(dict(spec)), []
    except ValidationError as problem:
        found = [_problem(each, model) for each in problem.errors(include_url=False)]
        return None, list({each.path: each for each in found}.values())


def path_of(location: Sequence[int | str], root: str = "spec") -> str:
    """A place as the API server writes it: spec.workloads[0].load."""
    return root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location)


def _name_remarks(metadata: Object, schema: Schema) -> list[Remark]:
    name, rule = metadata.get("name"), schema["properties"]["metadata"]["properties"]["name"]
    if name is None and isinstance(metadata.get("generateName"), str):
        return [note("metadata.generateName", "kubectl create takes it, kubectl apply does not")]
    if not isinstance(name, str):
        return [error("metadata.name", "must be there")]
    if len(name) > rule["maxLength"]:
        return [
            error(
                "metadata.name",
                f"{len(name)} characters; names of children are made from it: at most {rule['maxLength']}",
            )
        ]
    if re.fullmatch(rule["pattern"].strip("^$"), name) is None:
        return [
            error("metadata.name", f"{name!r} must be lower-case letters, digits and dashes, no dash at either end")
        ]
    return []


def _problem(found: Any, model: type[BaseModel]) -> Remark:
    location = without_branch(found["loc"])
    path = path_of(location)
    if found["type"] == "extra_forbidden":
        return _unknown(path, str(location[-1]), _fields_at(model, location[:-1]))
    if found["type"] == "missing":
        return error(path, "must be there")
    given = found["input"]
    shown = f", not {given!r}" if isinstance(given, str | int | float) and found["type"] not in _OURS else ""
    # A rule is about a field below the object that has it.
    return error(path + found.get("ctx", {}).get("path", ""), f"{found['msg']}{shown}")


_OURS = ("rule", "duplicate", "value_error")
"""Types of problems whose messages name the value where it matters."""


def _unknown(path: str, name: str, known: Sequence[str]) -> Remark:
    near = get_close_matches(name, known, n=1)
    there = f"; there are {', '.join(known)}" if 0 < len(known) <= 12 else ""
    return error(path, "unknown field" + (f"; did you mean {near[0]}?" if near else there))


def _fields_at(model: type[BaseModel], location: Sequence[int | str]) -> tuple[str, ...]:
    found = _model_at(model, location)
    return () if found is None else tuple(field.alias or name for name, field in found.model_fields.items())


def _model_at(model: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel] | None:
    at: type[BaseModel] | None = model
    for part in location:
        if isinstance(part, int) or at is None:
            continue
        field = next((f for name, f in at.model_fields.items() if part in (name, f.alias)), None)
        at = None if field is None else _model_in(field.annotation)
    return at


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _model_in(inner)) is not None), None)
