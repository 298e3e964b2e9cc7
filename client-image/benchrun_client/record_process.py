"""Making records in another process, and a line for the log about each record.

Checking, serialising and compressing a stage takes up to seconds of the interpreter lock, while the
next stage is measured. So the measuring process only copies its lists into a pipe.
"""

import json
import pickle
from collections.abc import Sequence

from benchrun_client.contract import Sealed, StageRecord, open_record
from benchrun_client.processes import ChildProcess, serve
from benchrun_client.shards.merging import ShardedStage, merged
from benchrun_client.stage_record import RawStage, record_of, sealed

HEADLINE_SCHEMA = "benchrun.headline/1"
MAX_HEADLINE_BYTES = 8 * 1024


def packed(raw: RawStage) -> bytes:
    """Return a stage as bytes for the pipe, in one quick copy."""
    return pickle.dumps(raw, protocol=pickle.HIGHEST_PROTOCOL)


class RecordProcess(ChildProcess):
    module = "benchrun_client.record_process"
    name = "recorder"

    async def record(
        self,
        stage: bytes,
        *,
        parts: Sequence[bytes] = (),
        sharded: ShardedStage | None = None,
    ) -> tuple[Sealed, str]:
        """Make the record of one stage; return it with its envelope and a line for the log.

        `parts` are the packed parts of other shards. Raises RunFailure if the process died.
        """
        question = pickle.dumps(
            (stage, tuple(parts), sharded), protocol=pickle.HIGHEST_PROTOCOL
        )
        # Our own process wrote these bytes.
        return pickle.loads(await self.ask(question))  # type: ignore[no-any-return]


def headline(record: StageRecord, *, digest: str) -> str:
    """Return a line for the log: the record's digest and as many of its figures as fit.

    The figures are then not lost if the record is never fetched.
    """
    line = {
        "schema": HEADLINE_SCHEMA,
        "run_uid": record.run_uid,
        "sequence": record.sequence,
        "stage": record.stage_id,
        "digest": digest,
    }
    scalars = list(record.scalars.items())
    while True:
        text = json.dumps({**line, "scalars": dict(scalars)}, separators=(",", ":"))
        if len(text) <= MAX_HEADLINE_BYTES or not scalars:
            return text
        del scalars[-max(len(scalars) // 8, 1) :]


def _answer(question: bytes) -> bytes:
    stage, parts, sharded = pickle.loads(question)
    record = record_of(pickle.loads(stage))
    if sharded is not None:
        record = merged([record, *(open_record(part) for part in parts)], sharded)
    made = sealed(record)
    return pickle.dumps((made, headline(record, digest=made[0].digest)))


if __name__ == "__main__":
    serve(_answer)
