"""Embeddings: answers that come as a whole have an E2EL, and no figure of tokens."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunStatus, Code
from benchrun.judge.results import Judged, results
from benchrun.measure import request_figures
from benchrun.report import serving_result, tables, watch_state
from benchrun_client.contract import GapCounts, StageRecord
from unit.judge.specs import spec, workload
from unit.measure.records import edge, load_point, record, requests, served

SECOND = 1_000_000
USERS = 8
REQUESTS = 800
PROMPT = 100
ANSWER_US = 100_000
POINT = load_point("texts", axis="Concurrency", value=str(USERS))


def embedded(**changes: Any) -> StageRecord:
    """Build a stage of eight users whose texts are embedded in a tenth of a second each."""
    count = changes.pop("count", REQUESTS)
    texts = changes.pop("texts", 1)
    took = [ANSWER_US + 100 * (n % 7) for n in range(count)]
    columns = requests(
        start_us=[n // USERS * (ANSWER_US + 1000) for n in range(count)],
        queue_us=[0] * count,
        ttft_us=took,
        e2el_us=took,
        input_tokens=[PROMPT] * count,
        output_tokens=[0] * count,
        **changes,
    )
    # A server of embeddings says of each that it ended by itself.
    counted = served(columns) | {"request_success_stop": float(sum(columns.ok))}
    counted["request_success_total"] *= texts
    return record(
        "texts/concurrency=8/r1",
        requests=columns,
        gaps=GapCounts(),
        gap_slices=None,
        whole_answers=True,
        scalars={"duration": count / USERS * (ANSWER_US + 1000) / SECOND},
        servers=(edge(rises=counted),),
    )


def judged(
    *records: StageRecord, request: dict[str, Any] | None = None, **changes: Any
) -> Judged:
    asked = workload(
        "texts",
        api="Embeddings",
        load={"concurrencies": [USERS]},
        requests=REQUESTS,
        **({} if request is None else {"request": request}),
    )
    return results(
        [POINT], list(records), [], spec=spec(workloads=[asked], **changes)
    )


def test_a_row_has_no_figure_of_tokens_that_do_not_exist() -> None:
    (row,) = judged(embedded()).results
    lacking = ("ttft", "tpot", "itl", "output", "ttfrt", "ttfat")
    keys = [*row.metrics, *row.steady, *row.intervals, *row.repeat_cv_percent]
    assert [key for key in keys if any(part in key for part in lacking)] == []
    assert row.metrics["total_input_tokens"] == REQUESTS * PROMPT
    assert row.metrics["p99_e2el_ms"] == pytest.approx(100.6)
    assert row.has_plateau
    rate = row.steady["request_throughput"]
    assert rate == pytest.approx(USERS / 0.101, rel=0.02)
    assert row.steady["total_token_throughput"] == pytest.approx(
        PROMPT * USERS / 0.101, rel=0.02
    )
    assert row.has_whole_answers
    assert row.sampling is None


def test_a_clean_run_has_no_finding_about_tokens() -> None:
    found = judged(embedded())
    assert found.verdict == "Valid"
    of_answers = {
        Code.NO_OUTPUT,
        Code.OUTPUT_TOO_SHORT,
        Code.STREAM_TRUNCATED,
        Code.TOKEN_COUNTS_DISAGREE,
        Code.CHUNKS_ARE_NOT_TOKENS,
    }
    named = {each.code for each in found.findings}
    unchecked: set[str] = set()
    for each in found.findings:
        if each.code == Code.NOT_CHECKED:
            unchecked |= each.evidence.keys()
    assert not of_answers & (named | unchecked)


def test_each_text_of_a_request_is_a_request_to_the_server() -> None:
    found = judged(embedded(texts=4), request={"texts": 4})
    assert Code.FOREIGN_TRAFFIC not in {each.code for each in found.findings}
    for texts in (1, 2):
        asked = {"texts": texts} if texts > 1 else None
        found = judged(embedded(texts=4), request=asked)
        assert Code.FOREIGN_TRAFFIC in {each.code for each in found.findings}


def test_other_rules_hold_for_embeddings_too() -> None:
    failed = embedded(ok=[0] * 40 + [1] * (REQUESTS - 40))
    found = judged(failed)
    assert found.verdict == "Invalid"
    assert Code.REQUESTS_FAILED in {each.code for each in found.findings}


def test_prompts_that_the_server_counts_otherwise_are_found() -> None:
    off = embedded().model_copy(update={"expected_input_tokens": REQUESTS * 99})
    assert Code.PROMPT_TOKENS_DISAGREE in {
        each.code for each in judged(off).findings
    }


@pytest.mark.parametrize(("limit", "outcome"), [(400, "Met"), (40, "Missed")])
def test_objectives_are_on_the_whole_answer(limit: int, outcome: str) -> None:
    objectives = [{"metric": "E2EL", "percentile": "50", "maxMilliseconds": limit}]
    (row,) = judged(embedded(), objectives=objectives).results
    assert [each.outcome for each in row.objectives] == [outcome]
    assert row.metrics["request_goodput"] == (
        pytest.approx(row.metrics["request_throughput"]) if outcome == "Met" else 0
    )


def test_the_headline_has_the_prompts_tokens_and_the_e2el() -> None:
    headline = judged(embedded()).headline
    assert headline is not None
    assert float(headline.throughput) == pytest.approx(
        PROMPT * USERS / 0.101, rel=0.02
    )
    assert headline.p99_ttft.endswith(" ms E2EL")


def status_of(found: Judged) -> BenchmarkRunStatus:
    return BenchmarkRunStatus(results=found.results, headline=found.headline)


def test_a_table_has_no_columns_of_tokens() -> None:
    shown = tables.result_rows(status_of(judged(embedded())))
    assert {"tok/s", "TTFT p50", "p99", "TPOT p50"}.isdisjoint(shown.headers)
    assert {"req/s", "total tok/s", "E2EL p50", "E2EL p99"} <= set(shown.headers)


def headings(text: str) -> list[str]:
    return [line.strip("-") for line in text.splitlines() if line.startswith("---")]


def test_the_block_is_that_of_embeddings() -> None:
    found = judged(embedded())
    (of_row,) = serving_result.blocks(status_of(found))
    of_stage = serving_result.block_of_stage(found.stages[0])
    for text in (of_row.text, of_stage.text):
        assert headings(text) == ["End-to-end Latency"]
        assert "generated" not in text
        assert "Output token" not in text


def test_a_stage_keeps_no_distribution_of_tokens() -> None:
    found = judged(embedded())
    assert found.stages[0].distributions.keys() == {
        "e2el",
        "input_tokens",
        "sent_tokens",
    }
    assert found.distributions[0].latencies.keys() == {"e2el"}


def test_what_a_server_does_not_count_is_unknown_and_not_absent() -> None:
    columns = requests(ended=[0, 0])
    found = request_figures.totals([record(requests=columns)])
    assert found["output_throughput"] is None


def test_a_line_while_the_run_goes_on_has_what_there_is() -> None:
    own = {"request_throughput": 79.2, "total_token_throughput": 7920.0}
    record = embedded().model_copy(update={"scalars": own | {"p99_e2el_ms": 100.6}})
    figures = watch_state.stage_line(record).figures
    assert figures == ("79.2 req/s", "7920 tok/s", "p99 101 ms")


def test_a_price_of_tokens_is_that_of_prompts() -> None:
    prices = {"input": "2", "cachedInput": "1", "output": "8"}
    cost = {"currency": "EUR", "perMillionTokens": prices}
    (row,) = judged(embedded(), cost=cost).results
    assert row.metrics["cost_per_million_total_tokens"] == pytest.approx(2.0)
    assert row.metrics["cost_per_million_output_tokens"] is None
