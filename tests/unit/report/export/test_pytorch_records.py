"""Records of the PyTorch benchmark database, held against the table that they are stored in."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from benchrun.report.export.exported import ExportedRun
from benchrun.report.export.pytorch_records import records
from unit.report.export.clickhouse_types import Type, columns, misfits
from unit.report.export.runs import (
    CAPPED,
    CELLS,
    CHAT,
    CHAT_AGAIN,
    FIRST,
    GPU,
    endpoint_spec,
    failing,
    measured,
    row,
    run,
    status,
)

TABLE = Type(
    "Tuple",
    tuple(columns((Path(__file__).parent / "schemas" / "oss_ci_benchmark_v3.sql").read_text(encoding="utf-8")).items()),
)


def values(of: ExportedRun, metric: str) -> list[float]:
    (found,) = [each["metric"]["benchmark_values"] for each in records(of) if each["metric"]["name"] == metric]
    return list(found)


def extra(of: ExportedRun) -> dict[str, Any]:
    return dict(records(of)[0]["benchmark"]["extra_info"])


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(run(), id="server"),
        pytest.param(run(of_spec=endpoint_spec()), id="endpoint"),
        pytest.param(run(of_status=status(gpu=None)), id="gpu-unknown"),
        pytest.param(run(failing(CHAT, failed=24)), id="all-failed"),
    ],
)
def test_every_record_fits_the_table(of: ExportedRun) -> None:
    made = json.loads(json.dumps(records(of), allow_nan=False))
    assert made
    assert [m for each in made for m in misfits(each, TABLE, each["metric"]["name"])] == []


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda r: r.update(verdict="Valid"), id="no-such-column"),
        pytest.param(lambda r: r["metric"]["benchmark_values"].append(None), id="null-in-an-array"),
        pytest.param(lambda r: r["benchmark"]["extra_info"].update(compile=True), id="no-text-in-a-map"),
        pytest.param(lambda r: r["runners"][0].update(gpu_count="2"), id="text-for-a-number"),
    ],
)
def test_the_table_would_notice(spoil: Any) -> None:
    found = copy.deepcopy(records(run())[0])
    spoil(found)
    assert len(misfits(found, TABLE, "")) == 1


@pytest.mark.parametrize("metric", ["mean_ttft_ms", "p99_tpot_ms", "std_itl_ms", "median_e2el_ms", "output_throughput"])
def test_a_figure_is_vllms_own_one_value_a_repeat(metric: str) -> None:
    of = run(measured(CHAT), measured(CHAT_AGAIN))
    assert values(of, metric) == [measured(each).scalars[metric] for each in (CHAT, CHAT_AGAIN)]


def test_a_record_a_figure_and_cell() -> None:
    of_cells = [each["benchmark"]["extra_info"]["benchrun_cell"] for each in records(run())]
    names = {(cell, each["metric"]["name"]) for cell, each in zip(of_cells, records(run()), strict=True)}
    assert len(names) == len(of_cells)
    # Four latencies of six figures each, and three throughputs; two latencies less where answers have one token.
    assert [of_cells.count(cell) for cell in CELLS] == [27, 27, 15]


def test_what_was_not_measured_has_no_record() -> None:
    names = {each["metric"]["name"] for each in records(run(measured(FIRST)))}
    assert "mean_ttft_ms" in names
    assert {"mean_tpot_ms", "p99_itl_ms"}.isdisjoint(names)


def test_what_few_requests_can_not_bound_says_so() -> None:
    uncertain = {
        each["metric"]["name"]: each["metric"]["extra_info"]["uncertain"] for each in records(run(measured(CHAT)))
    }
    assert (uncertain["p99_ttft_ms"], uncertain["median_ttft_ms"], uncertain["output_throughput"]) == (
        "true",
        "false",
        "false",
    )


def test_what_the_dashboard_filters_by() -> None:
    found = records(run(measured(CAPPED)))[0]
    assert (found["benchmark"]["name"], found["benchmark"]["mode"]) == ("vLLM benchmark", "inference")
    assert found["model"] == {"name": "Qwen/Qwen3-4B", "backend": "vllm"}
    assert json.loads(found["benchmark"]["extra_info"]["args"]) == {
        "model": "Qwen/Qwen3-4B",
        "num_prompts": "24",
        "request_rate": "40.0",
        "max_concurrency": "2",
        "tensor_parallel_size": "2",
        "random_input_len": "64",
        "random_output_len": "12",
    }
    assert found["runners"] == [{"name": GPU, "type": GPU, "gpu_info": GPU, "gpu_count": 2}]
    assert extra(run())["use_compile"] == "false"


def test_of_an_endpoint_the_uploader_says_what_ran_it() -> None:
    found = records(run(measured(CHAT), of_spec=endpoint_spec(), of_status=status(gpu=None)))[0]
    assert "runners" not in found
    assert "use_compile" not in found["benchmark"]["extra_info"]
    assert json.loads(found["benchmark"]["extra_info"]["args"])["request_rate"] == "inf"


def test_verdict_and_findings_travel_along() -> None:
    suspect = run(measured(CHAT), of_status=status([row(CELLS[0], "Suspect", ["Drift", "TooFewSamples"])]))
    assert (extra(suspect)["benchrun_verdict"], extra(suspect)["benchrun_findings"]) == (
        "Suspect",
        "Drift,TooFewSamples",
    )
    assert "failure_type" not in extra(suspect)


def test_an_invalid_figure_is_a_failure_to_the_dashboard() -> None:
    invalid = run(measured(CHAT), of_status=status([row(CELLS[0], "Invalid", ["RequestsFailed"])]))
    assert extra(invalid)["failure_type"] == "Invalid"
    assert [m for each in records(invalid) for m in misfits(each, TABLE, "")] == []


def test_a_figure_that_an_older_engine_did_not_give_has_no_record() -> None:
    scalars = {name: value for name, value in measured(CHAT).scalars.items() if name != "p99_ttft_ms"}
    older = run(measured(CHAT, scalars=scalars))
    assert "p99_ttft_ms" not in {each["metric"]["name"] for each in records(older)}
