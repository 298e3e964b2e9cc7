"""A run that goes on, as lines for a log: what changed, and now and then a sign of life."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from benchrun.report.durations import clock
from benchrun.report.followed import Followed
from benchrun.report.live_view import seconds_since_begin, silence
from benchrun.report.progress_line import progress_line
from benchrun.report.stage_line import StageLine, told_figures

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
