"""Records as a client delivers them: small, sealed, of this run."""

from functools import lru_cache
from typing import Any

from benchrun_client.contract import Sealed, StageRecord, seal
from unit.measure.records import record as any_record
from unit.plan.specs import OWNER


def record(
    sequence: int, stage_id: str, plan_digest: str, **changes: Any
) -> StageRecord:
    """Build the measurement of a stage: two requests, both answered."""
    return any_record(
        stage_id,
        run_uid=OWNER.uid,
        plan_digest=plan_digest,
        sequence=sequence,
        **changes,
    )


def arrival(
    sequence: int, stage_id: str, plan_digest: str, **changes: Any
) -> Sealed:
    """Build the same measurement as a received record."""
    return sealed(record(sequence, stage_id, plan_digest, **changes))


@lru_cache(maxsize=256)
def plain(
    sequence: int, stage_id: str, plan_digest: str
) -> tuple[StageRecord, Sealed]:
    """Build a record without anything special, and the received record."""
    measured = record(sequence, stage_id, plan_digest)
    return measured, sealed(measured)


def sealed(measured: StageRecord) -> Sealed:
    """Seal a record, and return the received record."""
    return seal(measured)
