"""Lenient validation of a status that another version of the operator wrote, and the first error of a spec as one line."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from benchrun.api.conditions import MAX_CONDITIONS, ConditionStatus

M = TypeVar("M", bound=BaseModel)
Path = tuple[int | str, ...]

_ROUNDS = 8
"""How often unreadable parts are left out: an entry that lacks what was left out of it goes in the next round."""
_MAX_PARTS = 256
"""Unreadable parts that are left out one by one; where there are more, their whole fields are."""
_STATUSES = get_args(ConditionStatus)


def read_leniently(model: type[M], stored: object) -> M:
    """A status, as far as this version can read it: a value it can't read is as if it were not there. Never raises.

    The model's fields all have defaults. A condition counts where its type and status can be read, whatever else it holds.
    """
    if not isinstance(stored, Mapping):
        return model()
    try:
        return model.model_validate(stored)
    except ValidationError:
        return _as_far_as_readable(model, stored)


def without(stored: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """A copy that lacks what the paths name; a path that leads further than there is anything names the last thing on it."""
    found = dict(stored)
    # From the last entry of a list to the first, so that the places of those before stay what they are.
    existing = {_existing(stored, path) for path in paths} - {()}
    for *way, last in sorted(
        existing, key=lambda path: [(s, "") if isinstance(s, int) else (0, s) for s in path], reverse=True
    ):
        part: Any = found
        for step in way:
            # Containers on the way are copied, since they are those of the original.
            part[step] = part[step].copy()
            part = part[step]
        del part[last]
    return found


def _as_far_as_readable(model: type[M], stored: Mapping[str, Any]) -> M:
    names = [field.alias or name for name, field in model.model_fields.items()]
    known = {name: stored[name] for name in names if name in stored}
    if "conditions" in known:
        listed = known["conditions"] if isinstance(known["conditions"], list) else []
        known["conditions"] = [_condition(each) for each in listed if _is_readable_condition(each)][:MAX_CONDITIONS]
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(known)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            known = without(known, [each["loc"][: None if len(found) <= _MAX_PARTS else 1] for each in found])
    return model.model_validate({name: value for name, value in known.items() if _is_readable(model, name, value)})


def _is_readable(model: type[M], name: str, value: object) -> bool:
    try:
        model.model_validate({name: value})
    except ValidationError:
        return False
    return True


def _existing(stored: object, path: Path) -> Path:
    """The part of a path that is there: pydantic's also name kinds of values, and fields that lack."""
    there: Any = stored
    for depth, step in enumerate(path):
        is_key = isinstance(there, Mapping) and step in there
        if not is_key and not (isinstance(there, list) and isinstance(step, int) and step < len(there)):
            return path[:depth]
        there = there[step]
    return path


def _is_readable_condition(stored: object) -> bool:
    if not isinstance(stored, Mapping) or stored.get("status") not in _STATUSES:
        return False
    type_ = stored.get("type")
    return isinstance(type_, str) and 0 < len(type_) <= 64


def _condition(stored: Mapping[str, Any]) -> dict[str, Any]:
    def text(name: str, most: int) -> str:
        value = stored.get(name)
        return value[:most] if isinstance(value, str) else ""

    generation = stored.get("observedGeneration")
    return {
        "type": stored["type"],
        "status": stored["status"],
        "reason": text("reason", 128),
        "message": text("message", 4096),
        "observedGeneration": generation if type(generation) is int else 0,
        "lastTransitionTime": text("lastTransitionTime", 32),
    }


def first_problem(error: ValidationError, *, root: str = "spec") -> str:
    """The first problem with its path below `root`, and how many more there are."""
    problem = error.errors(include_url=False, include_input=False)[0]
    parts = without_branch(problem["loc"])
    # A rule is about a field below the object that has it.
    path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts) + problem.get("ctx", {}).get(
        "path", ""
    )
    more = error.error_count() - 1
    return f"{root}{path}: {problem['msg']}" + (f" (and {more} more)" if more else "")


def without_branch(location: Sequence[int | str]) -> Sequence[int | str]:
    """Without pydantic's name of the member of a union of plain types, which is not a field."""
    members = ("int", "str", "constrained-int", "constrained-str")
    return location[:-1] if location and location[-1] in members else location
