"""What the client has to tell: its progress, and the records not yet acknowledged.

Written by the thread that measures, read by the thread that serves; every method may be called from any thread.
"""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable
from typing import Literal

from benchrun_client.contract import Acknowledgement, ClientPhase, Delivery, Envelope, Failure, Progress

MAX_ENVELOPES_A_DELIVERY = 16
MAX_DELIVERY_BYTES = 4 * 1024 * 1024

AckAnswer = Literal["stored", "forbidden", "beyond"]


class Ledger:
    """Progress and sealed records of one run."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._run_uid = ""
        self._nonce: str | None = None
        self._expected_records: int | None = 0
        self._progress = Progress(version=0, phase="Preparing")
        self._requests_done = self._done_elsewhere = 0
        self._envelopes: dict[int, Envelope] = {}
        self._acknowledged = 0
        self._failure_told = False
        self._ready = False

    # ---- written by the run ------------------------------------------------------------------------------------------

    def begin(self, *, run_uid: str, nonce: str | None, records: int | None) -> None:
        """Name the run, and say how many records it will give (None: a search will tell); without a nonce nothing can be
        acknowledged."""
        with self._lock:
            self._run_uid, self._nonce, self._expected_records = run_uid, nonce, records

    def expect(self, records: int) -> None:
        """How many records the run gives, now that it is known."""
        with self._lock:
            self._expected_records = records
        self._tell()

    def mark_ready(self) -> None:
        """Plan, tokenizer and data have been found."""
        self._ready = True

    def enter(self, phase: ClientPhase, *, stage: str | None = None) -> None:
        """A new phase or stage begins. After a failure there is none."""
        with self._lock:
            if self._progress.failure is not None:
                return
            self._requests_done = self._done_elsewhere = 0
            self._move(phase=phase, stage=stage)
        self._tell()

    def note(
        self,
        *,
        healthy_unix_us: int | None = None,
        first_request_unix_us: int | None = None,
        warmup_us: int | None = None,
    ) -> None:
        """An instant became known. The first word about it stands."""
        news = {
            "healthy_unix_us": healthy_unix_us,
            "first_request_unix_us": first_request_unix_us,
            "warmup_us": warmup_us,
        }
        with self._lock:
            fresh = {k: v for k, v in news.items() if v is not None and getattr(self._progress, k) is None}
            if not fresh:
                return
            self._move(**fresh)
        self._tell()

    def count_answer(self) -> None:
        """One more answer in this stage. Called by the measuring thread alone, once a request: no lock, no wake-up."""
        self._requests_done += 1

    def count_elsewhere(self, answers: int) -> None:
        """So many answers in this stage have come to other shards."""
        self._done_elsewhere = answers

    def add(self, envelope: Envelope) -> None:
        """A stage's record is made. Records come in order."""
        with self._lock:
            self._envelopes[envelope.sequence] = envelope
            self._move(records=envelope.sequence + 1)
        self._tell()

    def fail(self, failure: Failure) -> bool:
        """The run ends without all its records. False when it had failed before: the first reason stands."""
        with self._lock:
            if self._progress.failure is not None:
                return False
            self._move(phase="Failed", failure=failure)
        self._tell()
        return True

    # ---- read and acknowledged by the operator -----------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        return self._ready

    def progress(self) -> Progress:
        with self._lock:
            return self._progress.model_copy(update={"requests_done": self._requests_done + self._done_elsewhere})

    def has_news(self, *, first: int, seen: int) -> bool:
        """Whether a record `first` or later exists, or the progress moved past version `seen`."""
        with self._lock:
            return self._progress.version > seen or self._progress.records > first

    def delivery(self, *, first: int) -> Delivery:
        """Progress, and the records from `first` on that fit into one answer; at least one if there is one."""
        progress = self.progress()
        with self._lock:
            waiting = [self._envelopes[n] for n in sorted(self._envelopes) if n >= first][:MAX_ENVELOPES_A_DELIVERY]
            run_uid = self._run_uid
            self._failure_told |= progress.failure is not None
        chosen: list[Envelope] = []
        size = 0
        for envelope in waiting:
            size += len(envelope.payload)
            if chosen and size > MAX_DELIVERY_BYTES:
                break
            chosen.append(envelope)
        if progress.failure is not None:
            self._tell()
        return Delivery(run_uid=run_uid, progress=progress, records=tuple(chosen))

    def acknowledge(self, ack: Acknowledgement) -> AckAnswer:
        """Forget what is stored elsewhere. Saying it twice is harmless."""
        with self._lock:
            if self._nonce is None or not hmac.compare_digest(ack.nonce.encode(), self._nonce.encode()):
                return "forbidden"
            if ack.through > self._progress.records:
                return "beyond"
            self._acknowledged = max(self._acknowledged, ack.through)
            for sequence in [n for n in self._envelopes if n < self._acknowledged]:
                del self._envelopes[sequence]
        self._tell()
        return "stored"

    def is_told(self) -> bool:
        """Whether nothing is left to tell: all records are stored; after a failure, those there are, and it has been read."""
        with self._lock:
            if self._progress.failure is not None:
                return self._failure_told and self._acknowledged == self._progress.records
            return self._acknowledged == self._expected_records

    def listen(self, listener: Callable[[], None]) -> None:
        """Call `listener` after every change, from the thread that made it."""
        self._listeners.append(listener)

    def _move(self, **changes: object) -> None:
        self._progress = self._progress.model_copy(update={**changes, "version": self._progress.version + 1})

    def _tell(self) -> None:
        for listener in self._listeners:
            listener()
