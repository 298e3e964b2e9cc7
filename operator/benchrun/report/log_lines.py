"""Runs and sweeps that go on, as lines for a log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from benchrun.api import find_condition
from benchrun.api.sweep.status import SweepReason
from benchrun.report.followed import EndedRun, Followed, FollowedSweep, StageLine, told_figures
from benchrun.report.live_view import progress_line, seconds_since_begin, silence
from benchrun.report.rows import clock

SIGN_OF_LIFE_SECONDS = 30.0
"""Pipelines end a job that says nothing for minutes; a line every five seconds nobody reads."""


@dataclass(frozen=True, slots=True)
class Said:
    """What was printed of a run so far."""

    what: tuple[str | None, ...] = ()
    """Phase, message and trouble, as printed last."""
    stages: frozenset[int] = frozenset()
    at: datetime | None = None
    """When the last line was printed."""


def log_lines(run: Followed, said: Said, *, now: datetime) -> tuple[tuple[str, ...], Said]:
    """Lines to print now, each with the time since the run was accepted, and what is said with them."""
    lines, said = news(run, said, now=now)
    time = clock(seconds_since_begin(run, now=now))
    return tuple(f"{time}  {line}" for line in lines), said


def news(run: Followed, said: Said, *, now: datetime) -> tuple[tuple[str, ...], Said]:
    """The same without the time."""
    trouble = run.trouble or silence(run, now=now)
    what = (run.status.phase, _message(run), trouble)
    new = [line for line in run.stages if line.sequence not in said.stages]
    lines = [_stage(run, line) for line in new]
    quiet = said.at is not None and (now - said.at).total_seconds() < SIGN_OF_LIFE_SECONDS
    if what != said.what or (not quiet and not lines):
        lines.append(trouble if trouble is not None else _progress(run))
    stages = said.stages | {line.sequence for line in new}
    return tuple(lines), Said(what, stages, now if lines else said.at)


def _progress(run: Followed) -> str:
    """Why a run ended is said above its tables, which come next."""
    ended = run.status.completion_time is not None
    return progress_line(run.status.model_copy(update={"message": None}) if ended else run.status)


def _message(run: Followed) -> str | None:
    """While stages are measured the message names the stage; the line of a finished stage tells as much."""
    return None if run.status.phase == "Running" else run.status.message


def _stage(run: Followed, line: StageLine) -> str:
    total = run.status.progress.stages_total if run.status.progress is not None else 0
    place = f"{line.sequence + 1}/{total}" if total else f"{line.sequence + 1}"
    name = f" {line.stage}" if line.stage is not None else ""
    return f"stage {place}{name}: {', '.join(told_figures(line)) or 'measured'}"


# ---- sweep log lines --------------------------------------------------------------------------------------------------
# A sweep that goes on, as lines for a log: what its runs say, each by its variant, and how many have ended.


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
