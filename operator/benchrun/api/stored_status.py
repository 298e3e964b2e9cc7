"""Read a stored status leniently, and change it by a JSON merge patch.

Another version of the operator may have written it.
"""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from benchrun.api.conditions import MAX_CONDITIONS, ConditionStatus

Json = dict[str, Any]
M = TypeVar("M", bound=BaseModel)
Path = tuple[int | str, ...]

_ROUNDS = 8
"""Most rounds in which unreadable parts are left out. An entry that then lacks a required part is
left out in the next round."""
_MAX_PARTS = 256
"""Most unreadable parts that are left out one by one; if there are more, their whole fields are."""
_STATUSES = get_args(ConditionStatus)
_OF_PROGRESS = {"live", "progress", "model", "servers", "message", "conditions"}


def read_leniently(model: type[M], stored: object) -> M:
    """Return a status as far as this version can read it. Never raises.

    A value that this version can't read counts as absent; all fields of the model have defaults. A
    condition counts if its type and status can be read, whatever else it holds.
    """
    if not isinstance(stored, Mapping):
        return model()
    try:
        return model.model_validate(stored)
    except ValidationError:
        return _as_far_as_readable(model, stored)


def without(stored: Mapping[str, Any], paths: Iterable[Path]) -> dict[str, Any]:
    """Return a copy without the parts at these paths.

    A path that goes beyond what exists stands for its last existing part.
    """
    found = dict(stored)
    # From the last entry of a list to the first, so that the indices of earlier entries stay.
    existing = {_existing(stored, path) for path in paths} - {()}
    for *way, last in sorted(existing, key=_in_order, reverse=True):
        part: Any = found
        for step in way:
            # Containers on the way are copied, since they belong to the original.
            part[step] = part[step].copy()
            part = part[step]
        del part[last]
    return found


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Return a sort key that compares indices as numbers and keys as texts."""
    return [(step, "") if isinstance(step, int) else (0, step) for step in path]


def _as_far_as_readable(model: type[M], stored: Mapping[str, Any]) -> M:
    names = [field.alias or name for name, field in model.model_fields.items()]
    known = {name: stored[name] for name in names if name in stored}
    if "conditions" in known:
        known["conditions"] = _conditions(known["conditions"])
    for _ in range(_ROUNDS):
        try:
            return model.model_validate(known)
        except ValidationError as error:
            found = error.errors(
                include_url=False, include_context=False, include_input=False
            )
            steps = None if len(found) <= _MAX_PARTS else 1  # 1: the whole field.
            known = without(known, [each["loc"][:steps] for each in found])
    readable = {
        name: value
        for name, value in known.items()
        if _is_readable(model, name, value)
    }
    return model.model_validate(readable)


def _conditions(stored: object) -> list[Json]:
    listed = stored if isinstance(stored, list) else []
    read = (_condition(each) for each in listed)
    return [each for each in read if each is not None][:MAX_CONDITIONS]


def _is_readable(model: type[M], name: str, value: object) -> bool:
    try:
        model.model_validate({name: value})
    except ValidationError:
        return False
    return True


def _existing(stored: object, path: Path) -> Path:
    """Return the part of a path that exists.

    pydantic's paths also name kinds of values, and fields that are missing.
    """
    there: Any = stored
    for depth, step in enumerate(path):
        is_key = isinstance(there, Mapping) and step in there
        if not is_key and not (
            isinstance(there, list) and isinstance(step, int) and step < len(there)
        ):
            return path[:depth]
        there = there[step]
    return path


def _condition(stored: Any) -> Json | None:
    """Return as much of a condition as can be read; None if its type or status can't be read."""
    match stored:
        case {"type": str(type_), "status": status} if (
            status in _STATUSES and 0 < len(type_) <= 64
        ):
            bounds = {"reason": 128, "message": 4096, "lastTransitionTime": 32}
            texts = {
                name: text[:most]
                for name, most in bounds.items()
                if isinstance(text := stored.get(name), str)
            }
            generation = stored.get("observedGeneration")
            numbers = {
                "observedGeneration": generation if type(generation) is int else 0
            }
            return {
                "type": type_,
                "status": status,
                "reason": "",
                **texts,
                **numbers,
            }
    return None


def status_changes(observed: Json, wanted: BaseModel) -> Json:
    """Return the merge patch from the status in the cluster to the wanted one; empty: no change.

    The readable part of the old status is compared with the new one, both without None and without
    empty lists and objects. In the patch, a null removes a value. A part that is not readable, or
    that memory does not hold (`results` of a run that has ended), is not in the patch, and so
    stays.
    """
    read = as_json(read_leniently(type(wanted), observed))
    patch = _difference(
        {name: value for name, value in read.items() if name in observed},
        as_json(wanted),
    )
    if patch.get("conditions"):
        patch["conditions"] = [
            *patch["conditions"],
            *_others(observed.get("conditions"), patch["conditions"]),
        ]
    # Live figures that did not change, scraped once more.
    only_the_time = (
        patch.keys() == {"live"}
        and isinstance(patch["live"], dict)
        and patch["live"].keys() == {"at"}
    )
    return {} if only_the_time else patch


def has_only_progress(observed: Json, patch: Json) -> bool:
    """Return whether a patch holds only progress and figures, so that its write can be delayed."""
    if not patch.keys() <= _OF_PROGRESS:
        return False
    if "conditions" not in patch:
        return True
    return _states(observed.get("conditions")) == _states(patch["conditions"])


def _states(conditions: object) -> set[tuple[str, str]]:
    listed = conditions if isinstance(conditions, list) else []
    return {
        (str(c.get("type")), str(c.get("status")))
        for c in listed
        if isinstance(c, dict)
    }


def as_json(value: Any) -> Any:
    """Convert a model, or a value in it, to the form in which it is stored."""
    if isinstance(value, BaseModel):
        stored = {
            f.alias or name: as_json(getattr(value, name))
            for name, f in type(value).model_fields.items()
        }
        return {
            name: each
            for name, each in stored.items()
            if each not in (None, [], {})
        }
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, dict):
        return {key: as_json(item) for key, item in value.items()}
    return value


def _others(observed: object, ours: list[Json]) -> list[Json]:
    """Return the observed conditions of types that this version does not write.

    Another version wrote them. A write replaces the whole list, so they must be in it to survive.
    `MAX_CONDITIONS` bounds both together.
    """
    types = {condition["type"] for condition in ours}
    listed = observed if isinstance(observed, list) else []
    named = [
        each
        for each in listed
        if isinstance(each, dict) and isinstance(each.get("type"), str)
    ]
    return [each for each in named if each["type"] not in types][
        : max(0, MAX_CONDITIONS - len(ours))
    ]


def _difference(old: Json, new: Json) -> Json:
    patch: Json = {
        name: None
        for name, value in old.items()
        if name not in new and value not in (None, [], {})
    }
    for name, value in new.items():
        before = old.get(name)
        if _without_nulls(before) != _without_nulls(value):
            patch[name] = (
                _difference(before, value)
                if isinstance(before, dict) and isinstance(value, dict)
                else value
            )
    return patch


def _without_nulls(value: Any) -> Any:
    """Return the value without nulls in objects, at any depth.

    The API server may drop nulls within lists.
    """
    if isinstance(value, dict):
        return {
            key: _without_nulls(item)
            for key, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
