"""Runs that have ended, as far as the columns of a list show them.

The API server can answer a list with a table: the metadata of every object, and the columns of
`kubectl get`, which are a tenth of the object. Of a run that has ended that is enough.
"""

from collections.abc import Mapping
from typing import Any

from benchrun import names
from benchrun.observe import untrusted_json as raw

PLACES = {
    "Phase": ("status", "phase"),
    "Ended": ("status", "completionTime"),
    "TTL": ("spec", "ttlSecondsAfterFinished"),
    "Observed": ("status", "observedGeneration"),
    "Document": ("status", "resultDocument", "configMap"),
}
"""Where the value of a column stands in a run. A column with these names is one of the CRD's."""
ARCHIVED = "Archived"
"""The column that says whether the condition of this name is True."""
_ENDS = {"Completed": "Complete", "Failed": "Failed", "Cancelled": "Failed"}
"""Condition that is True in a phase of the end."""
_WHOLE_NUMBERS = ("TTL", "Observed")


def runs_in_short(table: raw.Object) -> list[dict[str, Any]] | None:
    """Return the runs of a table, with those parts of spec and status that have a column.

    A run that has ended has the conditions that say so. None if the answer is no table, or if it
    lacks a column, as that of an older CRD does.
    """
    columns = [
        raw.text(each.get("name"))
        for each in raw.mappings(table.get("columnDefinitions"))
    ]
    if not {*PLACES, ARCHIVED} <= set(columns):
        return None
    return [_run(columns, row) for row in raw.mappings(table.get("rows"))]


def _run(columns: list[str], row: raw.Object) -> dict[str, Any]:
    listed = row.get("cells")
    cells = dict(
        zip(columns, listed if isinstance(listed, list) else (), strict=False)
    )
    metadata = raw.mapping(raw.mapping(row.get("object")).get("metadata"))
    body: dict[str, Any] = {
        "kind": names.KIND,
        "metadata": metadata,
        "spec": {},
        "status": {},
    }
    for name, path in PLACES.items():
        if (value := _value(name, cells)) is not None:
            _put(body, path, value)
    body["status"]["conditions"] = _conditions(cells)
    return body


def _value(name: str, cells: Mapping[str, object]) -> str | int | None:
    """Return what a cell shows; None if the run lacks it.

    A number that can't be read counts as -1, which is no generation, and as a time to live of 0:
    both ask for the whole run.
    """
    shown = cells.get(name)
    if name not in _WHOLE_NUMBERS:
        return raw.text(shown) or None
    if shown in (None, ""):
        return None
    return raw.number(shown, default=0 if name == "TTL" else -1)


def _conditions(cells: Mapping[str, object]) -> list[dict[str, str]]:
    """Return the conditions that the cells show: an end needs its time, too."""
    end = _ENDS.get(raw.text(cells.get("Phase")))
    is_archived = raw.text(cells.get(ARCHIVED)) == "True"
    shown = [end] if end is not None and raw.text(cells.get("Ended")) else []
    shown += [ARCHIVED] if is_archived else []
    return [{"type": type_, "status": "True"} for type_ in shown]


def _put(body: dict[str, Any], path: tuple[str, ...], value: str | int) -> None:
    *way, last = path
    part = body
    for step in way:
        part = part.setdefault(step, {})
    part[last] = value
