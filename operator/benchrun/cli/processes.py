"""Processes whose output is read as it comes, and Ctrl-C."""

from __future__ import annotations

import signal
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from benchrun.cli.errors import KubectlError

# ---- lines of ---------------------------------------------------------------------------------------------------------
# Processes whose output is read as it comes.


class Streaming:
    """A process, line by line; when there is no more, how it ended."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def lines(self) -> Iterator[str]:
        """Its output, until it ends or is ended."""
        if self._process.stdout is not None:
            yield from iter(self._process.stdout.readline, "")

    def ended(self) -> tuple[int, str]:
        """Its exit code and what it wrote to stderr. Waits for its end."""
        said = self._process.stderr.read() if self._process.stderr is not None else ""
        return self._process.wait(), said

    def end(self) -> None:
        """Whoever reads its lines sees their end."""
        self._process.terminate()


@contextmanager
def streaming(command: Sequence[str]) -> Iterator[Streaming]:
    """The running process; it is gone when the context is left."""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
    ) as process:
        try:
            yield Streaming(process)
        finally:
            process.terminate()


# ---- followed process -------------------------------------------------------------------------------------------------
# A thread that reads what a process writes, until it is told to stop.

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


# ---- interrupts -------------------------------------------------------------------------------------------------------
# Ctrl-C, and SIGTERM as a pipeline sends it when its job is cancelled.


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Within it SIGTERM raises Terminated in the main thread."""
    before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_back() -> Iterator[None]:
    """SIGINT and SIGTERM that come within it are felt when it is left, and not by processes that are started within it.

    What such a process has done is then known: an object that is being created is there, and its name was told.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def code_of(interrupt: KeyboardInterrupt) -> int:
    """How a command ends that was interrupted: as a shell counts it, 128 and the signal's number."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
