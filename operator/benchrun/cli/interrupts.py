"""Define what Ctrl-C and SIGTERM do to a command."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM."""


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of an interrupted command: 128 plus the signal, as in shells."""
    return 128 + (
        signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT
    )


def run_interruptibly(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` and return its result.

    SIGINT and SIGTERM cancel it and raise KeyboardInterrupt and Terminated.
    """
    before = signal.getsignal(signal.SIGTERM)

    async def interruptible() -> T:
        if (task := asyncio.current_task()) is not None:
            asyncio.get_running_loop().add_signal_handler(
                signal.SIGTERM, task.cancel
            )
        return await main

    outer = interruptible()
    try:
        with ExitStack() as stack:
            with (
                signals_deferred()
            ):  # A loop that is only partly set up can't be closed.
                runner = stack.enter_context(asyncio.Runner())
            return runner.run(outer)
    except asyncio.CancelledError:
        raise Terminated from None
    finally:
        outer.close()
        main.close()
        signal.signal(signal.SIGTERM, before)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Let SIGTERM raise Terminated in the main thread while the context is open."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer SIGINT and SIGTERM until the context is left.

    Processes that are started within it inherit the mask, so the signals do not end them.
    """
    before = signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM}
    )
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
