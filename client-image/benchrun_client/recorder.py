"""Making records in a process of its own.

Checking, serialising and compressing a stage takes tens of milliseconds to seconds, most of them holding the interpreter lock,
while the next stage already measures: a thread would stand in the way of its first tokens. So the measuring process only copies
its lists into a pipe.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable

from benchrun_client.contract import Envelope
from benchrun_client.headline import headline
from benchrun_client.piped import Piped, serve
from benchrun_client.records import RawStage, record_of

Recorded = tuple[Envelope, str]
"""A sealed record and its headline."""


def packed(raw: RawStage) -> bytes:
    """A stage as bytes for the pipe, one quick copy."""
    return pickle.dumps(raw, protocol=pickle.HIGHEST_PROTOCOL)


class Recorder:
    """The measuring process's end of the pipe."""

    def __init__(self, process: Piped, on_record: Callable[[Envelope, str], None]) -> None:
        self._process = process
        self._on_record = on_record

    @classmethod
    async def start(cls, on_record: Callable[[Envelope, str], None]) -> Recorder:
        """Start the other process; `on_record` is called with each envelope and headline, in order."""
        return cls(await Piped.start("benchrun_client.recorder", name="recorder"), on_record)

    async def record(self, stage: bytes) -> None:
        """Have one stage recorded.

        Raises:
            RunFailure: the other process died.
        """
        # Our own process wrote these bytes.
        envelope, line = pickle.loads(await self._process.ask(stage))
        self._on_record(envelope, line)

    async def stop(self) -> None:
        """End the other process."""
        await self._process.stop()


def recorded(raw: RawStage) -> Recorded:
    """Make, seal and head one record."""
    record = record_of(raw)
    envelope = Envelope.seal(record)
    return envelope, headline(record, digest=envelope.digest)


if __name__ == "__main__":
    serve(lambda stage: pickle.dumps(recorded(pickle.loads(stage))))
