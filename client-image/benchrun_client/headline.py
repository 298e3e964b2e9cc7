"""One line a stage for the log: what is left of a measurement when nobody came to fetch its record."""

from __future__ import annotations

import json

from benchrun_client.contract import StageRecord

HEADLINE_SCHEMA = "benchrun.headline/1"
MAX_HEADLINE_BYTES = 8 * 1024


def headline(record: StageRecord, *, digest: str) -> str:
    """The line: who, the digest of the full record, and as many of the engine's figures as fit."""
    line: dict[str, object] = {
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
