"""llm-d benchmark reports, held against the schema that llm-d publishes."""

import copy
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from benchrun.api import RoleFigures
from benchrun.report.export.encoders import NotExportable
from benchrun.report.export.formats import ExportedRun
from benchrun.report.export.llmd_report import (
    latency,
    llmd_document,
    llmd_files,
    report,
    requests,
    resources,
    scenario,
    throughput,
)
from benchrun_client.contract import Streams
from unit.measure.records import edge, record, requests as columns
from unit.plan.specs import workload
from unit.report.export.runs import (
    ARGS,
    CAPPED,
    CHAT,
    FIRST,
    GPU,
    LOAD_POINTS,
    STAGES,
    UID,
    endpoint_spec,
    failing,
    measured,
    row,
    run,
    server_sample,
    spec,
    stage,
    status,
)
from unit.report.export.split_runs import split_run, split_sample

SCHEMA = json.loads(
    (
        Path(__file__).parent / "schemas" / "llm-d_benchmark_report_v0.2.json"
    ).read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def stage_report(
    stage_id: str, within: ExportedRun | None = None
) -> dict[str, Any]:
    """The report of a stage, valid by the schema."""
    found = _read(_usual_files() if within is None else llmd_files(within))
    return found[f"benchmark_report_v0.2,_{stage_id.replace('/', '-')}.yaml"]


@cache
def _usual_files() -> Mapping[str, bytes]:
    return llmd_files(run())


def _read(files: Mapping[str, bytes]) -> dict[str, dict[str, Any]]:
    """Reports by the names of their files, all valid by the schema."""
    found = {
        name: yaml.load(data, yaml.CSafeLoader) for name, data in files.items()
    }
    for each in found.values():
        VALIDATOR.validate(each)
    return found


def aggregate(found: dict[str, Any]) -> dict[str, Any]:
    performance: dict[str, Any] = found["results"]["request_performance"][
        "aggregate"
    ]
    return performance


@pytest.mark.parametrize("kind", ["server", "endpoint", "gpu-unknown", "timeline"])
def test_every_report_fits_the_schema(kind: str) -> None:
    kinds: dict[str, dict[str, Any]] = {
        "server": {},
        "endpoint": {"of_spec": endpoint_spec()},
        "gpu-unknown": {"of_status": status([], gpu=None)},
        "timeline": {"samples": [server_sample(CHAT, running=3.0, kv_cache=0.25)]},
    }
    found = _read(llmd_files(run(**kinds[kind])))
    assert [each["version"] for each in found.values()] == ["0.2"] * len(STAGES)


def test_one_of_a_server_that_is_split_fits_it_too() -> None:
    split = split_run(
        samples=[
            split_sample("prefill", running=1.0),
            split_sample("decode", running=3.0),
        ]
    )
    stack = stage_report(CHAT, split)["scenario"]["stack"]
    assert [component["standardized"]["role"] for component in stack] == [
        "prefill",
        "decode",
    ]


def test_one_whose_requests_all_failed_fits_it_too() -> None:
    found = stage_report(CHAT, run(failing(CHAT, failed=24)))
    assert aggregate(found)["requests"] == {"total": 24, "failures": 24}
    assert aggregate(found)["latency"] == {}


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(
            lambda r: r["results"].update(verdict="Valid"), id="unknown-field"
        ),
        pytest.param(lambda r: r["run"].pop("uid"), id="no-uid"),
        pytest.param(
            lambda r: aggregate(r)["latency"]["time_to_first_token"].update(
                units="furlongs"
            ),
            id="units",
        ),
    ],
)
def test_the_schema_would_notice(spoil: Any) -> None:
    found = copy.deepcopy(stage_report(CHAT))
    spoil(found)
    assert not VALIDATOR.is_valid(found)


