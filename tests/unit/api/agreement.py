"""What the operator's models and the definitions' schemas say of a spec.

Both are brought into one form, so that they can be compared.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from benchrun.api.crd import Schema
from cel_expr_python import cel
from pydantic import BaseModel, ValidationError
from unit.api.spec_cases import Refused, Spec

Said = tuple[str, str]
"""A field, and what is said of it."""


def path_of(problem: Any) -> str:
    """Return a pydantic location in the form the API server writes it."""
    return "spec" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}"
        for part in problem["loc"]
    )


def with_defaults(value: Any, schema: Schema) -> Any:
    """Fill in absent fields that have a default, from the outside inwards.

    The API server does the same.
    """
    if isinstance(value, list):
        return [with_defaults(entry, schema.get("items", {})) for entry in value]
    if not isinstance(value, dict):
        return value
    if "additionalProperties" in schema:
        return {
            key: with_defaults(inner, schema["additionalProperties"])
            for key, inner in value.items()
        }
    fields = schema.get("properties", {})
    filled = {
        name: child["default"]
        for name, child in fields.items()
        if "default" in child
    } | value
    return {
        name: with_defaults(inner, fields.get(name, {}))
        for name, inner in filled.items()
    }


def assert_refused(
    model: type[BaseModel], spec: Mapping[str, Any], case: Refused
) -> None:
    """Check that the model refuses the spec at the field of the case or above it.

    Where the case has a message, the refusal must contain it.
    """
    with pytest.raises(ValidationError) as refused:
        model.model_validate(spec)
    problems = refused.value.errors()
    assert [
        p
        for p in problems
        if path_of(p).startswith(case.path) or case.path.startswith(path_of(p))
    ] == problems
    if case.message is not None:
        (problem,) = problems
        assert case.message in problem["msg"]


def broken_in_python(model: type[BaseModel], spec: Spec) -> tuple[set[Said], bool]:
    """Return the project's rules that the model finds broken, and whether other problems exist."""
    try:
        model.model_validate(spec)
    except ValidationError as problem:
        problems = problem.errors()
        ours = {
            (path_of(p) + p["ctx"]["path"], p["msg"])
            for p in problems
            if p["type"] == "rule"
        }
        return ours, len(ours) < len(problems)
    return set(), False


def broken_in_cel(
    spec: Spec, schema: Schema, *, old: Spec | None = None, path: str = "spec"
) -> set[Said]:
    """Return the schema's rules that the spec breaks once defaults are filled in.

    With `old`, only those about changes are checked. `path` is where the schema's own value stands.
    """
    before = None if old is None else with_defaults(old, schema)
    return {
        said
        for _, said in _broken(with_defaults(spec, schema), schema, path, before)
    }


def rules_broken(spec: Spec, schema: Schema) -> set[str]:
    """Return the CEL of the schema's rules that the spec breaks once defaults are filled in."""
    return {
        rule
        for rule, _ in _broken(with_defaults(spec, schema), schema, "spec", None)
    }


def rules_of(schema: Any) -> Iterator[str]:
    """Yield the CEL of every rule in a schema, but those about changes."""
    if isinstance(schema, list):
        for each in schema:
            yield from rules_of(each)
    if isinstance(schema, dict):
        for rule in schema.get("x-kubernetes-validations", ()):
            if "oldSelf" not in rule["rule"]:
                yield rule["rule"]
        for each in schema.values():
            yield from rules_of(each)


def keeps_its_rules(value: Any, schema: Schema) -> bool:
    """Return whether the value keeps the rules of the schema itself.

    The rules of its parts are not checked.
    """
    filled = with_defaults(value, schema)
    return all(
        _evaluated(rule["rule"], {"self": filled})
        for rule in schema.get("x-kubernetes-validations", ())
        if "oldSelf" not in rule["rule"]
    )


def _broken(
    value: Any, schema: Schema, path: str, old: Spec | None
) -> Iterator[tuple[str, Said]]:
    for rule in schema.get("x-kubernetes-validations", ()):
        scope = {"self": value} if old is None else {"self": value, "oldSelf": old}
        if ("oldSelf" in rule["rule"]) is (old is not None) and not _evaluated(
            rule["rule"], scope
        ):
            yield (
                rule["rule"],
                (path + rule.get("fieldPath", ""), _message(rule, scope)),
            )
    if old is not None:
        return
    if isinstance(value, list):
        for place, entry in enumerate(value):
            yield from _broken(
                entry, schema.get("items", {}), f"{path}[{place}]", None
            )
    elif isinstance(value, dict):
        others = schema.get("additionalProperties", {})
        for name, inner in value.items():
            yield from _broken(
                inner,
                schema.get("properties", {}).get(name, others),
                f"{path}.{name}",
                None,
            )


def _message(rule: Mapping[str, str], scope: Mapping[str, Any]) -> str:
    return (
        str(_evaluated(rule["messageExpression"], scope))
        if "messageExpression" in rule
        else rule["message"]
    )


def _member(
    name: str, implementation: Callable[..., Any], *parameters: cel.Type
) -> cel.FunctionDecl:
    overload = cel.Overload(
        name,
        return_type=cel.Type.DYN,
        parameters=list(parameters),
        is_member=True,
        impl=implementation,
    )
    return cel.FunctionDecl(name, [overload])


def _index_of(items: Iterable[Any], item: Any) -> int:
    return next((place for place, each in enumerate(items) if each == item), -1)


@cache
def _environment() -> cel.Env:
    """Build Google's CEL with the functions that the API server adds."""
    return cel.NewEnv(
        variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN},
        functions=[
            _member("sum", sum, cel.Type.LIST),
            _member("max", max, cel.Type.LIST),
            _member("indexOf", _index_of, cel.Type.LIST, cel.Type.BOOL),
            _member("split", str.split, cel.Type.STRING, cel.Type.STRING),
            _member(
                "format",
                lambda text, values: text % tuple(values),
                cel.Type.STRING,
                cel.Type.LIST,
            ),
        ],
    )


@cache
def _compiled(text: str) -> cel.Expression:
    return _environment().compile(text)


def _evaluated(text: str, scope: Mapping[str, Any]) -> Any:
    """Evaluate a rule as an API server does; raise AssertionError where it would fail."""
    found = _compiled(text).eval(data=scope)
    assert found.type() != cel.Type.ERROR, f"{text}: {found.value()}"
    return found.value()
