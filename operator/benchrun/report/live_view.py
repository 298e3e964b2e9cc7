"""A run or sweep while it is followed: as data for a screen, and as lines for a log."""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from benchrun.api import BenchmarkRunStatus, find_condition, has_ended
from benchrun.api.sweep import SweepReason
from benchrun.observe import untrusted_json as raw
from benchrun.report.run_list import state
from benchrun.report.run_summary import RunPart, steps
from benchrun.report.tables import clock, figure, format_seconds
from benchrun.report.watch_state import (
    Followed,
    FollowedRun,
    FollowedSweep,
    StageLine,
)

SILENT_SECONDS = 15
"""Seconds without an update after which the operator counts as silent. A running operator updates a
new run within a second."""
SEARCH = "/search-"  # Part of the names of stages whose load is searched: chat/search-07/r1.
UP_TO = "<="
"""In the summary of a progress whose stages are chosen while others are measured: 3/<=48."""
MAX_QUIET_SECONDS = 30.0
"""Most seconds without output. Pipelines end a job that prints nothing for minutes, but people do
not read a line every five seconds."""
NO_OPERATOR = (
    "no operator has processed it yet; check that benchrun's operator is installed and running: "
    "kubectl get deployments -A -l app.kubernetes.io/name=benchrun"
)


class Gauge(NamedTuple):
    label: str
    values: tuple[float | None, ...]  # Values, oldest first.
    now: str  # Latest value with its unit.
    top: float | None = None  # End of the scale; None: the largest value.


@dataclass(frozen=True, slots=True)
class LiveView:
    """The data to show of a run, or of a sweep with its runs in place of stages."""

    name: str
    phase: str
    elapsed: str  # Time since the run was accepted.
    message: str
    trouble: str | None
    done: int
    total: int  # Number of stages or runs; 0: not known yet.
    left: str | None  # Estimated remaining time; None if not known.
    unit: str = "stages"  # What is counted: stages of a run, runs of a sweep.
    steps: tuple[RunPart, ...] = ()
    stage: str | None = None  # The stage in progress.
    stages: tuple[StageLine, ...] = ()
    gauges: tuple[Gauge, ...] = ()
    under_way: "tuple[LiveView, ...]" = ()  # Runs of a sweep in progress, named by variant.
    ended: tuple[
        FollowedRun, ...
    ] = ()  # Runs of a sweep that ended while it was followed.


def live_view(followed: Followed, *, now: datetime) -> LiveView:
    done, total = _progress(followed)
    view = LiveView(
        name=followed.name,
        phase=followed.status.phase or "Pending",
        elapsed=format_seconds(seconds_since_begin(followed, now=now)),
        message=followed.status.message or "",
        trouble=followed.trouble or silence(followed, now=now),
        done=done,
        total=total,
        left=_left(followed, done=done, total=total, now=now),
    )
    if isinstance(followed, FollowedSweep):
        return replace(
            view,
            unit="runs",
            under_way=tuple(
                replace(live_view(run, now=now), name=run.title)
                for run in followed.under_way.values()
            ),
            ended=followed.ended,
        )
    return replace(
        view,
        steps=steps(followed.status, now=now),
        stage=_stage_under_way(followed),
        stages=followed.stages,
        gauges=_gauges(followed),
    )


def _progress(followed: Followed) -> tuple[int, int]:
    """Return how many stages of a run, or runs of a sweep, are done, and how many there are.

    A run of a sweep is done when it has ended or is no longer needed.
    """
    if isinstance(followed, FollowedRun):
        progress = followed.status.progress
        return (
            (progress.stages_done, progress.stages_total)
            if progress is not None
            else (0, 0)
        )
    runs = followed.status.runs
    estimate = followed.status.estimate
    total = estimate.runs if estimate is not None else 0
    return (
        (runs.completed + runs.failed + runs.cancelled + runs.skipped, total)
        if runs is not None
        else (0, total)
    )


def seconds_since_begin(followed: Followed, *, now: datetime) -> float:
    """Return the seconds since a run or sweep was accepted (or created), until now or its end."""
    begun = raw.instant(followed.status.accepted_time) or followed.created_at or now
    ended = raw.instant(followed.status.completion_time) or now
    return max(0.0, (ended - begun).total_seconds())


def silence(followed: Followed, *, now: datetime) -> str | None:
    """Return a remark if no operator has processed the run or sweep for a while, else None."""
    processed = (
        followed.status.observed_generation >= 0
        or followed.status.phase is not None
    )
    return (
        None
        if processed or seconds_since_begin(followed, now=now) < SILENT_SECONDS
        else NO_OPERATOR
    )


def _stage_under_way(run: FollowedRun) -> str | None:
    return run.status.progress.stage if run.status.progress is not None else None


def _left(
    followed: Followed, *, done: int, total: int, now: datetime
) -> str | None:
    """Return how long the rest may take.

    The estimate assumes that stages or runs take equally long, and that those in progress are half
    done. Return None if none has ended yet, or if it is suspended.
    """
    if isinstance(followed, FollowedRun):
        begun = followed.status.start_time
        under_way = 1
        names = (
            _stage_under_way(followed),
            *(line.stage for line in followed.stages),
        )
        progress = followed.status.progress
        is_open = progress is not None and UP_TO in progress.summary
        is_open |= any(SEARCH in (name or "") for name in names)
        word = "at most" if is_open else "about"
    else:
        begun = (
            followed.status.accepted_time
            if followed.status.phase == "Running"
            else None
        )
        under_way = (
            followed.status.runs.running if followed.status.runs is not None else 0
        )
        word = "about"
    if (since := raw.instant(begun)) is None or done == 0 or done >= total:
        return None
    passed = done + under_way / 2
    return (
        f"{word} "
        f"{format_seconds(max(0.0, (now - since).total_seconds()) * (total - passed) / passed)} "
        "left"
    )


