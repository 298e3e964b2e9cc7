"""What the readers are first given: what was recorded of real servers and clusters, what the other
tests make, and every input that was found to break something (`found/`)."""

import gzip
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from benchrun.api import BenchmarkRunStatus, ResultDocument, result_json
from benchrun_client.contract import (
    ClientFigures,
    ClientProgress,
    Delivery,
    Failure,
    pack_delivery,
    seal,
)
from unit.api.examples import EXAMPLES, FILES
from unit.api.filled import filled
from unit.cli.finished_runs import finished_run
from unit.decide.scenes import Scene
from unit.judge_process.jobs import measured, timeline
from unit.measure.cadvisor_pages import cadvisor_page
from unit.measure.gpu_pages import Gpu, gpu_page
from unit.observe.bodies import pod_body
from unit.plan.specs import UID
from unit.sizing import configs, published
from unit.sweep.sweeps import a_run, decided, ended, sweep_body

HERE = Path(__file__).parent
UNIT = HERE.parent / "unit"
FOUND = HERE / "found"


def seeds(reader: str) -> list[bytes]:
    """What the reader is given first, what was found among it."""
    return [*_SEEDS[reader](), *found(reader).values()]


def found(reader: str) -> dict[str, bytes]:
    """By name, inputs that once broke the reader."""
    return {
        file.stem: gzip.decompress(file.read_bytes())
        if file.suffix == ".gz"
        else file.read_bytes()
        for file in sorted((FOUND / reader).glob("*"))
    }


def _files(*patterns: str) -> list[bytes]:
    return [
        file.read_bytes() for each in patterns for file in sorted(UNIT.glob(each))
    ]


def _lines(values: Iterable[Any]) -> list[bytes]:
    """Each as JSON in one line."""
    return [json.dumps(value, separators=(",", ":")).encode() for value in values]


def _pages() -> list[bytes]:
    return [page[: 24 * 1024] for page in _files("measure/pages/*.txt")]


def _exporters() -> list[bytes]:
    gpus = gpu_page(
        Gpu(pod="chat-0"), Gpu(1, xid=79, reasons=8, instance="1", pod="chat-0")
    )
    return [
        gpus.encode(),
        cadvisor_page(periods=600, throttled=30, waiting=2.5).encode(),
    ]


def _logs() -> list[bytes]:
    refusals = yaml.safe_load((UNIT / "observe" / "refusals.yaml").read_text())
    said = [
        case["text"].encode()
        for cases in refusals.values()
        for case in cases.values()
    ]
    logs = _files(
        "observe/logs/*.txt", "../simulator/benchrun_simulator/engine_failed.txt"
    )
    return [each[-8192:] for each in logs] + said


def _events() -> list[bytes]:
    about = {"fieldPath": "spec.containers{server}"}
    pulled = 'Successfully pulled image "vllm/vllm-openai:v0.32.0" in 1m2.5s (1m3.25s including'
    refused = 'Error creating: pods "x-" is forbidden: exceeded quota: gpus, requested: cpu=1'
    listed = [
        {
            "reason": "Pulled",
            "involvedObject": about,
            "message": f"{pulled} waiting).",
        },
        {
            "reason": "FailedCreate",
            "type": "Warning",
            "lastTimestamp": "2026-01-01T00:00:00Z",
            "series": {"lastObservedTime": "2026-01-01T00:00:00Z", "count": 3},
            "message": refused,
        },
    ]
    return _lines([listed])


def _slices() -> list[bytes]:
    pod = {"kind": "Pod", "namespace": "lab", "name": "p"}
    endpoints = [
        {"addresses": ["10.0.0.7"], "targetRef": pod, "conditions": {"ready": True}}
    ]
    ports = [{"name": "http", "port": 8000, "protocol": "TCP"}]
    return _lines(
        [[{"addressType": "IPv4", "ports": ports, "endpoints": endpoints}]]
    )


def _deliveries() -> list[bytes]:
    sealed = [seal(measured(sequence)) for sequence in range(2)]
    progress = ClientProgress(
        version=3, phase="Measuring", stage="chat/rate=4/r1", records=1
    )
    failed = ClientProgress(
        version=4, phase="Failed", failure=Failure(reason="No", message="it failed")
    )
    answers = [
        Delivery(run_uid=UID, progress=progress),
        Delivery(run_uid=UID, progress=failed),
        Delivery(
            run_uid=UID,
            progress=progress,
            records=tuple(each for each, _ in sealed),
        ),
    ]
    bodies = [(), (), [body for _, body in sealed]]
    failure = {"reason": "DatasetInvalid", "message": "rows.json, line 3: not JSON"}
    return [*map(pack_delivery, answers, bodies), *_lines([failure])]


def _records() -> list[bytes]:
    rich = measured(
        0, client=filled(ClientFigures), errors={"boom": 2}, diagnostic="HTTP 500"
    )
    return [gzip.decompress(seal(each)[1]) for each in (measured(0), rich)]


def _timelines() -> list[bytes]:
    samples = Scene().measuring().sampled(71, 72, 75).collected.samples.unstored
    low = [replace(each, low=each, high=each) for each in samples]
    return [gzip.decompress(timeline(*each).data) for each in (samples, low)]


def _runs() -> list[Any]:
    return [finished_run().body]


