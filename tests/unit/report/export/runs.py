"""A finished run whose stages vLLM's own client has measured.

Its figures and the requests behind them are both there. `measured.json` is what `vllm bench serve`
0.32 gave against a server of known timing, in the columns of a record.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from benchrun.api import (
    BenchmarkRunSpec,
    BenchmarkRunStatus,
    Result,
    RunIdentity,
    ServerStatus,
    Verdict,
)
from benchrun.judge.results import results
from benchrun.measure.metrics_page import Sample
from benchrun.observe import Run
from benchrun.plan import load_points, probed_load_points
from benchrun.report.export.encoders import ExportTable, Value
from benchrun.report.export.formats import ExportedRun, ExportedStage, exported
from benchrun.report.html import Reported
from benchrun_client.contract import GapCounts, RequestColumns, StageRecord
from report_kit.simulated_run import document_of
from unit.measure.records import edge, load_of, record, sample, served
from unit.plan.specs import Json, concurrencies, spec_body, workload
from unit.report.statuses import result

NAMESPACE = "lab"
NAME = "nightly"
UID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
CHAT = "chat/concurrency=4/r1"
CHAT_AGAIN = "chat/concurrency=4/r2"
CAPPED = "capped/rate=40/r1"
"""An open loop under a cap that holds it back."""
FIRST = "first/concurrency=2/r1"
"""Answers of one token: vLLM says 0 for the gaps that there are not."""
STAGES = (CHAT, CAPPED, FIRST, CHAT_AGAIN)
LOAD_POINTS = ("chat/concurrency=4", "capped/rate=40", "first/concurrency=2")
PERCENTILES = ("50", "90", "99")
ARGS = ["--tensor-parallel-size=2", "--max-model-len", "4096", "--enforce-eager"]
BEGAN_US = 1_800_000_000_250_000
GPU = "NVIDIA-H100-80GB-HBM3"
_MEASURED: dict[str, Any] = json.loads(
    Path(__file__).with_name("measured.json").read_text(encoding="utf-8")
)


def measured(stage_id: str, **changes: Any) -> StageRecord:
    """Build the record of one stage."""
    found = _MEASURED[stage_id]
    sequence = STAGES.index(stage_id)
    began = BEGAN_US + 60_000_000 * sequence
    values = {
        "run_uid": UID,
        "sequence": sequence,
        "scalars": found["scalars"],
        "requests": (columns := RequestColumns.model_validate(found["requests"])),
        "gaps": GapCounts.model_validate(found["gaps"]),
        "first_send_unix_us": began,
        "last_receive_unix_us": began + 2_500_000,
        "servers": (
            edge(
                before={"generation_tokens_total": 1000.0 * sequence},
                rises=served(columns),
            ),
        ),
    }
    return record(stage_id, **(values | changes))


def failing(
    stage_id: str, *, failed: int, errors: Mapping[str, int] | None = None
) -> StageRecord:
    """Build the record of one stage whose last requests failed."""
    whole = measured(stage_id)
    count = len(whole.requests.ok)
    ok = tuple(int(place < count - failed) for place in range(count))
    gone = {} if failed < count else {"gaps": GapCounts()}
    return whole.model_copy(
        update={
            "requests": whole.requests.model_copy(update={"ok": ok}),
            "errors": dict(errors or {}),
            **gone,
        }
    )


def spec(**changes: Any) -> BenchmarkRunSpec:
    random = {"random": {"inputTokens": 64, "outputTokens": 12}}
    body = spec_body(
        workloads=[
            workload("chat", dataset=random, load=concurrencies(4), requests=24),
            workload(
                "capped",
                dataset=random,
                load={"requestRates": ["40"], "maxConcurrency": 2},
                requests=24,
            ),
            workload(
                "first",
                dataset={"random": {"inputTokens": 64, "outputTokens": 1}},
                load=concurrencies(2),
                requests=8,
            ),
        ],
        repeats=2,
        measurement={"percentiles": list(PERCENTILES)},
    )
    server: Json = {
        "image": "vllm/vllm-openai:v0.32.0",
        "args": ARGS,
        "env": [{"name": "VLLM_USE_V1", "value": "1"}],
    }
    return BenchmarkRunSpec.model_validate({**body, "server": server} | changes)


def status(
    rows: Sequence[Result] | None = None, **server: Any
) -> BenchmarkRunStatus:
    """Build a status; all rows are Valid unless given, and the server has two known GPUs."""
    seen = ServerStatus(
        engine="VLLM",
        role="server",
        image="vllm/vllm-openai:v0.32.0",
        version="0.32.0",
        gpu=GPU,
        gpus=2,
        args=["/models/qwen", "--served-model-name=qwen", *ARGS],
    ).model_copy(update=server)
    found = (
        list(rows)
        if rows is not None
        else [row(load_point) for load_point in LOAD_POINTS]
    )
    return BenchmarkRunStatus(results=found, servers=[seen], verdict="Valid")


def row(
    load_point: str, verdict: Verdict = "Valid", findings: Sequence[str] = ()
) -> Result:
    """Build the judged row of a load point."""
    return result(
        load_point,
        axis=load_of(load_point).axis,
        verdict=verdict,
        findings=list(findings),
        repeats=1,
    )


def run(
    *records: StageRecord,
    of_spec: BenchmarkRunSpec | None = None,
    of_status: BenchmarkRunStatus | None = None,
    samples: Sequence[Sample] = (),
) -> ExportedRun:
    """Build the run with these records, or with all."""
    if not records and of_spec is None and of_status is None and not samples:
        return _usual()
    return _judged(
        records or _all_records(),
        of_spec or spec(),
        of_status or status(),
        samples,
    )


@cache
def _usual() -> ExportedRun:
    """Build the run that most tests read, which is judged once."""
    return _judged(_all_records(), spec(), status(), ())


def _all_records() -> Sequence[StageRecord]:
    return [measured(stage_id) for stage_id in STAGES]


def _judged(
    kept: Sequence[StageRecord],
    asked: BenchmarkRunSpec,
    found: BenchmarkRunStatus,
    samples: Sequence[Sample],
) -> ExportedRun:
    document = document_of(
        RunIdentity(namespace=NAMESPACE, name=NAME, uid=UID),
        asked,
        found,
        results(
            (*load_points(asked), *probed_load_points(asked, kept)),
            kept,
            samples,
            spec=asked,
            servers=found.servers,
        ),
        samples,
    )
    return exported(
        Reported(Run(NAMESPACE, NAME, UID, 1), asked, found, document),
        document,
        {record.stage_id: record.requests for record in kept},
    )


def stage(stage_id: str) -> ExportedStage:
    return next(each for each in run().stages if each.id == stage_id)


def server_sample(stage_id: str, **figures: Any) -> Sample:
    """Build a server's sample from a second after the stage began, with its token counter."""
    tokens = 1000.0 * STAGES.index(stage_id) + 5
    return sample(
        measured(stage_id).first_send_unix_us / 1e6 + 1,
        generation_tokens=tokens,
        **figures,
    )


def renewed(
    read: Callable[..., Sample], *, watts: float, **figures: Any
) -> list[Sample]:
    """Return three samples of `read`, a second apart, with rising energy and token counters.

    From sample to sample the GPUs' energy counter was renewed and 5 tokens were written.
    """
    first = read(**figures)
    tokens = first.generation_tokens or 0.0
    return [
        replace(
            first,
            at=first.at + t,
            gpu_joules=watts * t,
            generation_tokens=tokens + 5 * t,
        )
        for t in range(3)
    ]


def endpoint_spec() -> BenchmarkRunSpec:
    """Build the spec with the same traffic at an endpoint that existed before."""
    body = spec().model_dump(mode="json", by_alias=True, exclude_none=True)
    del body["server"]
    return BenchmarkRunSpec.model_validate(
        {**body, "endpoint": {"url": "https://vllm.example"}}
    )


def rows(table: ExportTable) -> list[dict[str, Value]]:
    names = [column.name for column in table.columns]
    return [dict(zip(names, values, strict=True)) for values in table.rows]
