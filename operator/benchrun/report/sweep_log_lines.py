"""A sweep that goes on, as lines for a log: what its runs say, each by its variant, and how many have ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from benchrun.api.conditions import find_condition
from benchrun.api.sweep.status import SweepReason
from benchrun.report.durations import clock
from benchrun.report.followed_sweep import EndedRun, FollowedSweep
from benchrun.report.live_view import seconds_since_begin, silence
from benchrun.report.log_lines import SIGN_OF_LIFE_SECONDS, Said, news


@dataclass(frozen=True, slots=True)
class SaidOfSweep:
    """What was printed of a sweep so far."""

    what: tuple[str | None, ...] = ()
    """Phase, count, what is waited for, and trouble, as printed last."""
    runs: Mapping[str, Said] = field(default_factory=dict)
    """By name, of those that go on."""
    ended: int = 0
    at: datetime | None = None
    """When the last line was printed."""


def sweep_log_lines(sweep: FollowedSweep, said: SaidOfSweep, *, now: datetime) -> tuple[tuple[str, ...], SaidOfSweep]:
    """Lines to print now, with the time since the sweep was accepted, and what is said with them."""
    lines = [_end(run) for run in sweep.ended[said.ended :]]
    runs: dict[str, Said] = {}
    for name, each in sweep.going_on.items():
        new, runs[name] = news(each.run, said.runs.get(name, Said()), now=now)
        lines += [f"{each.title}: {line}" for line in new]
    trouble = sweep.trouble or silence(sweep, now=now)
    what = (sweep.status.phase, _counted(sweep), _waited_for(sweep), trouble)
    quiet = said.at is not None and (now - said.at).total_seconds() < SIGN_OF_LIFE_SECONDS
    if what != said.what or (not quiet and not lines):
        lines.append(trouble if trouble is not None else " · ".join(part for part in what if part))
    time = clock(seconds_since_begin(sweep, now=now))
    return tuple(f"{time}  {line}" for line in lines), SaidOfSweep(
        what, runs, len(sweep.ended), now if lines else said.at
    )


def _end(run: EndedRun) -> str:
    """Why, where it ended early: its tables are not shown here."""
    return f"{run.title}: {run.word}" + (f" · {run.message}" if run.word in ("Failed", "Cancelled") else "")


def _counted(sweep: FollowedSweep) -> str | None:
    runs = sweep.status.runs
    return f"{runs.summary} runs" if runs is not None and runs.summary else None


def _waited_for(sweep: FollowedSweep) -> str | None:
    """While it measures, its runs speak for it; why it ended is said above its tables, which come next."""
    status = sweep.status
    step = find_condition(status.conditions, "Reconciling")
    measuring = step is not None and step.reason == SweepReason.MEASURING
    return None if measuring or status.completion_time is not None else status.message
