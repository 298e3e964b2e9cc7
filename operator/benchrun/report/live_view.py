"""A run or a sweep that goes on, as a screen shows it: data only, no layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from benchrun.api import BenchmarkRunStatus
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.observe import raw
from benchrun.report.followed import EndedRun, Followed, FollowedSweep, StageLine
from benchrun.report.rows import figure, format_seconds
from benchrun.report.run_summary import Step, steps

SILENT_SECONDS = 15
"""A running operator looks at a new run within a second."""
SEARCH = "/search-"
"""In the names of stages whose load is searched: chat/search-07/r1."""
NOBODY_LOOKED = (
    "no operator has looked at it yet; is benchrun's operator installed and running? "
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
    """What there is to show of a run, or of a sweep, whose runs then stand in place of stages."""

    name: str
    phase: str
    elapsed: str
    """Since it was accepted."""
    done: int
    total: int
    """0: not known yet."""
    left: str | None
    """How long it may still take; None: not known."""
    message: str
    trouble: str | None
    stage: str | None = None
    """Under way."""
    steps: tuple[Step, ...] = ()
    stages: tuple[StageLine, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    unit: str = "stages"
    """What is counted: stages of a run, runs of a sweep."""


@dataclass(frozen=True, slots=True)
class SweepView:
    """What there is to show of a sweep."""

    head: LiveView
    under_way: tuple[LiveView, ...]
    """Its runs that go on, under the names of their variants."""
    ended: tuple[EndedRun, ...]


def live_view(run: Followed, *, now: datetime) -> LiveView:
    """The screen at that instant."""
    status, progress = run.status, run.status.progress
    done, total = (progress.stages_done, progress.stages_total) if progress else (0, 0)
    return replace(
        _view(run, done, total, _left(run, done=done, total=total, now=now), now=now),
        stage=progress.stage if progress else None,
        steps=steps(status, now=now),
        stages=run.stages,
        gauges=_gauges(run),
    )


def sweep_view(sweep: FollowedSweep, *, now: datetime) -> SweepView:
    """The screen at that instant: how many runs have ended, and those that go on, each as its own screen would show it."""
    done, total = runs_done(sweep.status)
    left = _sweep_left(sweep.status, done=done, total=total, now=now)
    head = replace(_view(sweep, done, total, left, now=now), unit="runs")
    under_way = tuple(live_view(replace(each.run, name=each.title), now=now) for each in sweep.going_on.values())
    return SweepView(head, under_way, sweep.ended)


def _view(of: Followed | FollowedSweep, done: int, total: int, left: str | None, *, now: datetime) -> LiveView:
    return LiveView(
        name=of.name,
        phase=of.status.phase or "Pending",
        elapsed=format_seconds(seconds_since_begin(of, now=now)),
        done=done,
        total=total,
        left=left,
        message=of.status.message or "",
        trouble=trouble(of, now=now),
    )


def seconds_since_begin(of: Followed | FollowedSweep, *, now: datetime) -> float:
    """Since it was accepted, or created where it was not yet; until its end where it has ended."""
    begun = raw.instant(of.status.accepted_time) or of.created_at or now
    ended = raw.instant(of.status.completion_time) or now
    return max(0.0, (ended - begun).total_seconds())


def trouble(of: Followed | FollowedSweep, *, now: datetime) -> str | None:
    """Why there is no news, or that no operator has touched it for a while."""
    if of.trouble:
        return of.trouble
    looked_at = of.status.observed_generation >= 0 or of.status.phase is not None
    return None if looked_at or seconds_since_begin(of, now=now) < SILENT_SECONDS else NOBODY_LOOKED


def _left(run: Followed, *, done: int, total: int, now: datetime) -> str | None:
    """If all stages take equally long and the one under way is half done. A search counts the most stages it can take."""
    begun = raw.instant(run.status.start_time)
    if begun is None or done == 0 or done >= total:
        return None
    a_stage = max(0.0, (now - begun).total_seconds()) / (done + 0.5)
    under_way = run.status.progress.stage if run.status.progress is not None else None
    searches = any(SEARCH in name for name in (under_way, *(line.stage for line in run.stages)) if name is not None)
    return f"{'at most' if searches else 'about'} {format_seconds(a_stage * (total - done - 0.5))} left"


def _sweep_left(status: BenchmarkSweepStatus, *, done: int, total: int, now: datetime) -> str | None:
    """If all runs take equally long and those under way are half done. Not known before one has ended, or while suspended."""
    begun, running = raw.instant(status.accepted_time), status.runs.running if status.runs is not None else 0
    if begun is None or done == 0 or done >= total or status.phase != "Running":
        return None
    passed = done + running / 2
    return f"about {format_seconds(max(0.0, (now - begun).total_seconds()) * (total - passed) / passed)} left"


def runs_done(status: BenchmarkSweepStatus) -> tuple[int, int]:
    """Runs that have ended or are not needed any more, and all there are."""
    runs, total = status.runs, status.estimate.runs if status.estimate is not None else 0
    return (runs.completed + runs.failed + runs.cancelled + runs.skipped, total) if runs is not None else (0, total)


def _gauges(run: Followed) -> tuple[Gauge, ...]:
    """None before the first sample. Each has a scale of its own: a long queue must not flatten what is running."""
    if not run.samples or run.status.live is None:
        return ()
    figures = (
        ("running", "running", "", None),
        ("waiting", "waiting", "", None),
        ("KV cache", "kv_cache_percent", " %", 100.0),
        ("output", "generation_tokens_per_second", " tok/s", None),
    )
    gauges = []
    for label, name, unit, top in figures:
        values = tuple(getattr(sample, name) for sample in run.samples)
        gauges.append(Gauge(label, values, figure(values[-1], unit=unit), top))
    return tuple(gauges)


def progress_line(status: BenchmarkRunStatus) -> str:
    """A run that goes on in one line: phase, stages done, what the servers do, and what is waited for."""
    parts = [status.phase or "Pending", status.progress.summary if status.progress is not None else None]
    live = status.live
    if live is not None:
        parts.append(
            f"running {figure(live.running)}, waiting {figure(live.waiting)}, KV {figure(live.kv_cache_percent, unit=' %')}, "
            f"{figure(live.generation_tokens_per_second)} tok/s"
        )
    return " · ".join(part for part in (*parts, status.message) if part)
