"""Runs and sweeps that go on, as lines for a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from benchrun.api import find_condition
from benchrun.api.sweep.status import SweepReason
from benchrun.report.followed import EndedRun, Followed, FollowedSweep, StageLine, stage_figures
from benchrun.report.live_view import progress_line, seconds_since_begin, trouble
from benchrun.report.rows import clock

SIGN_OF_LIFE_SECONDS = 30.0
"""Pipelines end a job that prints nothing for minutes; nobody reads a line every five seconds."""
State = tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class Printed:
    """What was printed of a run or a sweep so far."""

    state: State = ()
    """Phase, what is waited for, and trouble, as printed last; of a sweep the count of its runs too."""
    stages: frozenset[int] = frozenset()
    ended: int = 0
    """Runs of a sweep whose end was printed."""
    runs: Mapping[str, Printed] = field(default_factory=dict)
    """Of a sweep, by name, those that go on."""
    at: datetime | None = None
    """When the last line was printed."""

    def is_due(self, state: State, *, now: datetime, others: bool) -> bool:
        """Whether the state is to be printed: it changed, or nothing was printed for a while and no `others` are printed now."""
        quiet = self.at is not None and (now - self.at).total_seconds() < SIGN_OF_LIFE_SECONDS
        return state != self.state or not (quiet or others)


def log_lines(run: Followed, printed: Printed, *, now: datetime) -> tuple[tuple[str, ...], Printed]:
    """Lines to print now, each with the time since the run was accepted, and what is printed with them."""
    lines, printed = _news(run, printed, now=now)
    return _timed(run, lines, now), printed


def sweep_log_lines(sweep: FollowedSweep, printed: Printed, *, now: datetime) -> tuple[tuple[str, ...], Printed]:
    """The same of a sweep: the news of its runs, each under its variant, and how many have ended."""
    lines = [_end(run) for run in sweep.ended[printed.ended :]]
    runs: dict[str, Printed] = {}
    for name, each in sweep.going_on.items():
        new, runs[name] = _news(each.run, printed.runs.get(name, Printed()), now=now)
        lines += [f"{each.title}: {line}" for line in new]
    problem, counts = trouble(sweep, now=now), sweep.status.runs
    counted = f"{counts.summary} runs" if counts is not None and counts.summary else None
    state = (sweep.status.phase, counted, _waited_for(sweep), problem)
    if printed.is_due(state, now=now, others=bool(lines)):
        lines.append(problem if problem is not None else " · ".join(part for part in state if part))
    at = now if lines else printed.at
    return _timed(sweep, lines, now), Printed(state, ended=len(sweep.ended), runs=runs, at=at)


def _timed(of: Followed | FollowedSweep, lines: list[str], now: datetime) -> tuple[str, ...]:
    time = clock(seconds_since_begin(of, now=now))
    return tuple(f"{time}  {line}" for line in lines)


def _news(run: Followed, printed: Printed, *, now: datetime) -> tuple[list[str], Printed]:
    """While stages are measured the message names the stage, which the line of a finished stage does too."""
    status, problem = run.status, trouble(run, now=now)
    state = (status.phase, None if status.phase == "Running" else status.message, problem)
    new = [line for line in run.stages if line.sequence not in printed.stages]
    lines = [_stage(run, line) for line in new]
    if printed.is_due(state, now=now, others=bool(lines)):
        # Why a run ended is above its tables, which come next.
        shown = status if status.completion_time is None else status.model_copy(update={"message": None})
        lines.append(problem if problem is not None else progress_line(shown))
    stages = printed.stages | {line.sequence for line in new}
    return lines, Printed(state, stages, at=now if lines else printed.at)


def _stage(run: Followed, line: StageLine) -> str:
    total = run.status.progress.stages_total if run.status.progress is not None else 0
    place = f"{line.sequence + 1}/{total}" if total else f"{line.sequence + 1}"
    name = f" {line.stage}" if line.stage is not None else ""
    return f"stage {place}{name}: {', '.join(stage_figures(line)) or 'measured'}"


def _end(run: EndedRun) -> str:
    """Why, where it ended early: its tables are not shown here."""
    return f"{run.title}: {run.word}" + (f" · {run.message}" if run.word in ("Failed", "Cancelled") else "")


def _waited_for(sweep: FollowedSweep) -> str | None:
    """None while its runs print what they do, and at the end, since why it ended is above its tables, which come next."""
    status = sweep.status
    step = find_condition(status.conditions, "Reconciling")
    measuring = step is not None and step.reason == SweepReason.MEASURING
    return None if measuring or status.completion_time is not None else status.message
