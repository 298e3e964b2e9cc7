"""Objects watched in a thread: what kubectl tells of runs and sweeps, however often its watch must be begun anew."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, ClassVar

from benchrun import names
from benchrun.cli.errors import KubectlError, explained
from benchrun.cli.kubectl import RUN, SWEEP, Body, Kubectl
from benchrun.cli.processes import FollowedProcess, streaming
from benchrun.observe import raw
from benchrun.plan.stored import RECORD_KEY, stored_part, stored_record
from benchrun.report.followed import StageLine, stage_line

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


# ---- watching runs ----------------------------------------------------------------------------------------------------
# One run, watched: its status, and its stages as they finish.

LATEST_STAGES = 8
"""Figures of more stages than that are not fetched when a run is looked at for the first time."""


class RunWatcher(Watcher):
    """Watches one run."""

    def __init__(self, kubectl: Kubectl, name: str, words: SimpleQueue[Word]) -> None:
        super().__init__(kubectl, name, words)
        self._stages_known = -1
        self._stage = ""
        self._may_read_records = True

    def _watched(self) -> tuple[str, ...]:
        return (RUN, self._name)

    def _word(self, body: Body, *, deleted: bool) -> Word:
        if deleted:
            raise KubectlError(f"{self._name} was deleted", "NotFound")
        return self._seen(body)

    def _unknown(self) -> Word:
        """Only now: most of what is followed is a run."""
        if self._kubectl.sweep_if_any(self._name) is not None:
            return IsSweep(self._name)
        return Over(self._name, self._kubectl.missing_either(self._name))

    def _seen(self, body: Body) -> Seen:
        progress = raw.mapping(raw.mapping(body.get("status")).get("progress"))
        done, under_way = raw.number(progress.get("stagesDone")), raw.text(progress.get("stage"))
        known = self._stages_known
        if known < 0:
            ended = raw.mapping(body.get("status")).get("completionTime") is not None
            known = done if ended else max(0, done - LATEST_STAGES)
        finished = tuple(self._line(body, sequence, last=done - 1) for sequence in range(known, done))
        self._stages_known, self._stage = max(known, done), under_way or self._stage
        return Seen(self._name, body, finished)

    def _line(self, body: Body, sequence: int, *, last: int) -> StageLine:
        """From the stored record; where it is not to be had, what the status told of it before."""
        if self._may_read_records:
            try:
                return self._stored_line(body, sequence)
            except KubectlError as error:
                self._may_read_records = error.trouble != "Forbidden"
            except ValueError:
                pass  # a record of another version; the stage was measured all the same
        return StageLine(sequence, (self._stage or None) if sequence == last else None)

    def _stored_line(self, body: Body, sequence: int) -> StageLine:
        """Raises KubectlError or ValueError."""
        uid = raw.text(raw.mapping(body.get("metadata")).get("uid"))
        held = self._kubectl.config_map(names.stage_name(self._name, uid, sequence))
        packed = stored_part(held, RECORD_KEY)
        if packed is None:
            raise ValueError("holds no record")
        return stage_line(stored_record(packed, run_uid=uid, sequence=sequence))


# ---- watching sweeps --------------------------------------------------------------------------------------------------
# A sweep, watched: its own status, and beside it those of its runs, which tell what goes on.


class SweepWatcher(Watcher):
    """Watches one sweep."""

    def _watched(self) -> tuple[str, ...]:
        return (SWEEP, self._name)

    def _word(self, body: Body, *, deleted: bool) -> Word:
        if deleted:
            raise KubectlError(f"{self._name} was deleted", "NotFound")
        return SweepSeen(self._name, body)

    def _unknown(self) -> Word:
        return Over(self._name, self._kubectl.missing_sweep(self._name))


class SweptRunsWatcher(SweepWatcher):
    """Watches the runs of one sweep. They are news beside the sweep's own: it goes on to its end without them."""

    may_be_silent = True

    def _watched(self) -> tuple[str, ...]:
        return (RUN, f"--selector={names.LABEL_SWEEP}={self._name}")

    def _word(self, body: Body, *, deleted: bool) -> Word:
        return SweptRunSeen(self._name, body, gone=deleted)

    def _failed(self, error: KubectlError) -> None:
        """Nobody waits for it: who may read sweeps may perhaps not read runs."""
