"""Whether a record's body is what its envelope said, and what the plan asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from benchrun_client.contract import Envelope, StageRecord, ended_search, open_record

from benchrun.api.names import SERVING_ROLES
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.judge_process.job import PartHead
from benchrun.measure.search_stages import probe_problem
from benchrun.plan.client_plan import planned_searches
from benchrun.plan.metadata import Owner
from benchrun.plan.open_stages import problem_with
from benchrun.plan.stages import stages


@dataclass(frozen=True, slots=True)
class PackedRecords(Sequence[StageRecord]):
    """Records as they came; each is opened anew whenever it is asked for: parsed, one takes many times as much memory."""

    _packed: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self._packed)

    @overload
    def __getitem__(self, index: int) -> StageRecord: ...

    @overload
    def __getitem__(self, index: slice) -> PackedRecords: ...

    def __getitem__(self, index: int | slice) -> StageRecord | PackedRecords:
        if isinstance(index, slice):
            return PackedRecords(self._packed[index])
        return open_record(self._packed[index])


class Asked:
    """What the plan of a run asks for, to hold records against."""

    def __init__(self, spec: BenchmarkRunSpec, owner: Owner) -> None:
        self._run_uid = owner.uid
        self._stage_ids = tuple(stage.id for stage in stages(spec, run_uid=owner.uid))
        self._searches = planned_searches(owner, spec)

    def problem_with(self, said: PartHead, data: bytes) -> str | None:
        """Why this is not the record that its envelope says; None: it is."""
        digest = hashlib.sha256(data).hexdigest()
        if digest != said.digest:
            return "its digest does not match its bytes"
        try:
            record = open_record(data)
        except ValueError as error:
            return str(error)
        return next(self._problems(said, record, _envelope(record, data, digest)), None)

    def _problems(self, said: PartHead, record: StageRecord, envelope: Envelope) -> Iterator[str]:
        if envelope.run_uid != self._run_uid:
            yield "it is of another run"
        if envelope.sequence != said.sequence or envelope.ends_search != said.ends_search:
            yield "it is not what its envelope says"
        # Where these stood, a Job or an annotation, may be gone.
        if said.stage_id not in (None, envelope.stage_id) or said.plan_digest not in (None, envelope.plan_digest):
            yield "it is of another stage or plan than its envelope says"
        if (misplaced := self._misplaced(envelope) or probe_problem(record, self._searches)) is not None:
            yield misplaced
        if not {edge.role for edge in record.servers} <= set(SERVING_ROLES):
            yield "it names a server role that does not exist"

    def _misplaced(self, envelope: Envelope) -> str | None:
        """Why the plan has no such stage at this place."""
        listed = len(self._stage_ids)
        if envelope.sequence >= listed:
            return problem_with(envelope, self._searches, listed=listed)
        planned = self._stage_ids[envelope.sequence]
        return (
            None if envelope.stage_id == planned else f"it is of stage {envelope.stage_id!r}, the plan says {planned!r}"
        )


def _envelope(record: StageRecord, data: bytes, digest: str) -> Envelope:
    """What its envelope should have said."""
    return Envelope(
        sequence=record.sequence,
        run_uid=record.run_uid,
        stage_id=record.stage_id,
        plan_digest=record.plan_digest,
        ends_search=ended_search(record),
        size=len(data),
        digest=digest,
    )
