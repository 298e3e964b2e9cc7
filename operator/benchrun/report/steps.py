"""The way of a run from its acceptance to its end, and how long each part took."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from benchrun.api.conditions import find_condition, is_true
from benchrun.api.status import BenchmarkRunStatus
from benchrun.observe import raw

State = Literal["Done", "UnderWay", "ToCome"]


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the way."""

    name: str
    state: State
    seconds: float | None
    """How long it took, or has taken so far; None: not known, or not begun."""


def steps(status: BenchmarkRunStatus, *, now: datetime) -> tuple[Step, ...]:
    """Client, node, server, warm-up, stages: each begins when the one before has ended. An endpoint needs no node."""
    ends = _ends(status)
    begun: datetime | None = raw.instant(status.accepted_time)
    found: list[Step] = []
    reached = _furthest(ends)
    for index, (name, ended) in enumerate(ends):
        if index <= reached:
            found.append(Step(name, "Done", _between(begun, ended)))
            begun = ended
        elif index == reached + 1 and begun is not None:
            found.append(Step(name, "UnderWay", _between(begun, now)))
        else:
            found.append(Step(name, "ToCome", None))
    return tuple(found)


def _ends(status: BenchmarkRunStatus) -> list[tuple[str, datetime | None]]:
    """When each part ended, as far as the status tells."""
    node = raw.instant(status.scheduled_time)
    ready, start, end = map(raw.instant, (status.server_ready_time, status.start_time, status.completion_time))
    ends = [("client", _client_ready(status)), ("node", node), ("server", ready), ("warm-up", start), ("stages", end)]
    return [each for each in ends if each[0] != "node" or node is not None or ready is None]


def _client_ready(status: BenchmarkRunStatus) -> datetime | None:
    """Only while it is ready: at the end the condition tells of the end."""
    found = find_condition(status.conditions, "ClientReady")
    return raw.instant(found.last_transition_time) if found and is_true(status.conditions, "ClientReady") else None


def _furthest(ends: list[tuple[str, datetime | None]]) -> int:
    """The last part that has ended; what comes before it has ended, too, even where the status has no instant for it."""
    return max((index for index, (_, ended) in enumerate(ends) if ended is not None), default=-1)


def _between(begun: datetime | None, ended: datetime | None) -> float | None:
    """Clocks of laptop and cluster differ: never less than nothing."""
    return None if begun is None or ended is None else max(0.0, (ended - begun).total_seconds())
