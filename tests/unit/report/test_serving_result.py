"""vLLM's own block of a load point or a stage, line by line."""

import pytest
from benchrun.report.markdown import FEW_BLOCKS, markdown
from benchrun.report.serving_result import (
    NOT_COUNTED,
    NOT_KEPT,
    NOT_MEASURED,
    TITLE,
    block_of_stage,
    blocks,
)
from benchrun_client.contract import Streams
from unit.report.export.runs import CHAT, FIRST, measured, run
from unit.report.statuses import result, status

METRICS = {
    "completed": 100.0,
    "failed": 0.0,
    "duration": 31.26,
    "total_input_tokens": 71443.0,
    "total_output_tokens": 941.0,
    "request_throughput": 0.32,
    "output_throughput": 30.105,
    "total_token_throughput": 2315.8,
    "mean_ttft_ms": 9755.5,
    "median_ttft_ms": 6965.1,
    "p99_ttft_ms": 25875.0,
    "p99.9_ttft_ms": 25999.0,
}


def lines(text: str) -> dict[str, str]:
    """What stands behind each name."""
    named = [line.partition(":") for line in text.splitlines() if ":" in line]
    return {name: value.strip() for name, _, value in named}


def test_a_load_point_has_the_lines_of_vllm_in_its_order() -> None:
    (block,) = blocks(status(result(metrics=METRICS)))
    shown = block.text.splitlines()
    assert shown[0] == "============ Serving Benchmark Result ============"
    assert shown[4] == "Total input tokens:                      71443"
    assert list(lines(block.text))[:8] == [
        "Successful requests",
        "Failed requests",
        "Benchmark duration (s)",
        "Total input tokens",
        "Total generated tokens",
        "Request throughput (req/s)",
        "Output token throughput (tok/s)",
        "Total token throughput (tok/s)",
    ]
    assert shown[9] == "---------------Time to First Token----------------"
    assert list(lines(block.text))[8:12] == [
        "Mean TTFT (ms)",
        "Median TTFT (ms)",
        "P99 TTFT (ms)",
        "P99.9 TTFT (ms)",
    ]
    assert "-----Time per Output Token (excl. 1st token)------" in shown
    assert shown[-1] == "=" * 50


def test_a_figure_of_the_status_has_no_digit_more_than_it() -> None:
    found = lines(blocks(status(result(metrics=METRICS)))[0].text)
    assert found["Total token throughput (tok/s)"] == "2315.8"
    assert found["P99 TTFT (ms)"] == "25875"
    assert found["Request throughput (req/s)"] == "0.32"


def test_what_is_not_known_has_no_number() -> None:
    absent = dict.fromkeys(("total_output_tokens", "output_throughput"))
    figures = {**METRICS, **absent, "total_token_throughput": None}
    found = lines(blocks(status(result(metrics=figures)))[0].text)
    assert found["Total generated tokens"] == NOT_COUNTED
    assert found["Output token throughput (tok/s)"] == NOT_COUNTED
    assert found["Total token throughput (tok/s)"] == NOT_COUNTED
    assert found["P99.9 ITL (ms)"] == NOT_MEASURED


def test_what_was_cut_from_a_status_is_not_said_to_be_unmeasured() -> None:
    cut = {"output_throughput": 30.105, "mean_ttft_ms": 9755.5, "p99_e2el_ms": 1.0}
    found = lines(blocks(status(result(metrics=cut)))[0].text)
    assert found["Total generated tokens"] == NOT_KEPT
    assert found["Successful requests"] == NOT_KEPT
    assert found["Median TTFT (ms)"] == NOT_KEPT


def test_a_hostile_key_is_no_percentile() -> None:
    figures = {**METRICS, "pinf_ttft_ms": 1.0, "p_ttft_ms": 1.0, "pnan_itl_ms": 1.0}
    assert "Pinf" not in blocks(status(result(metrics=figures)))[0].text


def test_a_load_point_that_was_not_measured_has_no_block() -> None:
    assert blocks(status(result(repeats=0, metrics={"completed": 0.0}))) == []


def test_pooled_repeats_are_told() -> None:
    (block,) = blocks(status(result(metrics=METRICS, repeats=3)))
    assert block.name == "chat/concurrency=8, 3 repeats pooled"


def test_a_stage_has_the_numbers_of_the_load_generator() -> None:
    record = measured(CHAT)
    found = lines(block_of_stage(run(record).stages[0].result).text)
    assert found["Mean TTFT (ms)"] == f"{record.scalars['mean_ttft_ms']:.2f}"
    assert found["P99 ITL (ms)"] == f"{record.scalars['p99_itl_ms']:.2f}"
    assert found["Total token throughput (tok/s)"] == "2524.99"
    assert found["Benchmark duration (s)"] == "0.72"
    assert found["Total generated tokens"] == "288"


def test_the_zeros_of_one_token_answers_are_not_latencies() -> None:
    record = measured(FIRST)
    assert record.scalars["mean_itl_ms"] == 0
    assert (
        lines(block_of_stage(run(record).stages[0].result).text)["Mean ITL (ms)"]
        == NOT_MEASURED
    )


def test_tokens_that_the_client_counted_itself_are_not_the_server_s() -> None:
    record = measured(CHAT)
    columns = record.requests
    none = columns.model_copy(update={"output_tokens": (0,) * len(columns.ok)})
    streams = Streams(closed=(1,) * len(columns.ok), uncounted=len(columns.ok))
    uncounted = record.model_copy(update={"requests": none, "streams": streams})
    found = lines(block_of_stage(run(uncounted).stages[0].result).text)
    assert record.scalars["total_output_tokens"] == 288
    assert found["Total generated tokens"] == NOT_COUNTED
    assert found["Mean TPOT (ms)"] == NOT_MEASURED
    assert found["Total input tokens"] == "1536"


@pytest.mark.parametrize(
    ("wide", "shown"), [(False, FEW_BLOCKS), (True, FEW_BLOCKS + 2)]
)
def test_markdown_has_the_first_few_blocks_and_all_when_wide(
    wide: bool, shown: int
) -> None:
    rows = [
        result(f"chat/concurrency={users}") for users in range(1, FEW_BLOCKS + 3)
    ]
    text = markdown("run", status(*rows), wide=wide)
    assert text.count(f" {TITLE} =") == shown
    assert ("2 more are shown with --wide" in text) is not wide
