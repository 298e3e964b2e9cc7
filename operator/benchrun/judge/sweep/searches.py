"""What the searches of a variant's runs found, side by side: one load a fresh server."""

from __future__ import annotations

from benchrun.api.status import SearchResult
from benchrun.api.sweep.status import FoundLoad
from benchrun.judge.sweep.measured import Side

NONE_MET = "none"


def found_loads(side: Side) -> tuple[FoundLoad, ...]:
    """One entry a workload that is searched, in their order."""
    by_workload: dict[str, list[SearchResult]] = {}
    for run in side.runs:
        for search in run.status.searches:
            by_workload.setdefault(search.workload, []).append(search)
    return tuple(
        FoundLoad(workload=workload, axis=found[0].axis, loads=[search.lower or NONE_MET for search in found])
        for workload, found in by_workload.items()
    )
