"""Errors for which the API server refuses an object: types, bounds, unknown fields, CEL rules."""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from benchrun.api import without_branch
from benchrun.api.crd import Schema
from benchrun.names import API_VERSION
from benchrun.preflight.client_options import field_hint
from benchrun.preflight.remark import Remark, error, note
from benchrun.preflight.server_flags import known_versions, table_for

Object = Mapping[str, Any]
Spec = TypeVar("Spec", bound=BaseModel)

_TOP = ("apiVersion", "kind", "metadata", "spec", "status")
_METADATA = (
    "name",
    "generateName",
    "namespace",
    "labels",
    "annotations",
    "ownerReferences",
    "finalizers",
)
_WRITTEN_BY_THE_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "managedFields",
    "selfLink",
)


def spec_of(
    body: Object, model: type[Spec], schema: Schema
) -> tuple[Spec | None, list[Remark]]:
    """Return the parsed spec, None if it is not valid, and what is wrong with the object.

    `schema` is the schema of the whole object.
    """
    remarks = _object_remarks(body, schema)
    spec = body.get("spec")
    if not isinstance(spec, Mapping):
        return None, [*remarks, error("spec", "is required")]
    try:
        return model.model_validate(dict(spec)), remarks
    except ValidationError as problem:
        found = [
            _problem(each, schema["properties"]["spec"])
            for each in problem.errors(include_url=False)
        ]
        return None, [*remarks, *{each.path: each for each in found}.values()]


def _object_remarks(body: Object, schema: Schema) -> list[Remark]:
    remarks = []
    if body.get("apiVersion") != API_VERSION:
        remarks.append(
            error(
                "apiVersion",
                f"{body.get('apiVersion')!r} is unknown; this benchrun knows {API_VERSION}",
            )
        )
    remarks += [_unknown(name, name, _TOP) for name in body if name not in _TOP]
    metadata = body.get("metadata")
    if not isinstance(metadata, Mapping):
        return [*remarks, error("metadata", "is required, with a name")]
    known = (*_METADATA, *_WRITTEN_BY_THE_SERVER)
    remarks += [
        _unknown(f"metadata.{name}", str(name), known)
        for name in metadata
        if name not in known
    ]
    return remarks + _name_remarks(metadata, schema)


def _name_remarks(metadata: Object, schema: Schema) -> list[Remark]:
    name = metadata.get("name")
    rule = schema["properties"]["metadata"]["properties"]["name"]
    if name is None and isinstance(metadata.get("generateName"), str):
        return [
            note(
                "metadata.generateName",
                "apply the manifest with kubectl create; kubectl apply refuses generateName",
            )
        ]
    if not isinstance(name, str):
        return [error("metadata.name", "is required")]
    if len(name) > (longest := rule["maxLength"]):
        text = f"has {len(name)} characters, at most {longest}: other names are made from it"
        return [error("metadata.name", text)]
    if re.fullmatch(rule["pattern"].strip("^$"), name) is None:
        text = f"{name!r} must be lower-case letters, digits and dashes, no dash at either end"
        return [error("metadata.name", text)]
    return []


def _problem(found: Any, schema: Schema) -> Remark:
    location = without_branch(found["loc"])
    path = "spec" + "".join(
        f"[{part}]" if isinstance(part, int) else f".{part}" for part in location
    )
    if found["type"] == "extra_forbidden":
        for part in location[:-1]:
            schema = (
                schema.get("items", {})
                if isinstance(part, int)
                else schema.get("properties", {}).get(part, {})
            )
        return _unknown(
            path, str(location[-1]), tuple(schema.get("properties", ()))
        )
    if found["type"] == "missing":
        return error(path, "is required")
    given = found["input"]
    shown = (
        f", not {given!r}"
        if isinstance(given, str | int | float) and found["type"] not in _OURS
        else ""
    )
    # A rule is about a field below the object that has it.
    return error(
        path + found.get("ctx", {}).get("path", ""), f"{found['msg']}{shown}"
    )


# Types of problems whose messages already name the value where it matters.
_OURS = (
    "rule",
    "duplicate",
    "value_error",
)


def _unknown(path: str, name: str, known: Sequence[str]) -> Remark:
    table = table_for(known_versions()[-1])
    if table is not None and path.startswith("spec."):
        hint = field_hint(path, name, flags=table.flags, options=table.client)
        if hint is not None:
            return error(path, f"unknown field; it is {hint}")
    near = get_close_matches(name, known, n=1)
    there = f"; there are {', '.join(known)}" if 0 < len(known) <= 12 else ""
    return error(
        path, "unknown field" + (f"; did you mean {near[0]}?" if near else there)
    )
