"""A run or a sweep that goes on, as a screen shows it: data only, no layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from benchrun.api import BenchmarkRunStatus
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.observe import raw
from benchrun.report.followed import EndedRun, Followed, FollowedSweep, StageLine
from benchrun.report.rows import figure, told
from benchrun.report.run_summary import Step, steps

SILENT_SECONDS = 15
"""An operator that is there looks at a new run within a second."""
SEARCH = "/search-"
"""In the names of stages whose load is searched: chat/search-07/r1."""
NOBODY_LOOKED = (
    "no operator has looked at it yet; is benchrun's operator installed and up? "
    "kubectl get deployments -A -l app.kubernetes.io/name=benchrun"
)


@dataclass(frozen=True, slots=True)
class Gauge:
    """One figure of the servers over time."""

    label: str
    values: tuple[float | None, ...]
    """Oldest first."""
    now: str
    """The latest, with its unit."""
    top: float | None = None
    """Where the scale ends; None: at the largest value."""


@dataclass(frozen=True, slots=True)
class LiveView:
    """What there is to show."""

    name: str
    phase: str
    elapsed: str
    """Since the run was accepted."""
    steps: tuple[Step, ...]
    done: int
    total: int
    """0: not known yet."""
    stage: str | None
    """Under way."""
    left: str | None
    """How long it may still take; None: nobody can tell."""
    stages: tuple[StageLine, ...]
    gauges: tuple[Gauge, ...]
    message: str
    trouble: str | None
    unit: str = "stages"
    """What is counted: stages of a run, runs of a sweep."""


def live_view(run: Followed, *, now: datetime) -> LiveView:
    """The screen at that instant."""
    status = run.status
    progress = status.progress
    done, total = (progress.stages_done, progress.stages_total) if progress else (0, 0)
    return LiveView(
        name=run.name,
        phase=status.phase or "Pending",
        elapsed=told(seconds_since_begin(run, now=now)),
        steps=steps(status, now=now),
        done=done,
        total=total,
        stage=progress.stage if progress else None,
        left=_left(run, done=done, total=total, now=now),
        stages=run.stages,
        gauges=_gauges(run),
        message=status.message or "",
        trouble=run.trouble or silence(run, now=now),
    )


def seconds_since_begin(run: Followed | FollowedSweep, *, now: datetime) -> float:
    """Since it was accepted, or created where it was not yet; until its end where it has ended."""
    begun = raw.instant(run.status.accepted_time) or run.created_at or now
    ended = raw.instant(run.status.completion_time) or now
    return max(0.0, (ended - begun).total_seconds())


def silence(run: Followed | FollowedSweep, *, now: datetime) -> str | None:
    """What no operator has touched for a while."""
    looked_at = run.status.observed_generation >= 0 or run.status.phase is not None
    return None if looked_at or seconds_since_begin(run, now=now) < SILENT_SECONDS else NOBODY_LOOKED


def _left(run: Followed, *, done: int, total: int, now: datetime) -> str | None:
    """As if stages took equally long, and the one under way were half done. A search has the most stages there can be."""
    begun = raw.instant(run.status.start_time)
    if begun is None or done == 0 or done >= total:
        return None
    a_stage = max(0.0, (now - begun).total_seconds()) / (done + 0.5)
    under_way = run.status.progress.stage if run.status.progress is not None else None
    searches = any(SEARCH in name for name in (under_way, *(line.stage for line in run.stages)) if name is not None)
    return f"{'at most' if searches else 'about'} {told(a_stage * (total - done - 0.5))} left"


def _gauges(run: Followed) -> tuple[Gauge, ...]:
    """Nothing before the first reading. Each has a scale of its own: a long queue must not flatten what is running."""
    readings = run.readings
    if not readings or run.status.live is None:
        return ()
    last = readings[-1]
    return (
        Gauge("running", tuple(each.running for each in readings), figure(last.running)),
        Gauge("waiting", tuple(each.waiting for each in readings), figure(last.waiting)),
        Gauge(
            "KV cache",
            tuple(each.kv_cache_percent for each in readings),
            figure(last.kv_cache_percent, unit=" %"),
            100.0,
        ),
        Gauge(
            "output",
            tuple(each.generation_tokens_per_second for each in readings),
            figure(last.generation_tokens_per_second, unit=" tok/s"),
        ),
    )


# ---- live sweep -------------------------------------------------------------------------------------------------------
# A sweep that goes on, as a screen shows it: how many of its runs have ended, and those that go on, each as its own screen would.


@dataclass(frozen=True, slots=True)
class SweepView:
    """What there is to show."""

    head: LiveView
    """The sweep itself, its runs in place of stages."""
    under_way: tuple[LiveView, ...]
    """Its runs that go on, called by their variants."""
    ended: tuple[EndedRun, ...]


def sweep_view(sweep: FollowedSweep, *, now: datetime) -> SweepView:
    """The screen at that instant."""
    status = sweep.status
    done, total = runs_done(status)
    head = LiveView(
        name=sweep.name,
        phase=status.phase or "Pending",
        elapsed=told(seconds_since_begin(sweep, now=now)),
        steps=(),
        done=done,
        total=total,
        stage=None,
        left=_sweep_left(status, done=done, total=total, now=now),
        stages=(),
        gauges=(),
        message=status.message or "",
        trouble=sweep.trouble or silence(sweep, now=now),
        unit="runs",
    )
    under_way = tuple(live_view(replace(each.run, name=each.title), now=now) for each in sweep.going_on.values())
    return SweepView(head, under_way, sweep.ended)


def runs_done(status: BenchmarkSweepStatus) -> tuple[int, int]:
    """Runs that have ended or are not needed any more, and all there are."""
    runs, total = status.runs, status.estimate.runs if status.estimate is not None else 0
    return (runs.completed + runs.failed + runs.cancelled + runs.skipped, total) if runs is not None else (0, total)


def _sweep_left(status: BenchmarkSweepStatus, *, done: int, total: int, now: datetime) -> str | None:
    """As if runs took equally long, and those under way were half done. Nobody can tell before one has ended, or while the sweep
    is suspended."""
    begun, running = raw.instant(status.accepted_time), status.runs.running if status.runs is not None else 0
    if begun is None or done == 0 or done >= total or status.phase != "Running":
        return None
    passed = done + running / 2
    return f"about {told(max(0.0, (now - begun).total_seconds()) * (total - passed) / passed)} left"


# ---- progress line ----------------------------------------------------------------------------------------------------
# A run in one line, while it goes on.


def progress_line(status: BenchmarkRunStatus) -> str:
    """Phase, stages done, what the servers are doing, and the sentence that says what is waited for."""
    parts: list[str] = [status.phase or "Pending"]
    if status.progress is not None:
        parts.append(status.progress.summary)
    if status.live is not None:
        live = status.live
        parts.append(
            f"running {figure(live.running)}, waiting {figure(live.waiting)}, KV {figure(live.kv_cache_percent, unit=' %')}, "
            f"{figure(live.generation_tokens_per_second)} tok/s"
        )
    if status.message:
        parts.append(status.message)
    return " · ".join(parts)