def _documents() -> list[bytes]:
    document = finished_run().document
    full = filled(BenchmarkRunStatus)
    shared = set(BenchmarkRunStatus.model_fields) & set(ResultDocument.model_fields)
    kept = {"phase", "conditions", "results", "message"}
    update = {name: getattr(full, name) for name in shared - kept}
    loads = {"lower": "4", "upper": "8"}
    update["searches"] = [e.model_copy(update=loads) for e in full.searches]
    rows = [row.model_copy(update={"value": "inf"}) for row in full.results]
    update["results"] = [*document.results, *rows]
    rich = document.model_copy(update=update)
    return [result_json(document), result_json(rich)]


def _statuses() -> list[bytes]:
    scenes = (
        Scene().measuring(),
        Scene().measuring().arrived(0),
        Scene().server_loading(),
    )
    statuses = [
        scene.decide().status for scene in (*scenes, Scene().with_spec(repeats=0))
    ]
    stored = [
        each.model_dump(mode="json", by_alias=True, exclude_none=True)
        for each in statuses
    ]
    full = filled(BenchmarkRunStatus).model_dump(mode="json", by_alias=True)
    return _lines([*stored, full, finished_run().body["status"], ended()])


def _sweep_statuses() -> list[bytes]:
    runs = [a_run(f"seqs-v{n}-r1", status=ended()) for n in (1, 2)]
    statuses = [decided().status, decided(sweep_body(), runs).status]
    return _lines(
        each.model_dump(mode="json", by_alias=True, exclude_none=True)
        for each in statuses
    )


def _pods() -> list[bytes]:
    real = json.loads((UNIT / "observe" / "pods-1.36.json").read_text())
    return _lines([*real, pod_body()])


def _objects() -> list[bytes]:
    manifests = Scene().client_ready().decide().apply + Scene().decide().apply
    status = {
        "conditions": [
            {"type": "Failed", "status": "True", "reason": "R", "message": "m"}
        ]
    }
    return _lines({**each, "status": status} for each in manifests)


def _configs() -> list[bytes]:
    every = (*vars(configs).values(), *vars(published).values())
    return _lines(
        each for each in every if isinstance(each, dict) and "model_type" in each
    )


def _datasets() -> list[bytes]:
    turns = [
        {"from": who, "value": "one two three four five"}
        for who in ("human", "gpt")
    ]
    talk = {"conversations": turns, "id": "a"}
    custom = {"prompt": "one two three", "output_tokens": 7, "text": "a text"}
    trace = {
        "timestamp": 5.5,
        "input_length": 20,
        "output_length": 5,
        "hash_ids": [1, "a"],
    }
    csv = b'text,other\n"one, ""two""",1\nthree,2\n'
    several = b"\n".join(_lines([custom, custom, trace, trace]))
    built_in = (
        UNIT.parents[1]
        / "client-image/benchrun_client/datasets/agent_conversation.json"
    )
    start = json.loads(built_in.read_text())
    return [*_lines([[talk], talk, custom, trace]), several, csv, *_lines([start])]


def _traces() -> list[bytes]:
    one = json.loads(
        gzip.decompress(
            (UNIT / "client/traces/one-step.pt.trace.json.gz").read_bytes()
        )
    )
    step = "execute_context_1(sq1435)_generation_0(sq0)"
    kernel = {
        "ph": "X",
        "cat": "kernel",
        "name": "k",
        "ts": 1.0,
        "dur": 2.0,
        "pid": 1,
        "tid": 1,
    }
    annotated = {**kernel, "cat": "gpu_user_annotation", "name": step}
    return _lines(
        [
            {"traceEvents": one["traceEvents"][:40]},
            {"traceEvents": [kernel, annotated]},
        ]
    )


def _errors() -> list[bytes]:
    causes = [
        {
            "field": "metadata.uid",
            "reason": "FieldValueInvalid",
            "message": "Precondition",
        }
    ]
    return _lines(
        [
            {
                "kind": "Status",
                "message": "no",
                "reason": "Exists",
                "details": {"causes": causes},
            }
        ]
    )


def _manifests() -> list[bytes]:
    return [file.read_bytes() for file in FILES] + _lines(
        each.body for each in EXAMPLES[:3]
    )


def _foreign() -> list[bytes]:
    """Files of other tools; those of AIPerf's folder as the lines of one."""
    of_folder = _files("foreign/files/*/*.json", "foreign/files/*/*.jsonl")
    single = _files("foreign/files/*.json", "foreign/files/*.yaml")
    return [*single, b"\n".join(of_folder)]


_SEEDS: dict[str, Callable[[], list[bytes]]] = {
    "metrics_pages": _pages,
    "exporter_pages": _exporters,
    "pod_logs": _logs,
    "events": _events,
    "endpoint_slices": _slices,
    "deliveries": _deliveries,
    "stored_records": _records,
    "packed_records": lambda: [seal(measured(0))[1]],
    "timelines": _timelines,
    "baselines": lambda: _lines(_runs()),
    "result_documents": _documents,
    "pods": _pods,
    "objects": _objects,
    "statuses": _statuses,
    "sweep_statuses": _sweep_statuses,
    "model_configs": _configs,
    "datasets": _datasets,
    "profiler_traces": _traces,
    "api_errors": _errors,
    "manifest_files": _manifests,
    "foreign_files": _foreign,
}
