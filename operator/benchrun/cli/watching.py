"""Objects watched in a thread: what kubectl tells of them, however often its watch must be begun anew."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, ClassVar

from benchrun.cli.followed_process import FollowedProcess
from benchrun.cli.kubectl import Body, Kubectl
from benchrun.cli.kubectl_errors import KubectlError, explained
from benchrun.cli.lines_of import streaming
from benchrun.report.stage_line import StageLine

FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
HOPELESS = frozenset({"NoKubectl", "NoContext", "NotInstalled", "Forbidden", "NotFound"})
"""Trouble that another try does not cure."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A run as it is now, and the stages that have finished since the last word."""

    name: str
    body: Body
    finished: tuple[StageLine, ...]


@dataclass(frozen=True, slots=True)
class SweepSeen:
    """A sweep as it is now."""

    name: str
    body: Body


@dataclass(frozen=True, slots=True)
class SweptRunSeen:
    """A run of the sweep of that name, as it is now."""

    name: str
    body: Body
    gone: bool
    """It was deleted."""


@dataclass(frozen=True, slots=True)
class IsSweep:
    """There is no run of that name, but a sweep."""

    name: str


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing is heard for now; it is tried again."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing more will be heard: what was watched was deleted, or can't be read."""

    name: str
    why: KubectlError


Word = Seen | SweepSeen | SweptRunSeen | IsSweep | Lost | Over


class Watcher(FollowedProcess, ABC):
    """Reads a watch, however often it must be begun anew, and puts what it hears on a queue."""

    may_be_silent: ClassVar[bool] = False
    """Whether there may be nothing to hear though all is well."""

    def __init__(self, kubectl: Kubectl, name: str, words: SimpleQueue[Word]) -> None:
        super().__init__(f"watch-{name}")
        self._kubectl, self._name, self._words = kubectl, name, words

    @abstractmethod
    def _watched(self) -> tuple[str, ...]:
        """What `kubectl get` is asked for."""

    @abstractmethod
    def _word(self, body: Body, *, deleted: bool) -> Word:
        """What there is to say of an object that was created, changed or deleted. Raises KubectlError where that is the end."""

    @abstractmethod
    def _unknown(self) -> Word:
        """What to say where there is no such object and never was."""

    def _failed(self, error: KubectlError) -> None:
        self._words.put(Over(self._name, error))

    def _until_the_end(self) -> None:
        heard, pause = False, 0.0
        while not self._stopped.wait(pause):
            something, error = self._watch_once()
            heard = heard or something
            pause = FIRST_PAUSE_SECONDS if something or not pause else min(2 * pause, LONGEST_PAUSE_SECONDS)
            if self._stopped.is_set():
                return
            if error is not None and (not (heard or self.may_be_silent) or error.trouble in HOPELESS):
                if error.trouble == "NotFound" and not heard:
                    self._words.put(self._unknown())
                else:
                    self._failed(error)
                return
            if error is not None:
                self._words.put(Lost(self._name, f"{error}; trying again"))

    def _watch_once(self) -> tuple[bool, KubectlError | None]:
        """Whether anything was heard, and what ended the watch; None: the API server ends every watch in time."""
        heard = False
        try:
            command = self._kubectl.command(
                "get", *self._watched(), "--watch", "--output-watch-events", "--output=json"
            )
            with streaming(command) as process:
                if not self._begun(process):
                    return heard, None
                for event in objects(process.lines()):
                    if event.get("type") == "ERROR":
                        return heard, None  # what is watched has become too old: begin anew
                    deleted = event.get("type") == "DELETED"
                    heard = True
                    self._words.put(self._word(event.get("object", {}), deleted=deleted))
                code, said = process.ended()
        except KubectlError as error:
            return heard, error
        return heard, explained(said) if code != 0 else None


def objects(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """JSON objects out of a stream of them, each on a line of its own or spread over several."""
    collected = ""
    for line in lines:
        collected += line
        if line.startswith("}") or (collected == line and line.rstrip().endswith("}")):
            yield json.loads(collected)
            collected = ""
