"""llm-d benchmark reports, held against the schema that llm-d publishes."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from benchrun.report.export.exported import ExportedRun
from benchrun.report.export.llmd_report import llmd_document, llmd_files, report
from benchrun.report.export.tables import NotExportable
from unit.report.export.runs import (
    ARGS,
    CAPPED,
    CELLS,
    CHAT,
    FIRST,
    GPU,
    IDENTITY,
    STAGES,
    endpoint_spec,
    failing,
    measured,
    reading,
    row,
    run,
    status,
)
from unit.report.export.split_runs import split_reading, split_run

SCHEMA = json.loads(
    (Path(__file__).parent / "schemas" / "llm-d_benchmark_report_v0.2.json").read_text(encoding="utf-8")
)
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)


def of(stage_id: str, within: ExportedRun | None = None) -> dict[str, Any]:
    """The report of a stage, valid by the schema."""
    whole = within or run()
    found: dict[str, Any] = yaml.safe_load(
        llmd_files(whole)[f"benchmark_report_v0.2,_{stage_id.replace('/', '-')}.yaml"]
    )
    VALIDATOR.validate(found)
    return found


def aggregate(found: dict[str, Any]) -> dict[str, Any]:
    performance: dict[str, Any] = found["results"]["request_performance"]["aggregate"]
    return performance


@pytest.mark.parametrize("stage_id", STAGES)
@pytest.mark.parametrize(
    "within",
    [
        pytest.param(run(), id="server"),
        pytest.param(run(of_spec=endpoint_spec()), id="endpoint"),
        pytest.param(run(of_status=status([], gpu=None)), id="gpu-unknown"),
        pytest.param(run(samples=[reading(CHAT, running=3.0, kv_cache=0.25)]), id="timeline"),
    ],
)
def test_every_report_fits_the_schema(stage_id: str, within: ExportedRun) -> None:
    assert of(stage_id, within)["version"] == "0.2"


def test_one_of_a_server_that_is_split_fits_it_too() -> None:
    split = split_run(samples=[split_reading("prefill", running=1.0), split_reading("decode", running=3.0)])
    stack = of(CHAT, split)["scenario"]["stack"]
    assert [component["standardized"]["role"] for component in stack] == ["prefill", "decode"]


def test_one_whose_requests_all_failed_fits_it_too() -> None:
    found = of(CHAT, run(failing(CHAT, failed=24)))
    assert aggregate(found)["requests"] == {"total": 24, "failures": 24}
    assert aggregate(found)["latency"] == {}


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda r: r["results"].update(verdict="Valid"), id="unknown-field"),
        pytest.param(lambda r: r["run"].pop("uid"), id="no-uid"),
        pytest.param(lambda r: aggregate(r)["latency"]["time_to_first_token"].update(units="furlongs"), id="units"),
    ],
)
def test_the_schema_would_notice(spoil: Any) -> None:
    found = copy.deepcopy(of(CHAT))
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
def test_latencies_are_seconds_and_vllms_own(field: str, latency: str, units: str) -> None:
    found, vllms = aggregate(of(CHAT))["latency"][field], measured(CHAT).scalars
    assert found["units"] == units
    for name, key in (("mean", "mean"), ("stddev", "std"), ("p50", "median")):
        assert found[name] == pytest.approx((vllms[f"{key}_{latency}_ms"] or 0) / 1000, abs=1e-6), name
    assert found["min"] <= found["p50"] <= found["max"]


def test_throughputs_are_vllms_own() -> None:
    found, vllms = aggregate(of(CHAT))["throughput"], measured(CHAT).scalars
    for field, key in (
        ("output_token_rate", "output_throughput"),
        ("total_token_rate", "total_token_throughput"),
        ("request_rate", "request_throughput"),
    ):
        assert found[field]["mean"] == pytest.approx(vllms[key], rel=6e-5)
    tokens, seconds = vllms["total_input_tokens"], vllms["duration"]
    assert tokens is not None
    assert seconds is not None
    assert found["input_token_rate"] == {"units": "tokens/s", "mean": pytest.approx(tokens / seconds, rel=1e-4)}


def test_a_percentile_that_few_requests_can_not_bound_is_left_out() -> None:
    latency = aggregate(of(CHAT))["latency"]
    assert "p50" in latency["time_to_first_token"]
    assert {"p99", "p99p9", "p1"}.isdisjoint(latency["time_to_first_token"])
    # There are eleven gaps a request.
    assert "p95" in latency["inter_token_latency"]
    assert aggregate(of(CHAT))["requests"]["input_length"]["p99p9"] == 64


def test_what_was_not_measured_is_absent() -> None:
    assert set(aggregate(of(FIRST))["latency"]) == {"time_to_first_token", "request_latency"}


def test_server_and_load_in_standard_words_and_in_their_own() -> None:
    (server,), load = of(CAPPED)["scenario"]["stack"], of(CAPPED)["scenario"]["load"]
    assert server["standardized"] == {
        "kind": "inference_engine",
        "tool": "vllm",
        "tool_version": "0.32.0",
        "role": "replica",
        "replicas": 1,
        "model": {"name": "Qwen/Qwen3-4B"},
        "accelerator": {"model": GPU, "count": 2, "parallelism": {"tp": 2, "pp": 1, "dp": 1, "ep": 1}},
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
    load = of(CHAT)["scenario"]["load"]["standardized"]
    assert "rate_qps" not in load
    assert load["concurrency"] == 4


def test_of_an_endpoint_nobody_knows_the_hardware() -> None:
    (server,) = of(CHAT, run(of_spec=endpoint_spec()))["scenario"]["stack"]
    assert server["standardized"]["kind"] == "generic"
    assert server["native"] == {}


def test_equal_configurations_have_equal_ids() -> None:
    ids = {stage_id: of(stage_id)["scenario"]["load"]["metadata"]["cfg_id"] for stage_id in STAGES}
    assert ids[STAGES[0]] == ids[STAGES[3]]
    assert len(set(ids.values())) == 3


def test_reports_of_a_run_belong_together_and_are_told_apart() -> None:
    runs = [of(stage_id)["run"] for stage_id in STAGES]
    assert {each["eid"] for each in runs} == {IDENTITY.uid}
    assert len({each["uid"] for each in runs}) == 4
    assert runs[0]["time"] == {
        "start": "2027-01-15T08:00:00.250000+00:00",
        "end": "2027-01-15T08:00:02.750000+00:00",
        "duration": "PT2.500000S",
    }


def test_verdict_and_findings_are_in_description_and_keywords() -> None:
    judged = run(measured(CHAT), of_status=status([row(CELLS[0], "Suspect", ["Drift"])]))
    found = of(CHAT, judged)["run"]
    assert found["keywords"] == ["benchrun", "verdict=Suspect", "finding=Drift"]
    assert found["description"] == "Qwen/Qwen3-4B chat/concurrency=4/r1 [lab/nightly]: Suspect (Drift)"


def test_what_the_server_said_is_there_and_nothing_else() -> None:
    found = of(CHAT, run(samples=[reading(CHAT, running=3.0, waiting=None, kv_cache=0.25)]))["results"]
    (component,) = found["observability"]["components"]
    assert component["component_label"] == "server"
    assert component["aggregate"]["running_requests"] == {"units": "count", "mean": 3.0, "max": 3.0}
    assert component["aggregate"]["kv_cache_usage"] == {"units": "percent", "mean": 25.0, "max": 25.0}
    assert "waiting_requests" not in component["aggregate"]


def test_one_document_is_one_report() -> None:
    single = run(measured(CHAT))
    assert yaml.safe_load(llmd_document(single)) == report(single, single.stages[0])
    with pytest.raises(NotExportable, match=r"^4 stages .* --stage$"):
        llmd_document(run())
