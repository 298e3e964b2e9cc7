"""One run, watched: its status, and its stages as they finish."""

from __future__ import annotations

from queue import SimpleQueue

from benchrun.api import names
from benchrun.cli.kubectl import RUN, Body, Kubectl
from benchrun.cli.kubectl_errors import KubectlError
from benchrun.cli.watching import IsSweep, Over, Seen, Watcher, Word
from benchrun.observe import raw
from benchrun.plan.stored import RECORD_KEY, stored_part, stored_record
from benchrun.report.stage_line import StageLine, stage_line

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
