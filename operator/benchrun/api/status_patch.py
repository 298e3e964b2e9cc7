"""The least change that turns one status into another, as a JSON merge patch.

What this version could read of the old status is compared with the new one, both in one form: what is None or an empty list
or object is left out, and a null removes what was there. So an unchanged status gives an empty patch, a part that we do not
hold in memory (`results` of a run that ended) is never touched, and neither is what an operator of another version wrote and
this one can't read.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

from benchrun.api.conditions import MAX_CONDITIONS
from benchrun.api.validation import read_leniently

Json = dict[str, Any]


def status_changes(observed: Json, wanted: BaseModel) -> Json:
    """The merge patch from the status in the cluster to the wanted one; empty when nothing is to be written."""
    read = as_json(read_leniently(type(wanted), observed))
    patch = _difference({name: value for name, value in read.items() if name in observed}, as_json(wanted))
    if patch.get("conditions"):
        patch["conditions"] = [*patch["conditions"], *_others(observed.get("conditions"), patch["conditions"])]
    # Live figures that did not change, scraped once more.
    only_the_time = patch.keys() == {"live"} and isinstance(patch["live"], dict) and patch["live"].keys() == {"at"}
    return {} if only_the_time else patch


def has_only_progress(observed: Json, patch: Json) -> bool:
    """Whether a patch holds nothing but progress and figures: nobody waits for it."""
    if not patch.keys() <= {"live", "progress", "servers", "message", "conditions"}:
        return False
    return "conditions" not in patch or _states(observed.get("conditions")) == _states(patch["conditions"])


def _states(conditions: object) -> set[tuple[str, str]]:
    listed = conditions if isinstance(conditions, list) else []
    return {(str(c.get("type")), str(c.get("status"))) for c in listed if isinstance(c, dict)}


def as_json(model: BaseModel) -> Json:
    """The model as it is stored."""
    found: Json = {}
    for name, field in type(model).model_fields.items():
        value = _plain(getattr(model, name))
        if value not in (None, [], {}):
            found[field.alias or name] = value
    return found


def _others(observed: object, ours: list[Json]) -> list[Json]:
    """Conditions of types that are not among ours: a list is written whole, and these are another version's."""
    types = {condition["type"] for condition in ours}
    listed = observed if isinstance(observed, list) else []
    named = [each for each in listed if isinstance(each, dict) and isinstance(each.get("type"), str)]
    return [each for each in named if each["type"] not in types][: max(0, MAX_CONDITIONS - len(ours))]


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return as_json(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _difference(old: Json, new: Json) -> Json:
    patch: Json = {name: None for name, value in old.items() if name not in new and value not in (None, [], {})}
    for name, value in new.items():
        before = old.get(name)
        if _without_nulls(before) != _without_nulls(value):
            patch[name] = _difference(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return patch


def _without_nulls(value: Any) -> Any:
    """The API server may drop nulls within lists."""
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
