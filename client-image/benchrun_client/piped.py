"""A process of our own behind a pipe, for work that would hold the interpreter lock while we measure.

Questions and answers are bytes, one answer a question, in order. The process lives as long as its input: it needs no signal to
end, and it yields to the load where both share their cores.
"""

from __future__ import annotations

import asyncio
import os
import struct
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable

from benchrun_client.failures import RunFailure

_LENGTH = struct.Struct(">Q")
NICENESS = 5


class Piped:
    """Our end of the pipe. Everything happens in one event loop, in order."""

    def __init__(self, process: Process, name: str) -> None:
        self._process = process
        self._name = name
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, module: str, *, name: str) -> Piped:
        """Start `python -m module`, which is to call `serve`. `name`: what a failure calls it."""
        return cls(await asyncio.create_subprocess_exec(sys.executable, "-m", module, stdin=PIPE, stdout=PIPE), name)

    async def ask(self, question: bytes) -> bytes:
        """The answer to a question.

        Raises:
            RunFailure: the process died.
        """
        async with self._turn:
            try:
                stdin, stdout = self._process.stdin, self._process.stdout
                assert stdin is not None
                assert stdout is not None
                stdin.write(_LENGTH.pack(len(question)))
                stdin.write(question)
                await stdin.drain()
                return await stdout.readexactly(_LENGTH.unpack(await stdout.readexactly(_LENGTH.size))[0])
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                code = await self._process.wait()
                raise RunFailure(
                    "ClientError", f"the {self._name} process ended with code {code}; its log tells why"
                ) from error

    async def stop(self) -> None:
        """End the process, by ending its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


def serve(answer: Callable[[bytes], bytes], *, urgent: int = 0) -> None:
    """The other end: answer questions from stdin on stdout until there are no more. The first `urgent` ones come before anything
    is measured and yield to nobody."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    answered = 0
    while length := source.read(_LENGTH.size):
        if answered == urgent:
            os.nice(NICENESS)
        told = answer(source.read(_LENGTH.unpack(length)[0]))
        sink.write(_LENGTH.pack(len(told)) + told)
        sink.flush()
        answered += 1
