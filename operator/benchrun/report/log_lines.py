"""The progress of runs and sweeps as lines for a log."""

from __future__ import annotations

from datetime import datetime

from benchrun.api import find_condition
from benchrun.api.sweep import SweepReason
from benchrun.report.live_view import progress_line, seconds_since_begin, silence
from benchrun.report.run_list import state
from benchrun.report.tables import clock
from benchrun.report.watch_state import Followed, FollowedRun, FollowedSweep, StageLine, stage_figures

MAX_QUIET_SECONDS = 30.0
"""Pipelines end a job that prints nothing for minutes; nobody reads a line every five seconds."""


class Log:
    """The lines of one run or sweep: what was printed so far, and what is new."""

    def __init__(self) -> None:
        self._state: tuple[str | None, ...] = ()
        """As printed last."""
        self._stages: set[int] = set()
        self._runs: dict[str, Log] = {}
        self._ended = 0
        self._printed_at: datetime | None = None

    def lines(self, followed: Followed, *, now: datetime) -> list[str]:
        """Lines to print now, each with the time since the run or sweep was accepted."""
        time = clock(seconds_since_begin(followed, now=now))
        return [f"{time}  {line}" for line in self._new_lines(followed, now)]

    def _new_lines(self, followed: Followed, now: datetime) -> list[str]:
        trouble = followed.trouble or silence(followed, now=now)
        status = followed.status
        if isinstance(followed, FollowedRun):
            lines = [_stage(followed, line) for line in followed.stages if line.sequence not in self._stages]
            self._stages.update(line.sequence for line in followed.stages)
            # While stages are measured the message names the stage, as the line of a finished stage does.
            state: tuple[str | None, ...] = (status.phase, None if status.phase == "Running" else status.message)
            # Why a run ended is printed above its tables, which come next.
            unseen = {"message": None} if status.completion_time is not None else {}
            progress = progress_line(followed.status.model_copy(update=unseen))
        else:
            lines = self._lines_of_runs(followed, now)
            runs = followed.status.runs
            state = (status.phase, f"{runs.summary} runs" if runs and runs.summary else None, _message(followed))
            progress = " · ".join(part for part in state if part)
        state = (*state, trouble)
        quiet = self._printed_at is not None and (now - self._printed_at).total_seconds() < MAX_QUIET_SECONDS
        if state != self._state or (not quiet and not lines):
            lines.append(trouble or progress)
        self._state, self._printed_at = state, now if lines else self._printed_at
        return lines

    def _lines_of_runs(self, sweep: FollowedSweep, now: datetime) -> list[str]:
        lines = [_end(run) for run in sweep.ended[self._ended :]]
        self._ended = len(sweep.ended)
        for name, run in sweep.under_way.items():
            lines += [f"{run.title}: {line}" for line in self._runs.setdefault(name, Log())._new_lines(run, now)]
        return lines


def _stage(run: FollowedRun, line: StageLine) -> str:
    total = run.status.progress.stages_total if run.status.progress is not None else 0
    place = f"{line.sequence + 1}/{total}" if total else f"{line.sequence + 1}"
    name = f" {line.stage}" if line.stage is not None else ""
    return f"stage {place}{name}: {', '.join(stage_figures(line)) or 'measured'}"


def _end(run: FollowedRun) -> str:
    """With the reason where it ended early: its tables are not shown here."""
    word = state(run.status)
    return f"{run.title}: {word}" + (f" · {run.status.message or ''}" if word in ("Failed", "Cancelled") else "")


def _message(sweep: FollowedSweep) -> str | None:
    """None while it measures, since its runs have their own lines, and at its end, since the tables begin with it."""
    status = sweep.status
    step = find_condition(status.conditions, "Reconciling")
    measuring = step is not None and step.reason == SweepReason.MEASURING
    return None if measuring or status.completion_time is not None else status.message
