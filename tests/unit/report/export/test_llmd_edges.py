"""Parts of an llm-d report where something varies or is not known."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api import RoleFigures
from benchrun.report.export.llmd_report import report, requests, resources, throughput
from benchrun.report.export.llmd_scenario import scenario
from unit.measure.records import edge, record
from unit.measure.records import requests as columns
from unit.report.export.runs import CELLS, CHAT, endpoint_spec, measured, row, run, spec, status
from unit.report.export.split_runs import split_reading, split_run


def figures(**known: float) -> RoleFigures:
    return RoleFigures.model_validate({"role": "server", "samples": 1, **known})


@pytest.mark.parametrize(
    ("field", "said", "known"),
    [
        ("kv_cache_usage", {"units": "percent", "mean": 25.0}, {"kv_cache_mean_percent": 25.0}),
        (
            "kv_cache_usage",
            {"units": "percent", "mean": 25.0, "max": 31.0},
            {"kv_cache_mean_percent": 25.0, "kv_cache_max_percent": 31.0},
        ),
        ("cache_hit_rate", {"units": "percent", "mean": 0.0}, {"prefix_hit_percent": 0.0}),
        ("running_requests", {"units": "count", "mean": 3.0, "max": 4.0}, {"running_mean": 3.0, "running_max": 4.0}),
        ("waiting_requests", {"units": "count", "mean": 1.0, "max": 2.0}, {"waiting_mean": 1.0, "waiting_max": 2.0}),
        ("preemptions", {"units": "count", "mean": 7.0}, {"preemptions": 7.0}),
    ],
)
def test_what_a_metrics_page_said_has_its_field_and_unit(field: str, said: Any, known: dict[str, float]) -> None:
    assert resources(figures(**known)) == {field: said}


@pytest.mark.parametrize("known", [{}, {"kv_cache_max_percent": 31.0}, {"running_max": 4.0}, {"waiting_max": 2.0}])
def test_without_a_mean_there_is_no_figure(known: dict[str, float]) -> None:
    assert resources(figures(**known)) == {}


def test_lengths_are_those_of_answered_requests() -> None:
    mixed = columns(
        ttft_us=(1, 1, 1), e2el_us=(2, 2, 2), output_tokens=(10, 20, 99), input_tokens=(5, 7, 99), ok=(1, 1, 0)
    )
    told = requests(record(requests=mixed))
    assert (told["total"], told["failures"]) == (3, 1)
    shown = {
        name: [told[name][key] for key in ("mean", "min", "p50", "max", "units")]
        for name in ("input_length", "output_length")
    }
    assert shown == {"input_length": [6.0, 5.0, 6.0, 7.0, "count"], "output_length": [15.0, 10.0, 15.0, 20.0, "count"]}
    assert set(told["input_length"]) == {
        *("units", "mean", "stddev", "min", "max"),
        *("p0p1", "p1", "p5", "p10", "p25", "p50", "p75", "p90", "p95", "p99", "p99p9"),
    }


def test_rates_have_their_units() -> None:
    told = throughput(measured(CHAT))
    assert {name: each["units"] for name, each in told.items()} == {
        "output_token_rate": "tokens/s",
        "input_token_rate": "tokens/s",
        "total_token_rate": "tokens/s",
        "request_rate": "queries/s",
    }
    assert told["total_token_rate"]["mean"] == pytest.approx(
        told["input_token_rate"]["mean"] + told["output_token_rate"]["mean"], rel=1e-4
    )


def load(of: Any) -> dict[str, Any]:
    standardized: dict[str, Any] = scenario(of, of.stages[0])["load"]["standardized"]
    return standardized


def test_lengths_that_vary_are_told_by_mean_and_range() -> None:
    whole = measured(CHAT)
    varied = whole.model_copy(
        update={"requests": whole.requests.model_copy(update={"input_tokens": tuple(range(10, 34))})}
    )
    told = load(run(varied))
    assert told["input_seq_len"] == {"distribution": "other", "value": 21.5, "min": 10, "max": 33}
    assert told["output_seq_len"] == {"distribution": "fixed", "value": 12}


def test_answers_that_may_end_early_have_no_length_that_was_asked_for() -> None:
    body = spec().model_dump(mode="json", by_alias=True, exclude_none=True)
    body["workloads"][0]["ignoreEOS"] = False
    assert "output_seq_len" not in load(run(measured(CHAT), of_spec=type(spec()).model_validate(body)))


@pytest.mark.parametrize(
    ("model", "server"),
    [("none", {"gpu": None, "gpus": 0}), ("unknown", {"gpu": None, "gpus": 2}), ("H100", {"gpu": "H100", "gpus": 2})],
)
def test_an_accelerator_is_named_unknown_or_none(model: str, server: dict[str, Any]) -> None:
    of = run(measured(CHAT), of_status=status(**server))
    (stack,) = scenario(of, of.stages[0])["stack"]
    assert stack["standardized"]["accelerator"]["model"] == model


def test_replicas_are_the_servers_that_counted() -> None:
    of = run(measured(CHAT, servers=(edge("a:1"), edge("b:1"), edge("c:1"))))
    (stack,) = scenario(of, of.stages[0])["stack"]
    assert stack["standardized"]["replicas"] == 3
    none = run(measured(CHAT, servers=()))
    assert scenario(none, none.stages[0])["stack"][0]["standardized"]["replicas"] == 1


def test_a_server_that_is_split_is_two_components_with_gpus_and_figures_of_their_own() -> None:
    samples = [split_reading("prefill", running=1.0), split_reading("decode", running=3.0)]
    of = split_run(samples=samples)
    found = report(of, of.stages[0])
    prefill, decode = found["scenario"]["stack"]
    for component, role, replicas, parallelism in (
        (prefill, "prefill", 2, {"tp": 1, "pp": 1, "dp": 1, "ep": 1}),
        (decode, "decode", 1, {"tp": 1, "pp": 1, "dp": 2, "ep": 2}),
    ):
        said = component["standardized"]
        assert (component["metadata"]["label"], said["role"], said["replicas"]) == (role, role, replicas)
        assert (said["accelerator"]["count"], said["accelerator"]["parallelism"]) == (2, parallelism)
    assert "--enforce-eager" in prefill["native"]["args"]
    assert prefill["metadata"]["cfg_id"] != decode["metadata"]["cfg_id"]
    labels = ["prefill", "decode"]
    results = found["results"]
    assert [each["component_label"] for each in results["component_health"]] == labels
    components = {each["component_label"]: each["aggregate"] for each in results["observability"]["components"]}
    assert sorted(components) == sorted(labels)
    assert components["decode"]["running_requests"]["mean"] == 3


def test_without_a_version_the_image_stands_for_it_and_at_an_endpoint_nothing() -> None:
    silent = (edge().model_copy(update={"version": None}),)
    ours = run(measured(CHAT, servers=silent), of_status=status(version=None))
    theirs = run(measured(CHAT, servers=silent), of_status=status(version=None), of_spec=endpoint_spec())
    versions = [scenario(of, of.stages[0])["stack"][0]["standardized"]["tool_version"] for of in (ours, theirs)]
    assert versions == ["vllm/vllm-openai:v0.32.0", "unknown"]


def test_restarts_are_the_health_of_a_server_of_ours() -> None:
    of = run(measured(CHAT), of_status=status(restarts=2))
    assert report(of, of.stages[0])["results"]["component_health"] == [
        {"component_label": "server", "total_restarts": 2}
    ]
    theirs = run(measured(CHAT), of_status=status(restarts=2), of_spec=endpoint_spec())
    assert "component_health" not in report(theirs, theirs.stages[0])["results"]


def test_a_verdict_without_findings_stands_alone() -> None:
    of = run(measured(CHAT), of_status=status([row(CELLS[0], "Valid")]))
    told = report(of, of.stages[0])["run"]
    assert told["description"].endswith("]: Valid")
    assert told["keywords"] == ["benchrun", "verdict=Valid"]
    assert told["uid"] == f"{of.uid}/{CHAT}"
