"""A followed run or sweep as a screen shows it: data only, no layout."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from benchrun.api import BenchmarkRunStatus
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.observe import untrusted_json as raw
from benchrun.report.run_summary import Step, steps
from benchrun.report.tables import figure, format_seconds
from benchrun.report.watch_state import Followed, FollowedRun, FollowedSweep, StageLine

SILENT_SECONDS = 15  # A running operator updates a new run within a second.
SEARCH = "/search-"  # In the names of stages whose load is searched: chat/search-07/r1.
NO_OPERATOR = (
    "no operator has looked at it yet; is benchrun's operator installed and running? "
    "kubectl get deployments -A -l app.kubernetes.io/name=benchrun"
)


@dataclass(frozen=True, slots=True)
class Gauge:
    """One figure of the servers over time."""

    label: str
    values: tuple[float | None, ...]  # Oldest first.
    now: str  # The latest, with its unit.
    top: float | None = None  # Where the scale ends; None: at the largest value.


@dataclass(frozen=True, slots=True)
class LiveView:
    """A run, or a sweep with its runs in place of stages."""

    name: str
    phase: str
    elapsed: str  # Since it was accepted.
    message: str
    trouble: str | None
    done: int
    total: int  # 0: not known yet.
    left: str | None  # How long it may still take; None: not known.
    unit: str = "stages"  # What is counted: stages of a run, runs of a sweep.
    steps: tuple[Step, ...] = ()
    stage: str | None = None  # Under way.
    stages: tuple[StageLine, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    under_way: tuple[LiveView, ...] = ()  # Runs of a sweep, called by their variants.
    ended: tuple[FollowedRun, ...] = ()  # Runs of a sweep that ended while it was followed.


def live_view(followed: Followed, *, now: datetime) -> LiveView:
    """The screen at that instant."""
    done, total = _progress(followed)
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
    stage = followed.status.progress.stage if followed.status.progress is not None else None
    return replace(
        view,
        steps=steps(followed.status, now=now),
        stage=stage,
        left=_run_left(followed, stage, done=done, total=total, now=now),
        stages=followed.stages,
        gauges=_gauges(followed),
    )


def _progress(followed: Followed) -> tuple[int, int]:
    """Stages of a run that are done, or runs of a sweep that have ended or are no longer needed; and all there are."""
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
    """A remark where no operator has looked at it for a while."""
    looked_at = followed.status.observed_generation >= 0 or followed.status.phase is not None
    return None if looked_at or seconds_since_begin(followed, now=now) < SILENT_SECONDS else NO_OPERATOR


def _run_left(run: FollowedRun, stage: str | None, *, done: int, total: int, now: datetime) -> str | None:
    """As if stages took equally long, and the one under way were half done. A search has the most stages there can be."""
    begun = raw.instant(run.status.start_time)
    if begun is None or done == 0 or done >= total:
        return None
    stage_seconds = max(0.0, (now - begun).total_seconds()) / (done + 0.5)
    searches = any(SEARCH in (name or "") for name in (stage, *(line.stage for line in run.stages)))
    return f"{'at most' if searches else 'about'} {format_seconds(stage_seconds * (total - done - 0.5))} left"


def _sweep_left(status: BenchmarkSweepStatus, *, done: int, total: int, now: datetime) -> str | None:
    """As if runs took equally long, and those under way were half done. None before one has ended, and while it is suspended."""
    begun, running = raw.instant(status.accepted_time), status.runs.running if status.runs is not None else 0
    if begun is None or done == 0 or done >= total or status.phase != "Running":
        return None
    passed = done + running / 2
    return f"about {format_seconds(max(0.0, (now - begun).total_seconds()) * (total - passed) / passed)} left"


def _gauges(run: FollowedRun) -> tuple[Gauge, ...]:
    """None before the first sample. Each has its own scale: a long queue must not flatten what is running."""
    if run.status.live is None:
        return ()
    rows = (
        ("running", [each.running for each in run.samples], "", None),
        ("waiting", [each.waiting for each in run.samples], "", None),
        ("KV cache", [each.kv_cache_percent for each in run.samples], " %", 100.0),
        ("output", [each.generation_tokens_per_second for each in run.samples], " tok/s", None),
    )
    gauges = ((label, tuple(values), unit, top) for label, values, unit, top in rows if values)
    return tuple(Gauge(label, values, figure(values[-1], unit=unit), top) for label, values, unit, top in gauges)


def progress_line(status: BenchmarkRunStatus) -> str:
    """A run in one line: phase, stages done, what the servers are doing, and what it waits for."""
    servers = ""
    if (live := status.live) is not None:
        servers = (
            f"running {figure(live.running)}, waiting {figure(live.waiting)}, KV {figure(live.kv_cache_percent, unit=' %')}, "
            f"{figure(live.generation_tokens_per_second)} tok/s"
        )
    progress = status.progress.summary if status.progress is not None else None
    return " · ".join(part for part in (status.phase or "Pending", progress, servers, status.message) if part)
