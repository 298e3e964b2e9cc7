"""Making records in a process of its own.

Checking, serialising and compressing a stage takes tens of milliseconds to seconds, most of them holding the interpreter lock,
while the next stage already measures: a thread would stand in the way of its first tokens. So the measuring process only copies
its lists into a pipe. The recorder lives as long as its input; it needs no signal to end.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import struct
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from typing import BinaryIO

from benchrun_client.contract import Envelope
from benchrun_client.failures import RunFailure
from benchrun_client.headline import headline
from benchrun_client.records import RawStage, record_of

_LENGTH = struct.Struct(">Q")
NICENESS = 5
"""A recorder that shares its cores with the load yields to it."""

Recorded = tuple[Envelope, str]
"""A sealed record and its headline."""


def packed(raw: RawStage) -> bytes:
    """A stage as bytes for the pipe, one quick copy."""
    return pickle.dumps(raw, protocol=pickle.HIGHEST_PROTOCOL)


class Recorder:
    """The measuring process's end of the pipe. Everything happens in one event loop, in order."""

    def __init__(self, process: Process, on_record: Callable[[Envelope, str], None]) -> None:
        self._process = process
        self._on_record = on_record
        self._turn = asyncio.Lock()

    @classmethod
    async def start(cls, on_record: Callable[[Envelope, str], None]) -> Recorder:
        """Start the other process; `on_record` is called with each envelope and headline, in order."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "benchrun_client.recorder", stdin=PIPE, stdout=PIPE
        )
        return cls(process, on_record)

    async def record(self, stage: bytes) -> None:
        """Have one stage recorded.

        Raises:
            RunFailure: the other process died.
        """
        async with self._turn:
            try:
                stdin, stdout = self._process.stdin, self._process.stdout
                assert stdin is not None
                assert stdout is not None
                stdin.write(_LENGTH.pack(len(stage)))
                stdin.write(stage)
                await stdin.drain()
                answer = await stdout.readexactly(_LENGTH.unpack(await stdout.readexactly(_LENGTH.size))[0])
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                code = await self._process.wait()
                raise RunFailure(
                    "ClientError", f"the recorder process ended with code {code}; its log tells why"
                ) from error
            # Our own process wrote these bytes.
            envelope, line = pickle.loads(answer)
            self._on_record(envelope, line)

    async def stop(self) -> None:
        """End the other process, by ending its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()


def recorded(raw: RawStage) -> Recorded:
    """Make, seal and head one record."""
    record = record_of(raw)
    envelope = Envelope.seal(record)
    return envelope, headline(record, digest=envelope.digest)


def _serve(source: BinaryIO, sink: BinaryIO) -> None:
    while length := source.read(_LENGTH.size):
        answer = pickle.dumps(recorded(pickle.loads(source.read(_LENGTH.unpack(length)[0]))))
        sink.write(_LENGTH.pack(len(answer)) + answer)
        sink.flush()


if __name__ == "__main__":
    os.nice(NICENESS)
    _serve(sys.stdin.buffer, sys.stdout.buffer)