def _gauges(run: FollowedRun) -> tuple[Gauge, ...]:
    """Return the gauges of a run; none before the first sample, or of what its servers lack.

    Each has its own scale, so that a long queue does not flatten the line of running requests.
    """
    if run.status.live is None or not run.samples:
        return ()
    rows = (
        ("running", [each.running for each in run.samples], "", None),
        ("waiting", [each.waiting for each in run.samples], "", None),
        ("KV cache", [each.kv_cache_percent for each in run.samples], " %", 100.0),
        (
            "output",
            [each.generation_tokens_per_second for each in run.samples],
            " tok/s",
            None,
        ),
    )
    return tuple(
        Gauge(label, tuple(seen), figure(seen[-1], unit=unit), top)
        for label, seen, unit, top in rows
        if any(value is not None for value in seen)
    )


def progress_line(status: BenchmarkRunStatus) -> str:
    """Return one line on a run: phase, stages done, what the servers do, and what it waits for."""
    servers = ""
    if (live := status.live) is not None:
        servers = (
            f"running {figure(live.running)}, waiting {figure(live.waiting)}, "
            + (
                ""
                if live.kv_cache_percent is None
                else f"KV {figure(live.kv_cache_percent, unit=' %')}, "
            )
            + f"{figure(live.generation_tokens_per_second)} tok/s"
        )
    progress = status.progress.summary if status.progress is not None else None
    return " · ".join(
        part
        for part in (status.phase or "Pending", progress, servers, status.message)
        if part
    )


class Log:
    """Log lines of one run or sweep: keeps what was printed, and returns what is new."""

    def __init__(self) -> None:
        self._state: tuple[str | None, ...] = ()
        """State that was printed last."""
        self._stages: set[int] = set()
        self._runs: dict[str, Log] = {}
        self._ended = 0
        self._printed_at: datetime | None = None

    def lines(self, followed: Followed, *, now: datetime) -> list[str]:
        """Return the lines to print now, each with the time since the run or sweep was accepted."""
        time = clock(seconds_since_begin(followed, now=now))
        return [f"{time}  {line}" for line in self._new_lines(followed, now)]

    def _new_lines(self, followed: Followed, now: datetime) -> list[str]:
        trouble = followed.trouble or silence(followed, now=now)
        status = followed.status
        if isinstance(followed, FollowedRun):
            lines = [
                _stage(followed, line)
                for line in followed.stages
                if line.sequence not in self._stages
            ]
            self._stages.update(line.sequence for line in followed.stages)
            # While stages are measured the message only names the stage, and so does the line of a
            # finished stage.
            state: tuple[str | None, ...] = (
                status.phase,
                None if status.phase == "Running" else status.message,
            )
            # Why a run ended is printed above its tables, which come next.
            unseen = {"message": None} if has_ended(status.conditions) else {}
            progress = progress_line(followed.status.model_copy(update=unseen))
        else:
            lines = [_end(run) for run in followed.ended[self._ended :]]
            self._ended = len(followed.ended)
            runs = followed.status.runs
            for name, run in followed.under_way.items():
                log = self._runs.setdefault(name, Log())
                lines += [
                    f"{run.title}: {line}" for line in log._new_lines(run, now)
                ]
            state = (
                status.phase,
                f"{runs.summary} runs" if runs and runs.summary else None,
                _message(followed),
            )
            progress = " · ".join(part for part in state if part)
        state = (*state, trouble)
        quiet = (
            self._printed_at is not None
            and (now - self._printed_at).total_seconds() < MAX_QUIET_SECONDS
        )
        if state != self._state or (not quiet and not lines):
            lines.append(trouble or progress)
        self._state = state
        self._printed_at = now if lines else self._printed_at
        return lines


def _stage(run: FollowedRun, line: StageLine) -> str:
    total = (
        run.status.progress.stages_total if run.status.progress is not None else 0
    )
    place = f"{line.sequence + 1}/{total}" if total else f"{line.sequence + 1}"
    name = f" {line.stage}" if line.stage is not None else ""
    return f"stage {place}{name}: {', '.join(line.figures) or 'measured'}"


def _end(run: FollowedRun) -> str:
    """Return the last line of a run, with the reason if it ended early.

    The reason is here because the tables of a failed run are not shown.
    """
    word = state(run.status)
    return f"{run.title}: {word}" + (
        f" · {run.status.message or ''}" if word in ("Failed", "Cancelled") else ""
    )


def _message(sweep: FollowedSweep) -> str | None:
    """Return the message of a sweep, or None while it measures and at its end.

    While it measures, its runs have lines of their own. At its end, the tables begin with the
    message.
    """
    status = sweep.status
    step = find_condition(status.conditions, "Reconciling")
    measuring = step is not None and step.reason == SweepReason.MEASURING
    return None if measuring or has_ended(status.conditions) else status.message
