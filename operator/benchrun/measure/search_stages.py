"""Records of stages that a search chose: held against what it may choose."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from benchrun_client.contract import Search, StageRecord, open_stage

_LOAD = re.compile(r"[0-9]{1,12}(\.[0-9]{1,10})?")


def probe_problem(record: StageRecord, searches: Sequence[Search]) -> str | None:
    """Why the record's load can't be one that its search chose; None: it can, or the stage is of no search."""
    place = open_stage(record.stage_id)
    search = next((s for s in searches if place is not None and s.workload == place[0]), None)
    if search is None:
        return None if record.probe is None else f"stage {record.stage_id!r} is of no search"
    if record.probe is None:
        return f"stage {record.stage_id} does not say its load"
    text = record.probe.value
    value = Decimal(text) if _LOAD.fullmatch(text) else None
    if value is None or format(value.normalize(), "f") != text:
        return f"stage {record.stage_id}: {text!r} is no load"
    if not Decimal(search.lowest) <= value <= Decimal(search.highest):
        return f"stage {record.stage_id}: {value} is not between {search.lowest} and {search.highest}"
    if search.axis == "concurrency" and value != int(value):
        return f"stage {record.stage_id}: {value} users are no whole number"
    asked, sent = search.requests_at(value), len(record.requests.ok)
    return None if asked == sent else f"stage {record.stage_id} has {sent} requests, asked for were {asked}"
