"""Child processes whose output is read as it comes, and what Ctrl-C and SIGTERM do."""

from __future__ import annotations

import asyncio
import codecs
import io
import signal
from collections.abc import AsyncGenerator, Coroutine, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType
from typing import Any, TypeVar

from benchrun.cli.errors import explained

END_SECONDS = 5.0
"""How long a process that was told to end is waited for."""
CHUNK_BYTES = 65_536
T = TypeVar("T")


async def output_lines(command: Sequence[str]) -> AsyncGenerator[str, None]:
    """The lines of its standard output; it is ended where the iteration is. Raises KubectlError where it fails."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)
    try:
        if process.stdout is None or process.stderr is None:
            return
        decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")("replace"), translate=True)
        rest, data = "", b"more"
        while data:
            data = await process.stdout.read(CHUNK_BYTES)
            *lines, rest = (rest + decoder.decode(data, final=not data)).split("\n")
            for line in lines:
                yield line
        if rest:
            yield rest
        error = (await process.stderr.read()).decode("utf-8", "replace")
        if await process.wait() != 0:
            raise explained(error)
    finally:
        await _end(process)


async def _end(process: asyncio.subprocess.Process) -> None:
    """It is killed where SIGTERM does not end it in time."""
    with suppress(ProcessLookupError):
        if process.returncode is None:
            process.terminate()
        try:
            await asyncio.wait_for(process.communicate(), END_SECONDS)
        except TimeoutError:
            process.kill()


class Terminated(KeyboardInterrupt):
    """SIGTERM came."""


def exit_code_of(interrupt: KeyboardInterrupt) -> int:
    """How a command ends that was interrupted: as a shell counts it, 128 and the signal's number."""
    return 128 + (signal.SIGTERM if isinstance(interrupt, Terminated) else signal.SIGINT)


def run_interruptibly(main: Coroutine[Any, Any, T]) -> T:
    """What `main` returns. SIGINT and SIGTERM cancel it, and raise KeyboardInterrupt and Terminated."""
    before = signal.getsignal(signal.SIGTERM)

    async def interruptible() -> T:
        task = asyncio.current_task()
        if task is not None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
        return await main

    outer = interruptible()
    try:
        with ExitStack() as stack:
            with held_back():  # a loop that was half made can't be closed
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
    before = signal.signal(signal.SIGTERM, _raise)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def held_back() -> Iterator[None]:
    """SIGINT and SIGTERM that come within it take effect when it is left, and not in processes that are started within it.

    What such a process has done is then known: an object that is being created exists, and its name is known.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _raise(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
