"""The files of `vllm bench serve`: vLLM's own figures, the requests behind them, and the mark of
the judge."""

import json
from dataclasses import replace
from statistics import mean, median
from typing import Any

import pytest
from benchrun.report.export.formats import FORMATS
from benchrun.report.export.vllm_json import detailed, summary, vllm_files
from unit.report.export.runs import (
    CAPPED,
    CHAT,
    FIRST,
    LOAD_POINTS,
    STAGES,
    endpoint_spec,
    failing,
    measured,
    row,
    run,
    stage,
    status,
)


def stage_json(stage_id: str) -> dict[str, Any]:
    return detailed(run(), stage(stage_id), measured(stage_id).requests)


def test_a_folder_a_load_point_as_vllm_sweeps_have_it() -> None:
    assert sorted(vllm_files(run())) == [
        "capped-rate=40/run=0.json",
        "capped-rate=40/summary.json",
        "chat-concurrency=4/run=0.json",
        "chat-concurrency=4/run=1.json",
        "chat-concurrency=4/summary.json",
        "first-concurrency=2/run=0.json",
        "first-concurrency=2/summary.json",
    ]


def test_the_summary_is_the_list_of_runs_without_their_requests() -> None:
    files = vllm_files(run())
    summaries = json.loads(files["chat-concurrency=4/summary.json"])
    whole = [json.loads(files[f"chat-concurrency=4/run={n}.json"]) for n in (0, 1)]
    lists = {name for name, value in whole[0].items() if isinstance(value, list)}
    assert lists == {
        "input_lens",
        "output_lens",
        "ttfts",
        "latencies",
        "start_times",
        "queue_times",
        "errors",
    }
    assert summaries == [
        {name: value for name, value in each.items() if name not in lists}
        for each in whole
    ]
    assert [each["run_number"] for each in summaries] == [0, 1]


def test_one_file_has_one_line_per_stage() -> None:
    lines = [
        json.loads(line)
        for line in FORMATS["vllm"].document(run(), "stages").splitlines()
    ]
    assert [each["benchrun_stage"] for each in lines] == list(STAGES)


@pytest.mark.parametrize("stage_id", STAGES)
def test_requests_in_seconds_give_vllms_own_figures_in_milliseconds(
    stage_id: str,
) -> None:
    whole = stage_json(stage_id)
    for name, column in (("ttft", whole["ttfts"]), ("e2el", whole["latencies"])):
        assert whole[f"mean_{name}_ms"] == pytest.approx(
            1000 * mean(column), abs=0.001
        )
        assert whole[f"median_{name}_ms"] == pytest.approx(
            1000 * median(column), abs=0.001
        )
    assert whole["total_input_tokens"] == sum(whole["input_lens"])
    assert whole["total_output_tokens"] == sum(whole["output_lens"])
    assert whole["completed"] == len(whole["errors"])


def test_waiting_in_the_client_is_in_seconds_too() -> None:
    queued = stage_json(CAPPED)["queue_times"]
    assert queued == [us / 1e6 for us in measured(CAPPED).requests.queue_us]
    assert 0.02 < max(queued) < 5


def test_starts_are_instants() -> None:
    starts = stage_json(CHAT)["start_times"]
    assert starts[0] == stage(CHAT).began.timestamp()
    assert 0 < starts[-1] - starts[0] < stage_json(CHAT)["duration"]


def test_the_summary_has_vllms_text_fields() -> None:
    row = summary(run(), stage(CHAT))
    assert {
        name: row[name]
        for name in ("backend", "endpoint_type", "model_id", "tokenizer_id", "date")
    } == {
        "backend": "openai",
        "endpoint_type": "openai",
        "model_id": "Qwen/Qwen3-4B",
        "tokenizer_id": "Qwen/Qwen3-4B",
        "date": "20270115-080002",
    }


def test_no_limit_on_the_rate_is_inf_as_vllm_writes_it() -> None:
    assert (
        stage_json(CHAT)["request_rate"],
        stage_json(CHAT)["max_concurrency"],
    ) == ("inf", 4)
    assert (
        stage_json(CAPPED)["request_rate"],
        stage_json(CAPPED)["max_concurrency"],
    ) == (40.0, 2)


def test_a_latency_that_was_not_measured_is_null_where_vllm_says_0() -> None:
    assert measured(FIRST).scalars["mean_tpot_ms"] == 0
    row = stage_json(FIRST)
    assert (row["mean_tpot_ms"], row["p99_itl_ms"]) == (None, None)
    assert (row["mean_ttft_ms"], row["failed"]) == (
        measured(FIRST).scalars["mean_ttft_ms"],
        0,
    )


def test_a_failed_request_has_its_error_and_no_times() -> None:
    record = failing(CHAT, failed=2, errors={"Bad Gateway": 2})
    whole = detailed(run(record), run(record).stages[0], record.requests)
    assert whole["errors"] == [""] * 22 + ["Bad Gateway"] * 2
    assert whole["ttfts"][-2:] == whole["latencies"][-2:] == [None, None]
    assert None not in whole["ttfts"][:-2]


def test_of_several_errors_nobody_knows_which_request_met_which() -> None:
    record = failing(CHAT, failed=2, errors={"Bad Gateway": 1, "Timeout": 1})
    whole = detailed(run(record), run(record).stages[0], record.requests)
    assert whole["errors"][-1] == "Bad Gateway | Timeout"


def test_verdict_and_findings_travel_along() -> None:
    rows = [row(LOAD_POINTS[0], "Suspect", ["Drift", "TooFewSamples"])]
    suspect = run(measured(CHAT), of_status=status(rows))
    found = summary(suspect, suspect.stages[0])
    assert (found["benchrun_verdict"], found["benchrun_findings"]) == (
        "Suspect",
        "Drift,TooFewSamples",
    )
    assert found["benchrun_run"] == "lab/nightly"
    # 24 requests of 4 users are six rounds: too few to bound even the median.
    assert found["benchrun_uncertain"].split(",")[:3] == [
        "p50_ttft_ms",
        "p90_ttft_ms",
        "p99_ttft_ms",
    ]


def test_gpus_of_an_endpoint_are_not_known() -> None:
    assert summary(run(), stage(CHAT))["tensor_parallel_size"] == 2
    assert "tensor_parallel_size" not in summary(
        run(of_spec=endpoint_spec()), stage(CHAT)
    )


def test_the_users_labels_stand_where_metadata_would_and_hide_nothing() -> None:
    labelled = replace(run(), labels=(("build", "7"), ("model_id", "mine")))
    found = summary(labelled, stage(FIRST))
    assert found["build"] == "7"
    assert found["model_id"] == summary(run(), stage(FIRST))["model_id"]
