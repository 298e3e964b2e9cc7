"""Judge one job: open and check its parts, then evaluate them.

Parts that can't be used are left out and counted.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from benchrun_client.contract import (
    LoadKind,
    SearchPlan,
    StageRecord,
    envelope_of,
    open_record,
    open_stage,
)

from benchrun.api import (
    MAX_REFUSED_CHARS,
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Judgement,
    ResultDocument,
    RunIdentity,
    open_result,
)
from benchrun.api.sweep import BenchmarkSweepSpec, SweepTable, essence
from benchrun.judge.document_size import packed_document
from benchrun.judge.judged_run import Surroundings, judged_run
from benchrun.judge.sweep.judged_sweep import sweep_table
from benchrun.judge_process.messages import Job, JobPart, PartHead, SweepJob
from benchrun.measure import metrics_page, timeline
from benchrun.names import SERVING_ROLES
from benchrun.observe import Run, run_of
from benchrun.plan import (
    Owner,
    chosen_stages,
    planned_searches,
    planned_stages,
    problem_with,
    stage_ids,
)


def table_job(job: SweepJob, parts: Iterable[JobPart]) -> SweepTable:
    """Build the table of a sweep.

    `parts` has the status of each run, then the run's result document if there is one. A document
    that can be read replaces the status. Raises ValueError if the spec or the status of a run is
    invalid.
    """
    measured: dict[str, BenchmarkRunStatus] = {}
    for part in parts:
        uid = part.head.name
        if part.head.kind == "runDocument":
            with suppress(ValueError):
                document = open_result(part.data)
                if uid in measured and document.run.uid == uid:
                    measured[uid] = essence(document.status(measured[uid]))
        else:
            measured[uid] = BenchmarkRunStatus.model_validate_json(part.data)
    spec = BenchmarkSweepSpec.model_validate(job.spec)
    return sweep_table(
        spec, job.runs, measured, baseline=job.baseline, missing=job.missing
    )


def load_problem(
    record: StageRecord,
    planned: Mapping[str, LoadKind],
    searches: Sequence[SearchPlan],
    *,
    is_repeated: bool = False,
) -> str | None:
    """Return why a record's load is neither planned for its stage nor possible in its search.

    `planned` has the loads of the listed stages by their ids; `is_repeated` says that they are
    repeated until all is decided. Return None if there is no problem.
    """
    place = open_stage(record.stage_id)
    search = next(
        (s for s in searches if place is not None and s.workload == place[0]), None
    )
    if search is not None:
        return _search_problem(record, search)
    if is_repeated and record.probe is None:
        return f"stage {record.stage_id} does not say whether it was the last"
    if record.probe is not None and not is_repeated:
        return f"stage {record.stage_id!r} does not belong to a search, but has a probe"
    wanted = planned.get(record.stage_id, record.load)
    return (
        None
        if record.load == wanted
        else f"stage {record.stage_id} was sent at another load than the plan has"
    )


def _search_problem(record: StageRecord, search: SearchPlan) -> str | None:
    if record.probe is None:
        return f"stage {record.stage_id} does not say whether its search ended"
    load = record.load
    if load.kind != search.lowest.kind or load != search.load_at(
        Decimal(load.value)
    ):
        return f"stage {record.stage_id}: {load.label} is not a load of its search"
    if (
        not Decimal(search.lowest.value)
        <= Decimal(load.value)
        <= Decimal(search.highest)
    ):
        return (
            f"stage {record.stage_id}: {load.value} is not between {search.lowest.value} and "
            f"{search.highest}"
        )
    expected = search.requests_at(load)
    sent = len(record.requests.ok)
    return (
        None
        if expected == sent
        else f"stage {record.stage_id} has {sent} requests, expected {expected}"
    )


@dataclass(frozen=True, slots=True)
class PackedRecords(Sequence[StageRecord]):
    """Records that stay packed; each is opened again whenever it is read.

    An open record takes many times as much memory.
    """

    _packed: tuple[bytes, ...]

    def __len__(self) -> int:
        return len(self._packed)

    def __getitem__(self, index: Any) -> Any:
        found = self._packed[index]
        return (
            open_record(found) if isinstance(found, bytes) else PackedRecords(found)
        )


MAX_SAMPLES = 65_536
"""Most samples of a run's timeline; they take some 110 MB. Of a week with 13 servers, 3,584 samples
of each server are left."""


def judge_job(job: Job, parts: Iterable[JobPart]) -> tuple[Judgement, bytes]:
    """Judge a run; return the judgement for its status, and the packed result document.

    A part that can't be used is refused. Raises ValueError if the spec is invalid.
    """
    started = time.monotonic()
    spec = BenchmarkRunSpec.model_validate(job.spec)
    opened = _Opened(
        spec, Owner(namespace=job.namespace, name=job.name, uid=job.uid)
    )
    for part in parts:
        opened.take(part)
    identity = RunIdentity(
        namespace=job.namespace, name=job.name, uid=job.uid, labels=job.labels
    )
    found = judged_run(
        Surroundings(
            identity=identity,
            servers=job.servers,
            client=job.client,
            instants=job.instants,
            baseline=opened.baseline,
            baseline_document=opened.baseline_document,
            ending=job.ending,
            unstored=job.unstored,
            refused=opened.refused,
        ),
        spec,
        PackedRecords(
            tuple(opened.records[sequence] for sequence in sorted(opened.records))
        ),
        tuple(timeline.once(opened.samples)),
    )
    document = packed_document(found.document).data
    seconds = round(time.monotonic() - started, 3)
    return found.judgement.model_copy(
        update={"duration_seconds": seconds}
    ), document


class _Opened:
    """The opened parts of a job.

    Records are checked against the stages and searches that the run plans.
    """

    def __init__(self, spec: BenchmarkRunSpec, owner: Owner) -> None:
        self._run_uid = owner.uid
        self._stage_ids, self._repeated = chosen_stages(
            spec, stage_ids(spec, run_uid=owner.uid)
        )
        self._searches = planned_searches(owner, spec)
        self._loads = {
            each.id: each.load for each in planned_stages(spec, run_uid=owner.uid)
        }
        self.records: dict[int, bytes] = {}  # Packed records by sequence.
        self.samples: list[metrics_page.Sample] = []
        self.baseline: Run | None = None
        self.baseline_document: ResultDocument | None = None
        self.refused: list[str] = []

    def take(self, part: JobPart) -> None:
        """Open a part of the job; if that fails, keep the reason in `refused`."""
        try:
            self._open(part.head, part.data)
        except (
            ValueError,
            TypeError,
            OverflowError,
            MemoryError,
            RecursionError,
        ) as error:
            reason = str(error).partition("\n")[0] or type(error).__name__
            self.refused.append(
                f"{part.head.kind} {part.head.name}: {reason}"[:MAX_REFUSED_CHARS]
            )

    def _open(self, head: PartHead, data: bytes) -> None:
        if head.kind == "record":
            record = self._record(head, data)
            # the first record of a stage counts
            self.records.setdefault(record.sequence, data)
        elif head.kind == "timeline":
            found = timeline.decode(data)
            if len(self.samples) + len(found) > MAX_SAMPLES:
                raise ValueError(f"the run has more than {MAX_SAMPLES} samples")
            self.samples += [
                sample for sample in found if sample.role in SERVING_ROLES
            ]
        elif head.kind == "baseline":
            body = json.loads(data)
            if not isinstance(body, dict):
                raise ValueError("the baseline is not a JSON object")
            self.baseline = run_of(body)
        elif head.kind == "baselineDocument":
            document = open_result(data)
            if self.baseline is None or document.run.uid != self.baseline.uid:
                raise ValueError(
                    "the result document belongs to another run than the baseline"
                )
            self.baseline_document = document
        else:
            raise ValueError(f"parts of the kind {head.kind} are not known")

    def _record(self, head: PartHead, data: bytes) -> StageRecord:
        """Open a record and check it.

        Raises ValueError if the record differs from its envelope, or if the plan has no such
        record.
        """
        envelope = head.envelope
        if envelope is None:
            raise ValueError(
                "the envelope of the record is missing or can't be read"
            )
        problem = envelope.problem_with(data, run_uid=self._run_uid)
        if problem is not None:
            raise ValueError(problem)
        record = open_record(data)
        if envelope_of(record, data) != envelope:
            raise ValueError("the record differs from its envelope")
        misplaced = problem_with(
            envelope, self._stage_ids, self._searches, self._repeated
        ) or load_problem(
            record,
            self._loads,
            self._searches,
            is_repeated=bool(self._repeated),
        )
        if misplaced is not None:
            raise ValueError(misplaced)
        if not {edge.role for edge in record.servers} <= set(SERVING_ROLES):
            raise ValueError("the record names a server role that does not exist")
        return record