@pytest.mark.parametrize(
    ("field", "latency", "units"),
    [
        ("time_to_first_token", "ttft", "s"),
        ("time_per_output_token", "tpot", "s/token"),
        ("inter_token_latency", "itl", "s/token"),
        ("request_latency", "e2el", "s"),
    ],
)
def test_latencies_are_seconds_and_vllms_own(
    field: str, latency: str, units: str
) -> None:
    found = aggregate(stage_report(CHAT))["latency"][field]
    vllms = measured(CHAT).scalars
    assert found["units"] == units
    for name, key in (("mean", "mean"), ("stddev", "std")):
        assert found[name] == pytest.approx(
            (vllms[f"{key}_{latency}_ms"] or 0) / 1000, rel=5e-5
        ), name
    assert found["min"] <= found["mean"] <= found["max"]


def test_throughputs_are_vllms_own() -> None:
    found = aggregate(stage_report(CHAT))["throughput"]
    vllms = measured(CHAT).scalars
    for field, key in (
        ("output_token_rate", "output_throughput"),
        ("total_token_rate", "total_token_throughput"),
        ("request_rate", "request_throughput"),
    ):
        assert found[field]["mean"] == pytest.approx(vllms[key], rel=6e-5)
    tokens = vllms["total_input_tokens"]
    seconds = vllms["duration"]
    assert tokens is not None
    assert seconds is not None
    assert found["input_token_rate"] == {
        "units": "tokens/s",
        "mean": pytest.approx(tokens / seconds, rel=1e-4),
    }


def test_a_percentile_that_few_requests_cannot_bound_is_left_out() -> None:
    """Six rounds of four users are too short a stage for any, of gaps too, though there are eleven
    a request."""
    for found in aggregate(stage_report(CHAT))["latency"].values():
        assert set(found) == {"units", "mean", "stddev", "min", "max"}
    assert aggregate(stage_report(CHAT))["requests"]["input_length"]["p99p9"] == 64


@pytest.mark.parametrize(("count", "is_given"), [(499, False), (700, True)])
def test_a_p99_takes_hundreds_of_requests(count: int, is_given: bool) -> None:
    ttft_us = [20_000 + i * 619 % 1000 for i in range(count)]
    times = {"ttft_us": ttft_us, "e2el_us": [5000 + ttft for ttft in ttft_us]}
    sent = [250_000 * i for i in range(count)]
    traced = workload("chat", load={"requestRates": ["4"]}, requests=count)
    whole = run(
        record(
            "chat/rate=4/r1",
            requests=columns(start_us=sent, output_tokens=[11] * count, **times),
        ),
        of_spec=spec(workloads=[traced], repeats=1),
    )
    found = latency(whole.stages[0])["time_to_first_token"]
    assert found["p50"] == pytest.approx(0.0205, abs=1e-4)
    assert ("p99" in found) is is_given


def test_an_unmeasured_value_is_absent() -> None:
    assert set(aggregate(stage_report(FIRST))["latency"]) == {
        "time_to_first_token",
        "request_latency",
    }


def test_server_and_load_in_standard_words_and_in_their_own() -> None:
    (server,) = stage_report(CAPPED)["scenario"]["stack"]
    load = stage_report(CAPPED)["scenario"]["load"]
    assert server["standardized"] == {
        "kind": "inference_engine",
        "tool": "vllm",
        "tool_version": "0.32.0",
        "role": "replica",
        "replicas": 1,
        "model": {"name": "Qwen/Qwen3-4B"},
        "accelerator": {
            "model": GPU,
            "count": 2,
            "parallelism": {"tp": 2, "pp": 1, "dp": 1, "ep": 1},
        },
    }
    assert server["native"]["args"] == {
        "--served-model-name": "qwen",
        "--tensor-parallel-size": "2",
        "--max-model-len": "4096",
        "--enforce-eager": None,
    }
    assert ARGS[0] == "--tensor-parallel-size=2"
    assert server["native"]["envars"] == {"VLLM_USE_V1": "1"}
    assert load["standardized"] == {
        "tool": "vllm-benchmark",
        "tool_version": "0.32.0",
        "parallelism": 1,
        "source": "random",
        "stage": 1,
        "input_seq_len": {"distribution": "fixed", "value": 64},
        "output_seq_len": {"distribution": "fixed", "value": 12},
        "rate_qps": 40.0,
        "concurrency": 2,
    }
    assert load["native"]["config"]["workload"]["name"] == "capped"


