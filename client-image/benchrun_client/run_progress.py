"""The state of a run for the operator to read: progress, and records not yet acknowledged.

The thread that measures writes it, and the thread that serves reads it. Every method may be called
from any thread.
"""

import hmac
import os
import threading
from collections.abc import Callable
from itertools import accumulate
from typing import Literal

from benchrun_client import contract

RELEASE_VARIABLE = "BENCHRUN_RELEASE"
"""Variable of the client's image: its release."""
UNKNOWN_RELEASE = "unknown"  # As an image says that was built without a version.
Moment = Literal["healthy_unix_us", "first_request_unix_us", "warmup_us"]
"""A field of the progress that is set once."""


def own_release() -> str | None:
    """Return the release of this client; None outside an image, or in one without a version."""
    named = os.environ.get(RELEASE_VARIABLE, "")
    return None if named in ("", UNKNOWN_RELEASE) else named[:60]


class RunProgress:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._notify: Callable[[], object] = lambda: None
        self._run_uid = ""
        self._token_digest: str | None = None
        self._progress = contract.ClientProgress(
            version=0, phase="Preparing", release=own_release()
        )
        self._news_version = 0
        """Version of the latest change of the progress that is more than a new stage."""
        self._requests_done = self._done_elsewhere = 0
        self._sealed: dict[int, contract.Sealed] = {}
        self._acknowledged = 0
        self._failure_read = False
        self.ready = False  # True once plan, tokenizer and data have been found.

    def begin(self, *, run_uid: str, token_digest: str | None) -> None:
        """Set which run this is; `token_digest` is None if the plan cannot be read."""
        with self._lock:
            self._run_uid = run_uid
            self._token_digest = token_digest
        self._notify()

    def enter(
        self, phase: contract.ClientPhase, *, stage: str | None = None
    ) -> None:
        """Enter a new phase or stage; ignored after a failure."""
        with self._lock:
            if self._progress.failure is not None:
                return
            self._requests_done = self._done_elsewhere = 0
            self._move(phase=phase, stage=stage)
        self._notify()

    def note(self, moment: Moment, value: int) -> None:
        """Record an instant or a duration; later values of the same moment are ignored."""
        with self._lock:
            if getattr(self._progress, moment) is not None:
                return
            self._move(**{moment: value})
        self._notify()

    def show_model(self, files: contract.ModelFiles) -> None:
        """Show how far the claim is filled with the model; nothing happens if that is no news."""
        with self._lock:
            if files == self._progress.model:
                return
            self._move(model=files)
        self._notify()

    def count_answer(self) -> None:
        """Count one more answer in this stage.

        It is called once a request, only by the measuring thread, so it takes no lock and wakes no
        listener.
        """
        self._requests_done += 1

    def count_elsewhere(self, answers: int) -> None:
        self._done_elsewhere = answers

    def add(self, sealed: contract.Sealed) -> None:
        """Add the record of a stage; records come in order."""
        sequence = sealed[0].sequence
        with self._lock:
            self._sealed[sequence] = sealed
            self._move(records=sequence + 1)
        self._notify()

    def fail(self, failure: contract.Failure) -> bool:
        """Record that the run failed.

        Returns False if it had failed before: the first failure is kept.
        """
        with self._lock:
            if self._progress.failure is not None:
                return False
            self._move(phase="Failed", failure=failure)
        self._notify()
        return True

    def may_read(self, token: str) -> bool:
        """Return whether a caller with this token may read.

        Until the plan has been read there is only progress, which every caller may read.
        """
        return self._token_digest is None or self.may_acknowledge(token)

    def may_acknowledge(self, token: str) -> bool:
        return self._token_digest is not None and hmac.compare_digest(
            contract.digest_of_token(token), self._token_digest
        )

    def progress(self) -> contract.ClientProgress:
        with self._lock:
            return self._progress.model_copy(
                update={"requests_done": self._requests_done + self._done_elsewhere}
            )

    def has_news(self, *, first: int, seen: int) -> bool:
        """Return whether record `first` exists, or the progress moved past version `seen`."""
        with self._lock:
            return self._progress.version > seen or self._progress.records > first

    def has_only_a_new_stage(self, *, first: int, seen: int) -> bool:
        """Return whether the only news is that another stage has begun.

        The record of the stage before follows a moment later.
        """
        with self._lock:
            return (
                self._progress.version > seen >= self._news_version
                and self._progress.records <= first
            )

    def delivery(
        self, *, first: int
    ) -> tuple[contract.Delivery, tuple[bytes, ...]]:
        """Return the progress, and as many records from `first` on as fit into one answer.

        If there is such a record, at least one is returned.
        """
        progress = self.progress()
        with self._lock:
            waiting = [self._sealed[n] for n in sorted(self._sealed) if n >= first][
                : contract.MAX_ENVELOPES
            ]
            run_uid = self._run_uid
            self._failure_read |= progress.failure is not None
        sizes = accumulate(envelope.size for envelope, _ in waiting)
        chosen = [
            sealed
            for sealed, size in zip(waiting, sizes, strict=True)
            if size <= contract.MAX_BODIES_BYTES
        ]
        chosen = chosen or waiting[:1]
        if progress.failure is not None:
            self._notify()
        records = tuple(envelope for envelope, _ in chosen)
        bodies = tuple(body for _, body in chosen)
        return contract.Delivery(
            run_uid=run_uid, progress=progress, records=records
        ), bodies

    def acknowledge(self, through: int) -> bool:
        """Delete the records below `through`, because the operator has stored them.

        Returns False if there are fewer records. It may be called again with the same number.
        """
        with self._lock:
            if through > self._progress.records:
                return False
            self._acknowledged = max(self._acknowledged, through)
            for sequence in [n for n in self._sealed if n < self._acknowledged]:
                del self._sealed[sequence]
        self._notify()
        return True

    def is_delivered(self) -> bool:
        """Return whether the run is over and the operator has every record and any failure."""
        with self._lock:
            over = self._progress.phase == "Done" or self._failure_read
            return over and self._acknowledged == self._progress.records

    def listen(self, listener: Callable[[], object]) -> None:
        """Call `listener` after every change, in the thread that made the change."""
        self._notify = listener

    def _move(self, **changes: object) -> None:
        before = self._progress
        self._progress = before.model_copy(
            update={**changes, "version": before.version + 1}
        )
        if any(
            name != "stage" and value != getattr(before, name)
            for name, value in changes.items()
        ):
            self._news_version = self._progress.version
