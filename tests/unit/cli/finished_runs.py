"""A finished run of two load points, measured twice each, and the ConfigMaps of its records."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    CompiledKernels,
    Condition,
    ResultDocument,
    RunIdentity,
    ServerStatus,
)
from benchrun.judge.results import results
from benchrun.judge.thresholds import judge_of
from benchrun.measure import bucketed, encode
from benchrun.measure.metrics_page import Sample
from benchrun.plan import (
    Owner,
    TimelinePart,
    load_points,
    stage_config_map,
    timeline_config_map,
)
from benchrun_client.contract import StageRecord
from report_kit.simulated_run import document_of
from unit.decide.deliveries import sealed
from unit.measure.loads import open_loop
from unit.measure.records import edge, record, sample, served
from unit.plan.specs import Json, rates, spec_body, workload
from unit.stored_documents import stored_document

UID = "uid-judged"
OWNER = Owner(namespace="lab", name="judged", uid=UID)
LOAD_POINTS = ("chat/rate=4", "chat/rate=8")
STAGES = ("chat/rate=4/r1", "chat/rate=8/r1", "chat/rate=4/r2", "chat/rate=8/r2")
LOG_READ: tuple[float, ...] = ()
"""The server's log told of no compiling."""


def measured(
    sequence: int, *, failed: int = 0, output_percent: int = 100
) -> StageRecord:
    """Build the record of 120 requests at the stage's rate, the last `failed` of which failed."""
    stage_id = STAGES[sequence]
    rate = 4 if "rate=4" in STAGES[sequence] else 8
    columns = open_loop(
        120,
        gap_us=1_000_000 // rate,
        duration_us=lambda i: 200_000 + 1_000 * ((7 * i + sequence) % 5),
    )
    ok = tuple(int(i < 120 - failed) for i in range(120))
    asked_tokens = tuple(
        100 * tokens // output_percent for tokens in columns.output_tokens
    )
    columns = columns.model_copy(update={"ok": ok, "asked_tokens": asked_tokens})
    begin = 1_000_000_000 + 100_000_000 * sequence
    length = max(
        start + took
        for start, took in zip(columns.start_us, columns.e2el_us, strict=True)
    )
    moved = served(columns) | {"request_success_total": 120.0}
    before = {
        "generation_tokens_total": sequence * moved["generation_tokens_total"]
    }
    return record(
        stage_id,
        run_uid=UID,
        sequence=sequence,
        requests=columns,
        scalars={"duration": length / 1e6},
        first_send_unix_us=begin,
        last_receive_unix_us=begin + length,
        servers=(edge(before=before, rises=moved),),
    )


def server_samples(stage: StageRecord) -> list[Sample]:
    """Return about one sample a second of a server that holds the client's requests in flight."""
    seconds = range(
        1, (stage.last_receive_unix_us - stage.first_send_unix_us) // 1_000_000
    )
    held = sum(stage.requests.e2el_us) / (
        stage.last_receive_unix_us - stage.first_send_unix_us
    )
    first_tokens = (stage.servers[0].before or {})["generation_tokens_total"]
    begin = stage.first_send_unix_us / 1e6
    # Not in step with the arrivals, which are more regular than real ones.
    return [
        sample(
            begin + s + 0.037 * s % 0.25,
            running=held,
            generation_tokens=first_tokens + s,
        )
        for s in seconds
    ]


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """The objects of a run in the form of `kubectl get`."""

    body: Json
    config_maps: tuple[Json, ...]  # The one with the result document is the last.
    document: ResultDocument


def finished_run(
    records: Sequence[StageRecord] | None = None,
    *,
    kept: Sequence[int] = (0, 1, 2, 3),
    compilations: tuple[float, ...] | None = LOG_READ,
    **spec: Any,
) -> FinishedRun:
    """Build the run, judged as the operator does it, with the records in `kept` left."""
    records = (
        [measured(sequence) for sequence in range(4)]
        if records is None
        else records
    )
    body = spec_body(
        workloads=[workload(load=rates("4", "8"), requests=120)], repeats=2, **spec
    )
    typed = BenchmarkRunSpec.model_validate(body)
    samples = [each for record in records for each in server_samples(record)]
    servers = [_server(compilations)]
    found = results(
        load_points(typed), records, samples, spec=typed, servers=servers
    )
    status = BenchmarkRunStatus(
        phase="Completed",
        message="measured all 2 load points",
        conditions=_conditions(valid=found.verdict != "Invalid"),
        results=list(found.results),
        findings=list(found.findings),
        verdict=found.verdict,
        headline=found.headline,
        judge=judge_of(typed),
        servers=servers,
    )
    identity = RunIdentity(namespace=OWNER.namespace, name=OWNER.name, uid=UID)
    document = document_of(identity, typed, status, found, samples)
    ref, config_map = stored_document(document, OWNER)
    status = status.model_copy(update={"result_document": ref})
    stages = (_stage(r) for r in records if r.sequence in kept)
    return FinishedRun(_body(body, status), (*stages, config_map), document)


def with_timeline_chunk(run: FinishedRun, samples: Sequence[Sample]) -> FinishedRun:
    """Return the run with one more chunk of the timeline."""
    chunk = timeline_config_map(OWNER, chunk=0, timeline=timeline_part(samples))
    return replace(run, config_maps=(*run.config_maps, chunk))


def listed(config_maps: Sequence[Json]) -> Json:
    """Return the ConfigMaps in the form of `kubectl get configmaps` for several."""
    return {"apiVersion": "v1", "kind": "List", "items": list(config_maps)}


def _stage(record: StageRecord) -> Json:
    return stage_config_map(
        OWNER, sealed(record), timeline=timeline_part(server_samples(record))
    )


def _server(compilations: tuple[float, ...] | None) -> ServerStatus:
    known = (
        None
        if compilations is None
        else CompiledKernels(count=len(compilations), at=list(compilations))
    )
    return ServerStatus(
        engine="VLLM", role="server", addresses=["10.0.0.9"], compilations=known
    )


def timeline_part(samples: Sequence[Sample]) -> TimelinePart:
    """Build a part of the timeline in the form a ConfigMap keeps it."""
    return TimelinePart(encode(bucketed(samples, 1)), through=samples[-1].at)


def _body(spec: Json, status: BenchmarkRunStatus) -> Json:
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkRun",
        "metadata": {
            "name": OWNER.name,
            "namespace": OWNER.namespace,
            "uid": UID,
            "generation": 1,
        },
        "spec": spec,
        "status": status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _conditions(*, valid: bool) -> tuple[Condition, ...]:
    rows = [("Complete", "True"), ("Valid", "True" if valid else "False")]
    return tuple(
        Condition.model_validate(
            {"type": type_, "status": status, "reason": "Measured"}
        )
        for type_, status in rows
    )