def test_no_limit_on_the_rate_is_no_rate() -> None:
    load = stage_report(CHAT)["scenario"]["load"]["standardized"]
    assert "rate_qps" not in load
    assert load["concurrency"] == 4


def test_the_hardware_of_an_endpoint_is_unknown() -> None:
    (server,) = stage_report(CHAT, run(of_spec=endpoint_spec()))["scenario"][
        "stack"
    ]
    assert (server["standardized"]["kind"], server["native"]) == ("generic", {})


def test_equal_configurations_have_equal_ids() -> None:
    ids = {
        stage_id: stage_report(stage_id)["scenario"]["load"]["metadata"]["cfg_id"]
        for stage_id in STAGES
    }
    assert ids[STAGES[0]] == ids[STAGES[3]]
    assert len(set(ids.values())) == 3


def test_reports_of_a_run_belong_together_and_are_distinguished() -> None:
    runs = [stage_report(stage_id)["run"] for stage_id in STAGES]
    assert {each["eid"] for each in runs} == {UID}
    assert len({each["uid"] for each in runs}) == 4
    assert runs[0]["time"] == {
        "start": "2027-01-15T08:00:00.250000+00:00",
        "end": "2027-01-15T08:00:02.750000+00:00",
        "duration": "PT2.500000S",
    }


def test_verdict_and_findings_are_in_description_and_keywords() -> None:
    judged = run(
        measured(CHAT),
        of_status=status([row(LOAD_POINTS[0], "Suspect", ["Drift"])]),
    )
    found = stage_report(CHAT, judged)["run"]
    assert found["keywords"] == ["benchrun", "verdict=Suspect", "finding=Drift"]
    assert (
        found["description"]
        == "Qwen/Qwen3-4B chat/concurrency=4/r1 [lab/nightly]: Suspect (Drift)"
    )


def test_what_the_server_said_is_there_and_nothing_else() -> None:
    found = stage_report(
        CHAT,
        run(
            samples=[server_sample(CHAT, running=3.0, waiting=None, kv_cache=0.25)]
        ),
    )["results"]
    (component,) = found["observability"]["components"]
    assert component["component_label"] == "server"
    assert component["aggregate"]["running_requests"] == {
        "units": "count",
        "mean": 3.0,
        "max": 3.0,
    }
    assert component["aggregate"]["kv_cache_usage"] == {
        "units": "percent",
        "mean": 25.0,
        "max": 25.0,
    }
    assert "waiting_requests" not in component["aggregate"]


def test_one_document_is_one_report() -> None:
    single = run(measured(CHAT))
    assert yaml.safe_load(llmd_document(single)) == report(single, single.stages[0])
    with pytest.raises(NotExportable, match=r"^4 stages .* --stage$"):
        llmd_document(run())


def figures(**known: float) -> RoleFigures:
    return RoleFigures.model_validate({"role": "server", "samples": 1, **known})


@pytest.mark.parametrize(
    ("field", "value", "known"),
    [
        (
            "kv_cache_usage",
            {"units": "percent", "mean": 25.0},
            {"kv_cache_mean_percent": 25.0},
        ),
        (
            "kv_cache_usage",
            {"units": "percent", "mean": 25.0, "max": 31.0},
            {"kv_cache_mean_percent": 25.0, "kv_cache_max_percent": 31.0},
        ),
        (
            "cache_hit_rate",
            {"units": "percent", "mean": 0.0},
            {"prefix_hit_percent": 0.0},
        ),
        (
            "running_requests",
            {"units": "count", "mean": 3.0, "max": 4.0},
            {"running_mean": 3.0, "running_max": 4.0},
        ),
        (
            "waiting_requests",
            {"units": "count", "mean": 1.0, "max": 2.0},
            {"waiting_mean": 1.0, "waiting_max": 2.0},
        ),
        ("preemptions", {"units": "count", "mean": 7.0}, {"preemptions": 7.0}),
    ],
)
def test_what_a_metrics_page_said_has_its_field_and_unit(
    field: str, value: Any, known: dict[str, float]
) -> None:
    assert resources(figures(**known)) == {field: value}


