"""Making records in a process of its own.

Checking, serialising and compressing a stage takes tens of milliseconds to seconds, most of them holding the interpreter lock,
while the next stage already measures: a thread would stand in the way of its first tokens. So the measuring process only copies
its lists into a pipe.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence

from benchrun_client.contract import Sealed, open_record, seal
from benchrun_client.ledger import headline
from benchrun_client.piped import Piped, serve
from benchrun_client.records import RawStage, record_of
from benchrun_client.shards.merging import Together, merged

Recorded = tuple[Sealed, str]
"""A sealed record and its headline."""


def packed(raw: RawStage) -> bytes:
    """A stage as bytes for the pipe, one quick copy."""
    return pickle.dumps(raw, protocol=pickle.HIGHEST_PROTOCOL)


class Recorder:
    """The measuring process's end of the pipe."""

    def __init__(self, process: Piped, on_record: Callable[[Sealed, str], None]) -> None:
        self._process = process
        self._on_record = on_record

    @classmethod
    async def start(cls, on_record: Callable[[Sealed, str], None]) -> Recorder:
        """Start the other process; `on_record` is called with each record and headline, in order."""
        return cls(await Piped.start("benchrun_client.recorder", name="recorder"), on_record)

    async def record(self, stage: bytes, *, parts: Sequence[bytes] = (), together: Together | None = None) -> Sealed:
        """Have one stage recorded; where other shards sent some of it, `together` with their packed parts.

        Raises:
            RunFailure: the other process died.
        """
        # Our own process wrote these bytes.
        question = pickle.dumps((stage, tuple(parts), together), protocol=pickle.HIGHEST_PROTOCOL)
        recorded: Recorded = pickle.loads(await self._process.ask(question))
        self._on_record(*recorded)
        return recorded[0]

    async def stop(self) -> None:
        """End the other process."""
        await self._process.stop()


def recorded(raw: RawStage, parts: Sequence[bytes] = (), together: Together | None = None) -> Recorded:
    """Make, seal and head one record."""
    record = record_of(raw)
    if together is not None:
        record = merged([record, *(open_record(part) for part in parts)], together)
    sealed = seal(record)
    return sealed, headline(record, digest=sealed[0].digest)


def _answer(question: bytes) -> bytes:
    stage, parts, together = pickle.loads(question)
    return pickle.dumps(recorded(pickle.loads(stage), parts, together))


if __name__ == "__main__":
    serve(_answer)
