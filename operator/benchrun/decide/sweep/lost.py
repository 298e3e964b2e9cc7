"""Runs that say nothing about their variant: what ended them came from outside."""

from __future__ import annotations

from benchrun.api.codes import Code
from benchrun.api.conditions import Reason
from benchrun.api.status import BenchmarkRunStatus
from benchrun.observe.swept_runs import SweptRun

REASONS = frozenset(
    {Reason.EVICTED, Reason.SERVER_RESTARTED, Reason.SERVER_GONE, Reason.CLIENT_GONE, Reason.SHARD_LOST}
)
"""Why a run failed, where the next one of the same variant may well not."""
_CODES = frozenset({Code.SERVER_RESTARTED, Code.COUNTERS_RESET})


def is_lost(run: SweptRun, figures: BenchmarkRunStatus | None) -> bool:
    """Whether the run ended with a pod that was taken away or began anew. `figures`: what was read of it, if it was.

    A restart in the last stage is found by the judge only, when every record is there and the run is Completed.
    """
    if run.state == "Failed":
        return run.reason in REASONS
    if run.state != "Completed" or figures is None:
        return False
    return any(row.verdict == "Invalid" and not _CODES.isdisjoint(row.findings) for row in figures.results)