@pytest.mark.parametrize(
    "known",
    [
        {},
        {"kv_cache_max_percent": 31.0},
        {"running_max": 4.0},
        {"waiting_max": 2.0},
    ],
)
def test_without_a_mean_there_is_no_figure(known: dict[str, float]) -> None:
    assert resources(figures(**known)) == {}


def test_lengths_are_those_of_answered_requests() -> None:
    mixed = columns(
        ttft_us=(1, 1, 1),
        e2el_us=(2, 2, 2),
        output_tokens=(10, 20, 99),
        input_tokens=(5, 7, 99),
        ok=(1, 1, 0),
    )
    (stage,) = run(measured(CHAT, requests=mixed)).stages
    section = requests(stage)
    assert (section["total"], section["failures"]) == (3, 1)
    shown = {
        name: [section[name][key] for key in ("mean", "min", "p50", "max", "units")]
        for name in ("input_length", "output_length")
    }
    assert shown == {
        "input_length": [6.0, 5.0, 6.0, 7.0, "count"],
        "output_length": [15.0, 10.0, 15.0, 20.0, "count"],
    }
    assert set(section["input_length"]) == {
        *("units", "mean", "stddev", "min", "max"),
        *(
            "p0p1",
            "p1",
            "p5",
            "p10",
            "p25",
            "p50",
            "p75",
            "p90",
            "p95",
            "p99",
            "p99p9",
        ),
    }


def test_lengths_that_nobody_knows_are_absent() -> None:
    sent = measured(CHAT).requests
    none = sent.model_copy(update={"output_tokens": (0,) * len(sent.ok)})
    streams = Streams(closed=(1,) * len(sent.ok), uncounted=len(sent.ok))
    (uncounted,) = run(measured(CHAT, requests=none, streams=streams)).stages
    assert "output_length" in requests(stage(CHAT))
    assert "output_length" not in requests(uncounted)


def test_rates_have_their_units() -> None:
    section = throughput(stage(CHAT))
    assert {name: each["units"] for name, each in section.items()} == {
        "output_token_rate": "tokens/s",
        "input_token_rate": "tokens/s",
        "total_token_rate": "tokens/s",
        "request_rate": "queries/s",
    }
    assert section["total_token_rate"]["mean"] == pytest.approx(
        section["input_token_rate"]["mean"] + section["output_token_rate"]["mean"],
        rel=1e-4,
    )


def load(exported: Any) -> dict[str, Any]:
    standardized: dict[str, Any] = scenario(exported, exported.stages[0])["load"][
        "standardized"
    ]
    return standardized


def test_lengths_that_vary_are_reported_by_mean_and_range() -> None:
    whole = measured(CHAT)
    varied = whole.model_copy(
        update={
            "requests": whole.requests.model_copy(
                update={"input_tokens": tuple(range(10, 34))}
            )
        }
    )
    section = load(run(varied))
    assert section["input_seq_len"] == {
        "distribution": "other",
        "value": 21.5,
        "min": 10,
        "max": 33,
    }
    assert section["output_seq_len"] == {"distribution": "fixed", "value": 12}


def test_answers_that_may_end_early_have_no_length_that_was_requested() -> None:
    body = spec().model_dump(mode="json", by_alias=True, exclude_none=True)
    body["workloads"][0]["ignoreEOS"] = False
    assert "output_seq_len" not in load(
        run(measured(CHAT), of_spec=type(spec()).model_validate(body))
    )


