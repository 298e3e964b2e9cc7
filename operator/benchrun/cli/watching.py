"""One run, watched in a thread: what kubectl tells of it, however often its watch must be begun anew."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

from benchrun.api import names
from benchrun.api.status import BenchmarkRunStatus
from benchrun.cli.followed_process import FollowedProcess
from benchrun.cli.kubectl import RUN, Body, Kubectl
from benchrun.cli.kubectl_errors import KubectlError, explained
from benchrun.cli.lines_of import streaming
from benchrun.observe import raw
from benchrun.plan.stored import RECORD_KEY, stored_part, stored_record
from benchrun.report.stage_line import StageLine, stage_line

LATEST_STAGES = 8
"""Figures of more stages than that are not fetched when a run is looked at for the first time."""
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 30.0
HOPELESS = frozenset({"NoKubectl", "NoContext", "NotInstalled", "Forbidden", "NotFound"})
"""Trouble that another try does not cure."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The run as it is now, and the stages that have finished since the last word."""

    name: str
    body: Body
    finished: tuple[StageLine, ...]


@dataclass(frozen=True, slots=True)
class Lost:
    """Nothing is heard for now; it is tried again."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Over:
    """Nothing more will be heard: the run was deleted, or can't be read."""

    name: str
    why: KubectlError


Word = Seen | Lost | Over


class Watcher(FollowedProcess):
    """Watches one run and puts what it hears on a queue."""

    def __init__(self, kubectl: Kubectl, name: str, words: SimpleQueue[Word]) -> None:
        super().__init__(f"watch-{name}")
        self._kubectl, self._name, self._words = kubectl, name, words
        self._stages_known = -1
        self._stage = ""
        self._may_read_records = True

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
            if error is not None and (not heard or error.trouble in HOPELESS):
                unknown = error.trouble == "NotFound" and not heard
                self._words.put(Over(self._name, self._kubectl.missing(self._name) if unknown else error))
                return
            if error is not None:
                self._words.put(Lost(self._name, f"{error}; trying again"))

    def _watch_once(self) -> tuple[bool, KubectlError | None]:
        """Whether anything was heard, and what ended the watch; None: the API server ends every watch in time."""
        heard = False
        try:
            command = self._kubectl.command("get", RUN, self._name, "--watch", "--output-watch-events", "--output=json")
            with streaming(command) as process:
                if not self._begun(process):
                    return heard, None
                for event in objects(process.lines()):
                    if event.get("type") == "DELETED":
                        return True, KubectlError(f"{self._name} was deleted", "NotFound")
                    if event.get("type") == "ERROR":
                        return heard, None  # what is watched has become too old: begin anew
                    self._words.put(self._seen(event.get("object", {})))
                    heard = True
                code, said = process.ended()
        except KubectlError as error:
            return heard, error
        return heard, explained(said) if code != 0 else None

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
        metadata = raw.mapping(body.get("metadata"))
        attempt = BenchmarkRunStatus.model_validate(raw.mapping(body.get("status"))).attempt
        held = self._kubectl.config_map(names.stage_name(self._name, sequence, attempt=attempt))
        packed = stored_part(held, RECORD_KEY)
        if packed is None:
            raise ValueError("holds no record")
        return stage_line(stored_record(packed, run_uid=raw.text(metadata.get("uid")), sequence=sequence))


def objects(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """JSON objects out of a stream of them, each on a line of its own or spread over several."""
    collected = ""
    for line in lines:
        collected += line
        if line.startswith("}") or (collected == line and line.rstrip().endswith("}")):
            yield json.loads(collected)
            collected = ""
