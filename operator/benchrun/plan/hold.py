"""How long a run may hold its servers, and its client may live, with an operator or without."""

from __future__ import annotations

from benchrun.api.spec import BenchmarkRunSpec

MAX_HOLD_SECONDS = 86_400
"""The bound where the chart sets no other."""
MARGIN_SECONDS = 60
"""The operator acts first: a release that comes at the same instant would only confuse."""
MAX_PENDING_SECONDS = 604_800
"""In place of a pendingDeadlineSeconds of 0; the greatest that may be written."""
LEEWAY_SECONDS = 86_400
"""Beyond the deadlines the operator keeps, for the time it may be down."""


def hold_seconds(spec: BenchmarkRunSpec, max_hold_seconds: int) -> int:
    """How long a server may be held once it is scheduled. Written at its creation; a deadline that is raised later does
    not change it."""
    startup, run = spec.startup_deadline_seconds, spec.run_deadline_seconds
    if startup == 0 or run == 0:
        return max_hold_seconds
    return min(startup + run + MARGIN_SECONDS, max_hold_seconds)


def client_seconds(spec: BenchmarkRunSpec, max_hold_seconds: int) -> int:
    """The deadline of the client's Job: later than any of the run's, and there even where the run has none."""
    pending = 0 if spec.started is None else spec.pending_deadline_seconds or MAX_PENDING_SECONDS
    startup = spec.startup_deadline_seconds or max_hold_seconds
    run = spec.run_deadline_seconds or max_hold_seconds
    return pending + startup + run + LEEWAY_SECONDS
