"""The figures of ended runs, and a sweep's runs, read from their raw status.

Total functions: whatever is missing or of another type is left out; nothing raises.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal

from benchrun.api import Reason
from benchrun.observe import untrusted_json as raw
from benchrun.observe.views import Run

HEADLINE_FIGURES = (
    "request_throughput",
    "output_throughput",
    "request_goodput",
    "median_ttft_ms",
    "p99_ttft_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "p99_e2el_ms",
)
"""Names of figures in `status.results[].metrics`; their values are of the steady part, if there is
one."""
MAX_ROWS = 16  # most load points remembered of one run
_MAX_WORD_CHARS = 40
_MAX_NAME_CHARS = 160


@dataclass(frozen=True, slots=True)
class LoadPointFigures:
    """The figures of one load point."""

    load_point: str
    workload: str
    axis: str
    value: str
    verdict: str
    figures: tuple[float | None, ...]
    """Values of HEADLINE_FIGURES; None if nothing was measured, or too few requests to rely on the
    value."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The outcome of one run that has ended."""

    ended_at: datetime
    phase: str
    verdict: str  # Verdict; empty for a run in which nothing was measured.
    load_points: tuple[LoadPointFigures, ...]
    load_points_left_out: int  # Number of load points beyond MAX_ROWS.


def finished_run_of(status: raw.Object) -> FinishedRun | None:
    """Return the outcome of an ended run from its status.

    None if the status does not say when the run ended.
    """
    if (ended_at := raw.instant(status.get("completionTime"))) is None:
        return None
    headline = raw.text(
        raw.mapping(status.get("headline")).get("loadPoint"), _MAX_NAME_CHARS
    )
    rows = {
        raw.text(row.get("loadPoint"), _MAX_NAME_CHARS): row
        for row in raw.mappings(status.get("results"))
    }
    rows.pop("", None)
    # The load point that `kubectl get` shows is never left out.
    kept = sorted(rows, key=lambda name: name != headline)[:MAX_ROWS]
    return FinishedRun(
        ended_at=ended_at,
        phase=raw.text(status.get("phase"), _MAX_WORD_CHARS),
        verdict=raw.text(status.get("verdict"), _MAX_WORD_CHARS),
        load_points=tuple(_figures_of(name, rows[name]) for name in kept),
        load_points_left_out=len(rows) - len(kept),
    )


def _figures_of(load_point: str, row: raw.Object) -> LoadPointFigures:
    steady = (
        raw.mapping(row.get("steady"))
        if row.get("throughputOf") in ("Plateau", "Arrivals")
        else {}
    )
    metrics = {**raw.mapping(row.get("metrics")), **steady}
    listed = row.get("uncertain")
    uncertain = listed if isinstance(listed, list) else []
    words = {
        name: raw.text(row.get(name), _MAX_WORD_CHARS)
        for name in ("workload", "axis", "value", "verdict")
    }
    return LoadPointFigures(
        load_point=load_point,
        **words,
        figures=tuple(
            None if name in uncertain else _finite(metrics.get(name))
            for name in HEADLINE_FIGURES
        ),
    )


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= raw.MAX_NUMBER else None


State = Literal["Running", "Completed", "Failed", "Cancelled"]


@dataclass(frozen=True, slots=True)
class SweptRun:
    """One run of a sweep."""

    name: str
    uid: str
    state: State
    cancelling: bool  # Whether spec.cancel is set.
    deleting: bool
    reason: str = ""  # Why the run ended early: the reason of its condition Failed.
    message: str = ""
    held_seconds: float = 0.0
    """Seconds from the scheduling of an ended run's server to the server's release."""

    @property
    def ended(self) -> bool:
        """Return whether the run is over, in any way."""
        return self.state != "Running"


def swept_runs(runs: Iterable[Run]) -> dict[str, SweptRun]:
    """Return the facts that a sweep needs about its runs, by the run's name."""
    return {run.name: _swept(run) for run in runs}


def state_of(status: raw.Object) -> State:
    """Return how far a run or sweep is by its conditions, whatever release wrote the status."""
    failed = raw.condition(status, "Failed")
    if failed.get("status") == "True":
        return "Cancelled" if failed.get("reason") == Reason.CANCELLED else "Failed"
    complete = raw.condition(status, "Complete")
    return "Completed" if complete.get("status") == "True" else "Running"


def _swept(run: Run) -> SweptRun:
    failed = raw.condition(run.status, "Failed")
    state = state_of(run.status)
    early = state in ("Failed", "Cancelled")
    status = run.status
    since = raw.instant(status.get("scheduledTime"))
    until = raw.instant(status.get("serverReleasedTime")) or raw.instant(
        status.get("completionTime")
    )
    return SweptRun(
        run.name,
        run.uid,
        state,
        cancelling=run.spec.get("cancel") is True,
        deleting=run.deleting,
        reason=raw.text(failed.get("reason"), 128) if early else "",
        message=raw.text(failed.get("message"), raw.MAX_MESSAGE_CHARS)
        if early
        else "",
        held_seconds=(raw.seconds_between(since, until) or 0.0)
        if state != "Running"
        else 0.0,
    )


_SHORT_MESSAGE_CHARS = 256


def in_short(run: Run) -> Run:
    """Return the run with only those parts of spec and status that its sweep reads."""
    conditions = []
    for type_ in ("Complete", "Failed"):
        condition = raw.condition(run.status, type_)
        words = {
            key: raw.text(condition.get(key), 128) for key in ("status", "reason")
        }
        message = raw.text(condition.get("message"), _SHORT_MESSAGE_CHARS)
        conditions.append({"type": type_, **words, "message": message})
    times = {
        name: raw.text(run.status.get(name), _MAX_WORD_CHARS)
        for name in ("scheduledTime", "serverReleasedTime", "completionTime")
    }
    return replace(
        run,
        spec={"cancel": run.spec.get("cancel") is True},
        status={"conditions": conditions, **times},
    )
