"""A finished run as the operator leaves it, of any number of stages.

It has the same stages each time, and is judged by the real rules.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import add
from typing import Any

from _records import server_edge, stage_record
from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    ClientStatus,
    ComparedRun,
    Comparison,
    CompiledKernels,
    Condition,
    ResultDocument,
    RunIdentity,
    ServerStatus,
)
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.compare import compare
from benchrun.judge.judged_run import TIMELINE_SPANS, status_rows
from benchrun.judge.results import Judged, results
from benchrun.judge.thresholds import judge_of
from benchrun.measure import in_flight, role_timelines
from benchrun.measure.metrics_page import Sample
from benchrun.plan import load_points, planned_stages
from benchrun_client.contract import ClientFigures, StageRecord

from report_kit.played_queue import (
    INPUT_TOKENS,
    OUTPUT_TOKENS,
    PLACES,
    gaps_of,
    played,
)

PAUSE_SECONDS = 2.0
START_UNIX = 1_790_000_000.0
_KV_TOKENS = 40_000
SERVER = ServerStatus(
    engine="VLLM",
    role="server",
    ready=True,
    pod="br-simulated-4a49acf8-server-x",
    node="gpu-node-1",
    gpu="NVIDIA-H100-80GB-HBM3",
    gpus=1,
    image="vllm/vllm-openai:v0.32.0",
    image_digest="docker.io/vllm/vllm-openai@sha256:" + "c" * 64,
    version="0.32.0",
    kv_cache_tokens=_KV_TOKENS,
    args=[f"--max-num-seqs={PLACES}"],
    reported={"block_size": "16", "max_model_len": "4096"},
    seconds_to_ready=83.2,
)


@dataclass(frozen=True, slots=True)
class SimulatedRun:
    """What the cluster would hold of a run."""

    name: str
    uid: str
    body: dict[str, Any]
    """Spec of the run as written."""
    spec: BenchmarkRunSpec
    status: BenchmarkRunStatus
    records: tuple[StageRecord, ...]
    samples: tuple[Sample, ...]
    document: ResultDocument

    def as_side(self) -> MeasuredRun:
        """Return the run as one side of a comparison."""
        return MeasuredRun(self.name, self.uid, self.spec, self.status)


def simulated_run(
    name: str = "simulated",
    *,
    rates: Sequence[str] = (),
    users: Sequence[int] = (),
    workloads: Sequence[str] = ("chat",),
    repeats: int = 3,
    requests: int = 400,
    slowness: float = 1.0,
    objectives: Sequence[dict[str, Any]] = (),
) -> SimulatedRun:
    """Build a run and judge it; `slowness` multiplies the time that answers take.

    The load is `rates` in requests a second if given, otherwise `users`.
    """
    load = (
        {"requestRates": list(rates)} if rates else {"concurrencies": list(users)}
    )
    data = {"random": {"inputTokens": INPUT_TOKENS, "outputTokens": OUTPUT_TOKENS}}
    body = {
        "model": {"name": "Qwen/Qwen3-4B"},
        "server": {
            "image": "vllm/vllm-openai:v0.32.0",
            "args": [f"--max-num-seqs={PLACES}"],
            "resources": {"limits": {"nvidia.com/gpu": 1}},
        },
        "workloads": [
            {"name": each, "dataset": data, "load": load, "requests": requests}
            for each in workloads
        ],
        "repeats": repeats,
        "measurement": {"scrapeIntervalSeconds": 1},
        "objectives": list(objectives),
    }
    spec = BenchmarkRunSpec.model_validate(body)
    uid = f"uid-{name}"
    records, samples = _measured(spec, uid, name, slowness)
    status, found = _judged(spec, records, samples)
    document = document_of(
        RunIdentity(namespace="lab", name=name, uid=uid),
        spec,
        status,
        found,
        samples,
    )
    return SimulatedRun(name, uid, body, spec, status, records, samples, document)


def document_of(
    identity: RunIdentity,
    spec: BenchmarkRunSpec,
    status: BenchmarkRunStatus,
    found: Judged,
    samples: Sequence[Sample],
) -> ResultDocument:
    """Build the result document of a run with the rows of this status."""
    return ResultDocument(
        run=identity,
        phase=status.phase or "Completed",
        message=status.message or "",
        conditions=status.conditions,
        spec=spec,
        verdict=status.verdict or "Unknown",
        headline=status.headline,
        results=status.results,
        findings=status.findings,
        stages=found.stages,
        distributions=found.distributions,
        timeline=role_timelines(samples, at_most=TIMELINE_SPANS),
        servers=status.servers,
        client=status.client,
        judge=status.judge,
    )


def held_against(run: SimulatedRun, baseline: SimulatedRun) -> SimulatedRun:
    """Return the run as if its spec had named the baseline."""
    body = {**run.body, "baseline": {"name": baseline.name}}
    spec = BenchmarkRunSpec.model_validate(body)
    assert spec.baseline is not None
    found = compare(
        [baseline.as_side()],
        [run.as_side()],
        metrics=spec.baseline.metrics,
        max_regression_percent=float(spec.baseline.max_regression_percent),
    )
    comparison = Comparison(
        baseline=ComparedRun(name=baseline.name, uid=baseline.uid),
        scope=found.scope,
        outcome=found.outcome,
        gate=found.gate,
        message=found.message,
        load_points=list(found.load_points),
    )
    compared = {"comparison": comparison}
    return replace(
        run,
        body=body,
        spec=spec,
        status=run.status.model_copy(update=compared),
        document=run.document.model_copy(update={"spec": spec, **compared}),
    )


def _measured(
    spec: BenchmarkRunSpec, uid: str, name: str, slowness: float
) -> tuple[tuple[StageRecord, ...], tuple[Sample, ...]]:
    records: list[StageRecord] = []
    samples: list[Sample] = []
    now = START_UNIX
    generated = 0.0
    for sequence, stage in enumerate(planned_stages(spec, run_uid=uid)):
        draw = random.Random(f"{name} {stage.id}")
        columns = played(stage.load, stage.requests, draw, slowness)
        seconds = max(map(add, columns.start_us, columns.e2el_us)) / 1e6
        began_us = int(now * 1e6)
        record = stage_record(
            stage.id,
            sequence,
            columns,
            gaps_of(columns, draw),
            server_edge(columns, start_time=START_UNIX - 100, generated=generated),
            load=stage.load,
            began_us=began_us,
            ended_us=began_us + round(1e6 * seconds),
            client=ClientFigures(
                cpu_seconds=0.1 * seconds,
                wall_seconds=seconds,
                throttled_periods=0,
                lag_p99_us=400,
            ),
            run_uid=uid,
            idle_before_us=int(PAUSE_SECONDS * 1e6),
        )
        samples += _samples(record, now)
        records.append(record)
        generated += sum(columns.output_tokens)
        now = record.last_receive_unix_us / 1e6 + PAUSE_SECONDS
    return tuple(records), tuple(samples)


def _samples(record: StageRecord, begin: float) -> list[Sample]:
    held = in_flight(record.requests)
    length_us = record.last_receive_unix_us - record.first_send_unix_us
    before, after = (
        (edge or {})["generation_tokens_total"]
        for edge in (record.servers[0].before, record.servers[0].after)
    )
    found = []
    for second in range(int(length_us / 1e6)):
        at_us = int(1e6 * (second + 0.3 + 0.037 * (second % 7)))
        if at_us >= length_us:
            break
        total = held.at(at_us)
        running = min(PLACES, total)
        found.append(
            Sample(
                at=begin + at_us / 1e6,
                role="server",
                pod="br-simulated-4a49acf8-server-x",
                running=float(running),
                waiting=float(total - running),
                kv_cache=running * (INPUT_TOKENS + OUTPUT_TOKENS) / _KV_TOKENS,
                generation_tokens=before
                + (after - before) * (at_us + 1) / (length_us + 2),
                start_time=START_UNIX - 100,
            )
        )
    return found


def _judged(
    spec: BenchmarkRunSpec,
    records: Sequence[StageRecord],
    samples: Sequence[Sample],
) -> tuple[BenchmarkRunStatus, Judged]:
    never_compiled = ServerStatus(
        engine="VLLM", role="server", compilations=CompiledKernels(count=0)
    )
    found = results(
        load_points(spec), records, samples, spec=spec, servers=[never_compiled]
    )
    rows, truncated = status_rows(spec, found)
    valid = "False" if found.verdict == "Invalid" else "True"
    conditions = {"Complete": "True", "Valid": valid}
    status = BenchmarkRunStatus(
        phase="Completed",
        message=f"measured all {len(load_points(spec))} load points",
        conditions=tuple(
            Condition.model_validate(
                {"type": type_, "status": status, "reason": "Measured"}
            )
            for type_, status in conditions.items()
        ),
        accepted_time="2026-09-21T14:00:00Z",
        start_time="2026-09-21T14:13:20Z",
        completion_time="2026-09-21T16:02:11Z",
        servers=[SERVER],
        client=ClientStatus(
            image="benchrun/client:0.1", engine="vllm", engine_version="0.32.0"
        ),
        results=rows,
        findings=list(found.findings),
        verdict=found.verdict,
        headline=found.headline,
        judge=judge_of(spec),
        truncated=truncated,
    )
    return status, found
