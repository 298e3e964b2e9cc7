"""Records of stages that no plan lists, because a search chose them: held against what the search may choose."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from benchrun_client.contract import Search, StageRecord, open_stage


def problem_with(record: StageRecord, searches: Sequence[Search], *, listed: int) -> str | None:
    """Why the record can't be of one of these searches, whose stages follow the `listed` ones; None: it can."""
    most = listed + sum(search.most_stages for search in searches)
    if record.sequence >= most:
        return f"the plan has {most} stages" if listed == most else f"the plan has at most {most} stages"
    place = open_stage(record.stage_id)
    search = next((s for s in searches if place is not None and s.workload == place[0]), None)
    if place is None or search is None:
        return f"stage {record.stage_id} is of no search of the plan"
    _, probe, repeat = place
    if not 1 <= probe <= search.max_probes or repeat > search.max_repeats:
        return f"stage {record.stage_id} is beyond {search.max_probes} probes of {search.max_repeats} stages"
    return _problem_with_load(record, search)


def _problem_with_load(record: StageRecord, search: Search) -> str | None:
    if record.probe is None:
        return f"stage {record.stage_id} does not say its load"
    value = _number(record.probe.value)
    if value is None or format(value.normalize(), "f") != record.probe.value:
        return f"stage {record.stage_id}: {record.probe.value!r} is no load"
    if not Decimal(search.lowest) <= value <= Decimal(search.highest):
        return f"stage {record.stage_id}: {value} is not between {search.lowest} and {search.highest}"
    if search.axis == "concurrency" and value != int(value):
        return f"stage {record.stage_id}: {value} users are no whole number"
    asked, sent = search.requests_at(value), len(record.requests.ok)
    return None if asked == sent else f"stage {record.stage_id} has {sent} requests, asked for were {asked}"


def _number(text: str) -> Decimal | None:
    try:
        value = Decimal(text)
    except InvalidOperation:
        return None
    return value if value.is_finite() else None
