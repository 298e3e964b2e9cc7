"""Ctrl-C, and SIGTERM as a pipeline sends it when its job is cancelled."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


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
