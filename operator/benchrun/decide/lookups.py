"""Look-ups: questions that a decision asks, answered beside the queue's workers (`benchrun.effects.lookups`).

A question is a value. Its answer is kept under it until the run is forgotten. A look-up that fails is an answer too: it costs
its own field and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from benchrun.api.judgement import Judgement
from benchrun.api.status import ClientStatus, ServerStatus
from benchrun.observe.startup_log import StartupPhases

T = TypeVar("T")


class Question(Generic[T]):
    """A look-up whose answer is a T."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """What came of a look-up."""

    value: T | None
    """None: it can't be had."""
    problem: str = ""
    """Why it can't be had."""


class Answers(dict[Question[Any], Answer[Any]]):
    """All answers of a run so far."""

    def of(self, question: Question[T]) -> Answer[T] | None:
        """The answer; None: there is none yet."""
        return self.get(question)

    def value(self, question: Question[T]) -> T | None:
        """What was found; None: nothing, or not yet."""
        answer = self.get(question)
        return None if answer is None else answer.value


@dataclass(frozen=True, slots=True)
class LogTail(Question[str]):
    """The last lines of a failed container's log."""

    pod: str
    container: str
    previous: bool
    """Of the container before the one that runs now."""


@dataclass(frozen=True, slots=True)
class Compilations(Question[tuple[float, ...]]):
    """Unix seconds at which a server's log tells of compiled kernels, since it was healthy."""

    pod: str
    container: str
    since: str
    """RFC 3339."""


@dataclass(frozen=True, slots=True)
class Start:
    """How a server's pod started."""

    phases: StartupPhases
    """By its log."""
    image_pull_seconds: float | None = None
    """By its events."""


@dataclass(frozen=True, slots=True)
class ServerStart(Question[Start]):
    """How a server's pod started: the beginning of its log, and its events."""

    pod: str
    uid: str
    container: str


@dataclass(frozen=True, slots=True)
class ExporterPod:
    """The pod of a GPU exporter."""

    name: str
    ip: str


@dataclass(frozen=True, slots=True)
class GpuExporter(Question[ExporterPod]):
    """The GPU exporter that runs on a node."""

    node: str


@dataclass(frozen=True, slots=True)
class EndpointPods(Question[tuple[str, ...]]):
    """Addresses of the ready pods behind a Service, as host:port. Asked again until there are any."""

    service: str
    port: int


@dataclass(frozen=True, slots=True)
class Judging(Question[Judgement]):
    """The judgement of all that was measured, by a process of its own."""

    ended_early: bool
    servers: tuple[ServerStatus, ...] = field(default=(), compare=False)
    """As the last status will have them."""
    client: ClientStatus | None = field(default=None, compare=False)
