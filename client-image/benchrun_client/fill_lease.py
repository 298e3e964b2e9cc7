"""A lease on a claim: a file that its holder writes to again and again.

Unlike a lock of the operating system it works on every kind of shared volume, and it ends with its
holder. It saves a second download and protects nothing: two holders do no harm.
"""

import contextlib
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Self

BEAT_SECONDS = 5.0
STALE_SECONDS = 60.0
"""Seconds without a beat after which a lease is taken from its holder. Volumes over the network
show a change some seconds late."""


class FillLease:
    def __init__(
        self,
        path: Path,
        *,
        beat_seconds: float = BEAT_SECONDS,
        stale_seconds: float = STALE_SECONDS,
    ) -> None:
        self._path = path
        self._holder = uuid.uuid4().hex
        self._beat_seconds = beat_seconds
        self._stale_seconds = stale_seconds
        self._seen = b""
        self._seen_at = 0.0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> bool:
        """Take the lease if nobody holds it; return whether it was taken.

        A lease whose holder has not written for `stale_seconds`, by this process's clock, is
        deleted first. Raises OSError if nothing can be written.
        """
        if self._is_stale():
            self._take_away(self._seen)
        try:
            file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644)
        except FileExistsError:
            return False
        os.write(file, self._beat(0))
        self._thread = threading.Thread(
            target=self._keep, args=(file,), daemon=True
        )
        self._thread.start()
        return True

    def is_held(self) -> bool:
        """Return whether the lease is still this holder's, and was not taken away."""
        try:
            return self._path.read_bytes().startswith(self._holder.encode())
        except OSError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Release the lease, unless another holder has taken it."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        with contextlib.suppress(OSError):
            if self.is_held():
                self._path.unlink()

    def _beat(self, number: int) -> bytes:
        return f"{self._holder} {number:012d}\n".encode()

    def _keep(self, file: int) -> None:
        number = 0
        while not self._over.wait(self._beat_seconds):
            number += 1
            # A network volume may fail once; without a beat another run would take the lease.
            with contextlib.suppress(OSError):
                os.pwrite(file, self._beat(number), 0)
                os.fsync(file)
        os.close(file)

    def _is_stale(self) -> bool:
        try:
            found = self._path.read_bytes()
        except FileNotFoundError:
            return False
        now = time.monotonic()
        if found != self._seen or not self._seen_at:
            self._seen = found
            self._seen_at = now
        return now - self._seen_at >= self._stale_seconds

    def _take_away(self, stale: bytes) -> None:
        """Delete the lease if it has this content; a newer lease is put back."""
        caught = self._path.with_name(f"{self._path.name}.{self._holder}")
        with contextlib.suppress(OSError):
            self._path.rename(caught)
            if caught.read_bytes() != stale:
                os.link(caught, self._path)
        with contextlib.suppress(OSError):
            caught.unlink()
        self._seen_at = 0.0
