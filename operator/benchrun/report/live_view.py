"""A run or a sweep that goes on, as a screen shows it: data only, no layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from benchrun.api import BenchmarkRunStatus
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.observe import untrusted_json as raw
from benchrun.report.followed import Followed, FollowedRun, FollowedSweep, StageLine
from benchrun.report.rows import figure, format_seconds
from benchrun.report.run_summary import Step, steps

SILENT_SECONDS = 15
"""An operator that runs looks at a new run within a second."""
SEARCH = "/search-"
"""In the names of stages whose load is searched: chat/search-07/r1."""
NO_OPERATOR = (
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
    """What there is to show of a run, or of a sweep with its runs in place of stages."""

    name: str
    phase: str
    elapsed: str
    """Since it was accepted."""
    message: str
    trouble: str | None
    done: int
    total: int
    """0: not known yet."""
    left: str | None
    """How long it may still take; None: not known."""
    unit: str = "stages"
    """What is counted: stages of a run, runs of a sweep."""
    steps: tuple[Step, ...] = ()
    stage: str | None = None
    """Under way."""
    stages: tuple[StageLine, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    under_way: tuple[LiveView, ...] = ()
    """Runs of a sweep, called by their variants."""
    ended: tuple[FollowedRun, ...] = ()
    """Runs of a sweep that ended while it was followed."""


def live_view(followed: Followed, *, now: datetime) -> LiveView:
    """The screen at that instant."""
    done, total = progress_of(followed)
    view = LiveView(
        name=followed.name,
        phase=followed.status.phase or "Pending",
        elapsed=format_seconds(seconds_since_begin(followed, now=now)),
        message=followed.status.message or "",
        trouble=followed.trouble or silence(followed, now=now),
        done=done,
        total=total,
        left=None,
    )
    if isinstance(followed, FollowedSweep):
        return replace(
            view,
            unit="runs",
            left=_sweep_left(followed.status, done=done, total=total, now=now),
            under_way=tuple(replace(live_view(run, now=now), name=run.title) for run in followed.under_way.values()),
            ended=followed.ended,
        )
    progress = followed.status.progress
    return replace(
        view,
        steps=steps(followed.status, now=now),
        stage=progress.stage if progress else None,
        left=_run_left(followed, done=done, total=total, now=now),
        stages=followed.stages,
        gauges=_gauges(followed),
    )


def progress_of(followed: Followed) -> tuple[int, int]:
    """Stages of a run that are done, or runs of a sweep that have ended or are not needed any more; and all there are."""
    if isinstance(followed, FollowedRun):
        progress = followed.status.progress
        return (progress.stages_done, progress.stages_total) if progress is not None else (0, 0)
    runs, estimate = followed.status.runs, followed.status.estimate
    total = estimate.runs if estimate is not None else 0
    return (runs.completed + runs.failed + runs.cancelled + runs.skipped, total) if runs is not None else (0, total)


def seconds_since_begin(followed: Followed, *, now: datetime) -> float:
    """Since it was accepted, or created where it was not yet; until its end where it has ended."""
    begun = raw.instant(followed.status.accepted_time) or followed.created_at or now
    ended = raw.instant(followed.status.completion_time) or now
    return max(0.0, (ended - begun).total_seconds())


def silence(followed: Followed, *, now: datetime) -> str | None:
    """The remark on what no operator has touched for a while."""
    looked_at = followed.status.observed_generation >= 0 or followed.status.phase is not None
    return None if looked_at or seconds_since_begin(followed, now=now) < SILENT_SECONDS else NO_OPERATOR


def _run_left(run: FollowedRun, *, done: int, total: int, now: datetime) -> str | None:
    """As if stages took equally long, and the one under way were half done. A search has the most stages there can be."""
    begun = raw.instant(run.status.start_time)
    if begun is None or done == 0 or done >= total:
        return None
    stage_seconds = max(0.0, (now - begun).total_seconds()) / (done + 0.5)
    under_way = run.status.progress.stage if run.status.progress is not None else None
    searches = any(SEARCH in name for name in (under_way, *(line.stage for line in run.stages)) if name is not None)
    return f"{'at most' if searches else 'about'} {format_seconds(stage_seconds * (total - done - 0.5))} left"


def _sweep_left(status: BenchmarkSweepStatus, *, done: int, total: int, now: datetime) -> str | None:
    """As if runs took equally long, and those under way were half done. Not known before one has ended, or while the sweep
    is suspended."""
    begun, running = raw.instant(status.accepted_time), status.runs.running if status.runs is not None else 0
    if begun is None or done == 0 or done >= total or status.phase != "Running":
        return None
    passed = done + running / 2
    return f"about {format_seconds(max(0.0, (now - begun).total_seconds()) * (total - passed) / passed)} left"


def _gauges(run: FollowedRun) -> tuple[Gauge, ...]:
    """None before the first sample. Each has a scale of its own: a long queue must not flatten what is running."""
    if not run.samples or run.status.live is None:
        return ()
    rows = (
        ("running", [each.running for each in run.samples], "", None),
        ("waiting", [each.waiting for each in run.samples], "", None),
        ("KV cache", [each.kv_cache_percent for each in run.samples], " %", 100.0),
        ("output", [each.generation_tokens_per_second for each in run.samples], " tok/s", None),
    )
    return tuple(Gauge(label, tuple(values), figure(values[-1], unit=unit), top) for label, values, unit, top in rows)


def progress_line(status: BenchmarkRunStatus) -> str:
    """A run in one line: phase, stages done, what the servers are doing, and what it waits for."""
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
