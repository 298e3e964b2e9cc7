"""A sweep that goes on, as a screen shows it: how many of its runs have ended, and those that go on, each as its own screen would."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.observe import raw
from benchrun.report.durations import told
from benchrun.report.followed_sweep import EndedRun, FollowedSweep
from benchrun.report.live_view import LiveView, live_view, seconds_since_begin, silence


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
        left=_left(status, done=done, total=total, now=now),
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


def _left(status: BenchmarkSweepStatus, *, done: int, total: int, now: datetime) -> str | None:
    """As if runs took equally long, and those under way were half done. Nobody can tell before one has ended, or while the sweep
    is suspended."""
    begun, running = raw.instant(status.accepted_time), status.runs.running if status.runs is not None else 0
    if begun is None or done == 0 or done >= total or status.phase != "Running":
        return None
    passed = done + running / 2
    return f"about {told(max(0.0, (now - begun).total_seconds()) * (total - passed) / passed)} left"
