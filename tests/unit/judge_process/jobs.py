"""Jobs as the operator sends them: a small run, and its parts."""

import gzip
import json
from typing import Any

from benchrun.api import BenchmarkRunSpec, ClientStatus, ServerStatus
from benchrun.judge_process.messages import Job, JobPart
from benchrun.measure import SCHEMA, encode
from benchrun.measure.metrics_page import Sample
from benchrun.plan import planned_stages
from benchrun_client.contract import StageRecord, seal
from unit.measure.records import record
from unit.plan.specs import UID, Json, rates, spec_body, workload

PLAN_DIGEST = "c" * 64
TWO_STAGES = spec_body(workloads=[workload("chat", load=rates("1", "4"))])
STAGES = tuple(
    stage.id
    for stage in planned_stages(
        BenchmarkRunSpec.model_validate(TWO_STAGES), run_uid=UID
    )
)
SERVERS = [ServerStatus(engine="VLLM", role="server", pod="server-0", gpus=1)]


def job(spec: Json = TWO_STAGES, **changes: Any) -> Job:
    """Build the job of a run of two stages."""
    values = {
        "name": "qwen",
        "namespace": "lab",
        "uid": UID,
        "spec": spec,
        "servers": SERVERS,
    }
    return Job(**(values | {"client": ClientStatus(image="client:1")} | changes))


def measured(
    sequence: int, stage_id: str | None = None, **changes: Any
) -> StageRecord:
    """Build the record of a stage."""
    values = {"run_uid": UID, "plan_digest": PLAN_DIGEST, "sequence": sequence}
    return record(stage_id or STAGES[sequence], **(values | changes))


def part(measured_stage: StageRecord, **fields: Any) -> JobPart:
    """Build a record in its envelope; `fields` replace those of the envelope."""
    envelope, data = seal(measured_stage)
    changed = envelope.model_copy(update=fields)
    return JobPart.of(
        "record", data, name=f"stage-{envelope.sequence}", envelope=changed
    )


def records() -> list[JobPart]:
    """Build all records that the run was to measure."""
    return [part(measured(sequence)) for sequence in range(len(STAGES))]


def timeline(*samples: Sample) -> JobPart:
    """Build a chunk of the timeline as the operator stores it."""
    return JobPart.of("timeline", encode(samples), name="timeline-0")


def forged_timeline(columns: str) -> JobPart:
    """Build a chunk written by hand: the columns of one server, as JSON."""
    text = f'{{"schema":"{SCHEMA}","servers":[{{"role":"server","pod":"server-0",{columns}}}]}}'
    return JobPart.of("timeline", gzip.compress(text.encode()), name="timeline-0")


def baseline_document(data: bytes) -> JobPart:
    """Build the part with the result document of the run to compare with."""
    return JobPart.of("baselineDocument", data, name="before")


def baseline(data: object) -> JobPart:
    """Build the part with the run to compare with."""
    return JobPart.of(
        "baseline",
        data if isinstance(data, bytes) else json.dumps(data).encode(),
        name="before",
    )
