"""A thread that reads what a process writes, until it is told to stop."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod

from benchrun.cli.kubectl_errors import KubectlError
from benchrun.cli.lines_of import Streaming

STOP_SECONDS = 5.0


class FollowedProcess(ABC):
    """One process at a time, read in a thread of its own. No process of it is left once it is stopped."""

    def __init__(self, name: str) -> None:
        self._stopped = threading.Event()
        self._process: Streaming | None = None
        self._thread = threading.Thread(target=self._follow, name=name, daemon=True)

    def start(self) -> None:
        """Returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends the process, and waits for the thread."""
        self._stopped.set()
        if self._process is not None:
            self._process.end()
        if self._thread.is_alive():  # an interrupt may come before it was started
            self._thread.join(timeout=STOP_SECONDS)

    @abstractmethod
    def _until_the_end(self) -> None:
        """What the thread does; it looks at `_stopped`."""

    @abstractmethod
    def _failed(self, error: KubectlError) -> None:
        """Tell whoever waits for a word."""

    def _begun(self, process: Streaming) -> bool:
        """The process that is read now; whether it is still wanted."""
        self._process = process
        if self._stopped.is_set():
            process.end()
        return not self._stopped.is_set()

    def _follow(self) -> None:
        try:
            self._until_the_end()
        except KubectlError as error:
            self._failed(error)
        except Exception as error:  # whoever waits for a word must get one
            self._failed(KubectlError(f"{type(error).__name__}: {error}"))
            raise
