"""Ending the client's process, and child processes that answer questions through a pipe.

A child does work that would hold the interpreter lock. Questions and answers are bytes; each
question gets one answer, in order. The child runs at low priority, so that the process that sends
the load gets the CPU first. It ends when its input ends.
"""

import asyncio
import contextlib
import os
import signal
import struct
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Mapping
from typing import ClassVar, NoReturn, Self

from benchrun_client.failures import RunFailure

_LENGTH = struct.Struct(">Q")
NICENESS = 5


def end_on_signals() -> None:
    """Install handlers that end the process at once on SIGTERM and SIGINT, with code 128 + n.

    Without a handler, process 1 of a container ignores the signal.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: os._exit(128 + number))


def end_process(code: int) -> NoReturn:
    """End the process at once.

    Exit handlers are skipped: there is nothing to clean up, and those of a large import are slow.
    """
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


class ChildProcess:
    """The parent's end of a child process; use it from one event loop only."""

    module: ClassVar[str]  # `python -m module` must call `serve`.
    name: ClassVar[str]  # Name of the process in a failure.

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self._stdin = process.stdin
        self._stdout = process.stdout
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, environment: Mapping[str, str] | None = None) -> Self:
        """Start the process.

        `environment` has all its variables; with None it gets those of this process.
        """
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                cls.module,
                stdin=PIPE,
                stdout=PIPE,
                env=environment,
            )
        )

    async def ask(self, question: bytes) -> bytes:
        """Send a question and return the answer; raise RunFailure if the process died."""
        async with self._turn:
            try:
                self._stdin.write(_LENGTH.pack(len(question)))
                self._stdin.write(question)
                await self._stdin.drain()
                return await self._stdout.readexactly(
                    _LENGTH.unpack(await self._stdout.readexactly(_LENGTH.size))[0]
                )
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                code = await self._process.wait()
                message = (
                    f"the {self.name} process ended with code {code}; see its log"
                )
                raise RunFailure("ClientError", message) from error

    async def stop(self) -> None:
        """End the process by closing the pipe from which it reads."""
        self._stdin.close()
        await self._process.wait()


def serve(answer: Callable[[bytes], bytes], *, urgent: int = 0) -> None:
    """Run the child: answer each question from stdin on stdout, until stdin ends.

    `urgent` is how many questions are answered before the process lowers its own priority, so that
    the load gets the CPU first.
    """
    source = sys.stdin.buffer
    sink = sys.stdout.buffer
    answered = 0
    while length := source.read(_LENGTH.size):
        if answered == urgent:
            os.nice(NICENESS)
        reply = answer(source.read(_LENGTH.unpack(length)[0]))
        sink.write(_LENGTH.pack(len(reply)) + reply)
        sink.flush()
        answered += 1
