"""The least change that turns one status into another, as a JSON merge patch.

Both sides are brought into one form first: what is None or an empty list or object in the model is left out, and a null
removes what was there. So a status that has not changed gives an empty patch, and a part that we do not hold in memory
(`results` of a run that ended) is never touched.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel

Json = dict[str, Any]


def status_changes(observed: Json, wanted: BaseModel) -> Json:
    """The merge patch from the status in the cluster to the wanted one; empty when nothing is to be written."""
    patch = _difference(observed, as_json(wanted))
    return {} if _only_the_time(patch) else patch


def as_json(model: BaseModel) -> Json:
    """The model as it is stored."""
    found: Json = {}
    for name, field in type(model).model_fields.items():
        value = _plain(getattr(model, name))
        if value not in (None, [], {}):
            found[field.alias or name] = value
    return found


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
        if _same(before, value):
            continue
        patch[name] = _difference(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return patch


def _same(old: Any, new: Any) -> bool:
    """Equal, but for nulls: the API server may drop them within lists."""
    return bool(_without_nulls(old) == _without_nulls(new))


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _only_the_time(patch: Json) -> bool:
    """Live figures that did not change, read again."""
    return patch.keys() == {"live"} and isinstance(patch["live"], dict) and patch["live"].keys() == {"at"}
