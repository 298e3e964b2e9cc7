"""Measurements of different tools beside each other: what is equal, and what is refused."""

from typing import Any

import pytest
from benchrun.foreign import compared
from unit.foreign.foreign_files import judge, read, text_of

VLLM = "vllm-0.32-concurrency-4.json"
GUIDELLM = "guidellm-0.8.1-concurrency-4.json"
LLMD = "llm-d-0.2.1-of-vllm-0.32-concurrency-4.yaml"


def vllm(**changes: float) -> Any:
    """Return vLLM's measurement, with these columns so many times as large."""

    def change(content: dict[str, Any]) -> None:
        for column, times in changes.items():
            content[column] = [times * each for each in content[column]]

    return judge(read("vllm", file=text_of(VLLM, change)))


def guidellm(prompt_tokens: int | None = None) -> Any:
    """Return guidellm's measurement, with prompts of so many tokens."""

    def change(content: dict[str, Any]) -> None:
        for each in content["benchmarks"][0]["requests"]["successful"]:
            each["prompt_tokens"] = prompt_tokens or each["prompt_tokens"]

    return judge(read("guidellm", file=text_of(GUIDELLM, change)))


def llm_d() -> Any:
    return judge(read("llm-d", **{LLMD: text_of(LLMD)}))


def only(found: compared.ForeignComparison) -> compared.LoadOfBoth:
    (load_point,) = found.load_points
    return load_point


def test_the_steady_parts_of_two_tools_mean_the_same() -> None:
    pair = only(compared.compared(vllm(), guidellm(prompt_tokens=32)))
    figures = {each.name: each for each in pair.figures}
    assert pair.unequal == []
    ttft = figures["p50_ttft_ms"]
    assert (ttft.source, ttft.word) == ("steady part", "Unknown")  # 30 requests.
    assert ttft.baseline.value == pytest.approx(61.544)
    assert ttft.change_percent == pytest.approx(
        100 * (ttft.candidate.value / ttft.baseline.value - 1)
    )


def test_intervals_that_do_not_overlap_differ() -> None:
    slower = vllm(ttfts=9, latencies=9, start_times=9)
    pair = only(compared.compared(vllm(), slower))
    words = {each.name: each.word for each in pair.figures}
    assert words["p50_ttft_ms"] == "Different"


def test_what_does_not_differ_is_not_detected() -> None:
    pair = only(compared.compared(vllm(), vllm()))
    words = {each.name: each.word for each in pair.figures}
    assert words["p50_ttft_ms"] == "NotDetected"
    assert words["request_throughput"] == "Unknown"  # It has no interval.


def test_a_figure_of_another_definition_is_refused() -> None:
    pair = only(compared.compared(guidellm(), llm_d()))
    assert "p50_ttft_ms" not in {each.name for each in pair.figures}
    assert "p50_ttft_ms" in pair.refused
    by_tools = {
        each.name: (each.source, each.word)
        for each in pair.figures
        if each.source == "by the tools"
    }
    assert by_tools["request_throughput"] == ("by the tools", "Unknown")


def test_prompts_of_other_lengths_are_another_workload() -> None:
    pair = only(compared.compared(vllm(), guidellm()))
    assert pair.unequal == ["prompts have 32.18 and 48.07 tokens on average"]
    assert {each.word for each in pair.figures} == {"Unknown"}


def test_answers_of_other_lengths_are_another_workload() -> None:
    pair = only(compared.compared(vllm(), vllm(output_lens=2)))
    assert pair.unequal == ["answers have 20 and 40 tokens on average"]
    assert {each.word for each in pair.figures} == {"Unknown"}


def test_what_is_invalid_gets_no_word() -> None:
    def failing(content: dict[str, Any]) -> None:
        content["errors"][:20] = ["Bad Gateway"] * 20
        content["latencies"][:20] = [0.0] * 20
        content |= {"completed": 40, "failed": 20}

    broken = judge(read("vllm", file=text_of(VLLM, failing)))
    pair = only(compared.compared(vllm(), broken))
    assert pair.unequal[0].endswith("is Invalid")


def test_loads_of_one_side_only_are_named() -> None:
    rate = judge(read("vllm", file=text_of("vllm-0.32-chat-rate-8.json")))
    found = compared.compared(vllm(), rate)
    assert found.load_points == []
    assert found.unmatched == ["vllm/tiny/concurrency=4", "vllm/tiny/rate=8"]
