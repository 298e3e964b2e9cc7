"""What Ctrl-C and SIGTERM do to a command."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """How a command ends that was interrupted: as a shell counts it, 128 and the signal's
    number."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def run_interruptibly(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns. SIGINT and SIGTERM cancel it, and raise KeyboardInterrupt and
    Terminated."""
    before = signal.getsignal(signal.SIGTERM)

    async def interruptible() -> T:
        if (task := asyncio.current_task()) is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await main

    outer = interruptible()
    try:
        with ExitStack() as stack:
            with signals_deferred():  # a loop that was half made can't be closed
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
    """Within it SIGTERM raises Terminated in the main thread."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """SIGINT and SIGTERM within it take effect when it is left, and not in processes that are
    started within it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
