"""Lists of runs as tables, as the API server makes them of the CRD's columns."""

import re
from collections.abc import Iterable
from typing import Any

from benchrun.api import crd

Json = dict[str, Any]
_CONDITION = re.compile(r'\.status\.conditions\[\?\(@\.type=="(\w+)"\)\]\.status')


def table_of(runs: Iterable[Json]) -> Json:
    """Return the table of these runs: their metadata and all columns, as texts."""
    columns = crd.RUN.printer_columns()
    rows = [
        {
            "cells": [_cell(run, column["jsonPath"]) for column in columns],
            "object": {
                "kind": "PartialObjectMetadata",
                "metadata": run["metadata"],
            },
        }
        for run in runs
    ]
    named = [{"name": column["name"]} for column in columns]
    return {"kind": "Table", "columnDefinitions": named, "rows": rows}


def _cell(run: Json, path: str) -> str | None:
    if (asked := _CONDITION.fullmatch(path)) is not None:
        conditions = run.get("status", {}).get("conditions", [])
        states = (c["status"] for c in conditions if c["type"] == asked[1])
        return next(states, None)
    part: Any = run
    for step in path.strip(".").split("."):
        part = part.get(step) if isinstance(part, dict) else None
    return None if part is None else str(part)
