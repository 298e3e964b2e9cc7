"""Envelopes of stages that no plan lists, because a search chose them: held against what the search may choose."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun_client import contract
from benchrun_client.contract import Envelope, open_stage


def problem_with(envelope: Envelope, searches: Sequence[contract.Search], *, listed: int) -> str | None:
    """Why the record can't be of one of these searches, whose stages follow the `listed` ones; None: it can, as far as its
    envelope says. Its load stands in the record (`benchrun.measure.search_stages`)."""
    most = listed + sum(search.most_stages for search in searches)
    if envelope.sequence >= most:
        return f"the plan has {most} stages" if listed == most else f"the plan has at most {most} stages"
    place = open_stage(envelope.stage_id)
    search = next((s for s in searches if place is not None and s.workload == place[0]), None)
    if place is None or search is None:
        return f"stage {envelope.stage_id!r} is of no search of the plan"
    _, probe, repeat = place
    if not 1 <= probe <= search.max_probes or repeat > search.max_repeats:
        return f"stage {envelope.stage_id} is beyond {search.max_probes} probes of {search.max_repeats} stages"
    if envelope.ends_search not in (None, search.workload):
        return f"stage {envelope.stage_id} can't end the search of {envelope.ends_search!r}"
    return None
