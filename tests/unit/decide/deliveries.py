"""Records as a client delivers them: small, sealed, of this run."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from benchrun.decide.decision import Arrival
from benchrun_client.contract import Envelope, StageRecord
from unit.measure.records import record as any_record
from unit.plan.specs import OWNER


def record(sequence: int, stage_id: str, plan_digest: str, **changes: Any) -> StageRecord:
    """The measurement of a stage: two requests, both answered."""
    return any_record(stage_id, run_uid=OWNER.uid, plan_digest=plan_digest, sequence=sequence, **changes)


def arrival(sequence: int, stage_id: str, plan_digest: str, **changes: Any) -> Arrival:
    """The same, as it came."""
    return (
        sealed(record(sequence, stage_id, plan_digest, **changes))
        if changes
        else _plain(sequence, stage_id, plan_digest)
    )


def sealed(measured: StageRecord) -> Arrival:
    """A record as it came."""
    envelope = Envelope.seal(measured)
    return Arrival(sequence=measured.sequence, digest=envelope.digest, data=envelope.data())


@lru_cache(maxsize=64)
def _plain(sequence: int, stage_id: str, plan_digest: str) -> Arrival:
    return sealed(record(sequence, stage_id, plan_digest))