@pytest.mark.parametrize(
    ("model", "server"),
    [
        ("none", {"gpu": None, "gpus": 0}),
        ("unknown", {"gpu": None, "gpus": 2}),
        ("H100", {"gpu": "H100", "gpus": 2}),
    ],
)
def test_an_accelerator_is_named_unknown_or_none(
    model: str, server: dict[str, Any]
) -> None:
    exported = run(measured(CHAT), of_status=status(**server))
    (stack,) = scenario(exported, exported.stages[0])["stack"]
    assert stack["standardized"]["accelerator"]["model"] == model


def test_replicas_are_the_servers_that_counted() -> None:
    exported = run(measured(CHAT, servers=(edge("a:1"), edge("b:1"), edge("c:1"))))
    (stack,) = scenario(exported, exported.stages[0])["stack"]
    assert stack["standardized"]["replicas"] == 3
    none = run(measured(CHAT, servers=()))
    assert (
        scenario(none, none.stages[0])["stack"][0]["standardized"]["replicas"] == 1
    )


def test_a_server_that_is_split_is_two_components_with_gpus_and_figures_of_their_own() -> (
    None
):
    samples = [
        split_sample("prefill", running=1.0),
        split_sample("decode", running=3.0),
    ]
    exported = split_run(samples=samples)
    found = report(exported, exported.stages[0])
    prefill, decode = found["scenario"]["stack"]
    for component, role, replicas, parallelism in (
        (prefill, "prefill", 2, {"tp": 1, "pp": 1, "dp": 1, "ep": 1}),
        (decode, "decode", 1, {"tp": 1, "pp": 1, "dp": 2, "ep": 2}),
    ):
        standardized = component["standardized"]
        assert (
            component["metadata"]["label"],
            standardized["role"],
            standardized["replicas"],
        ) == (
            role,
            role,
            replicas,
        )
        assert (
            standardized["accelerator"]["count"],
            standardized["accelerator"]["parallelism"],
        ) == (2, parallelism)
    assert "--enforce-eager" in prefill["native"]["args"]
    assert prefill["metadata"]["cfg_id"] != decode["metadata"]["cfg_id"]
    labels = ["prefill", "decode"]
    results = found["results"]
    assert [
        each["component_label"] for each in results["component_health"]
    ] == labels
    components = {
        each["component_label"]: each["aggregate"]
        for each in results["observability"]["components"]
    }
    assert sorted(components) == sorted(labels)
    assert components["decode"]["running_requests"]["mean"] == 3


def test_without_a_version_the_image_stands_for_it_and_at_an_endpoint_nothing() -> (
    None
):
    silent = (edge().model_copy(update={"version": None}),)
    ours = run(measured(CHAT, servers=silent), of_status=status(version=None))
    theirs = run(
        measured(CHAT, servers=silent),
        of_status=status(version=None),
        of_spec=endpoint_spec(),
    )
    versions = [
        scenario(exported, exported.stages[0])["stack"][0]["standardized"][
            "tool_version"
        ]
        for exported in (ours, theirs)
    ]
    assert versions == ["vllm/vllm-openai:v0.32.0", "unknown"]


def test_restarts_are_the_health_of_a_server_of_ours() -> None:
    exported = run(measured(CHAT), of_status=status(restarts=2))
    assert report(exported, exported.stages[0])["results"]["component_health"] == [
        {"component_label": "server", "total_restarts": 2}
    ]
    theirs = run(
        measured(CHAT), of_status=status(restarts=2), of_spec=endpoint_spec()
    )
    assert "component_health" not in report(theirs, theirs.stages[0])["results"]


def test_a_verdict_without_findings_stands_alone() -> None:
    exported = run(measured(CHAT), of_status=status([row(LOAD_POINTS[0], "Valid")]))
    section = report(exported, exported.stages[0])["run"]
    assert section["description"].endswith("]: Valid")
    assert (section["keywords"], section["uid"]) == (
        ["benchrun", "verdict=Valid"],
        f"{exported.uid}/{CHAT}",
    )
