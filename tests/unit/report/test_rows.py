"""The tables of a result, as text."""

from __future__ import annotations

import pytest
from benchrun.api import BenchmarkRunStatus, ServerStatus
from benchrun.report.result_rows import result_rows, texts_per_prompt
from benchrun.report.rows import Rows, explanation_rows, figure, has_uncertain, interval_rows
from unit.plan.specs import spec_body, workload
from unit.report.statuses import LIMIT, WAITING, result, status


@pytest.mark.parametrize(
    ("text", "value"),
    [("-", None), ("0", 0.0), ("8.12", 8.123), ("812", 812.3), ("12300", 12345.0), ("0.0123", 0.01234)],
)
def test_figures(text: str, value: float | None) -> None:
    assert figure(value) == text


def test_an_uncertain_percentile_is_marked_and_a_sure_one_is_not() -> None:
    rows = result_rows(status(result()))
    found = dict(zip(rows.headers, rows.rows[0], strict=True))
    assert (found["TTFT p50"], found["p99"], found["E2EL p99"]) == ("81.2", "118?", "12300?")
    assert has_uncertain(rows)
    assert not has_uncertain(result_rows(status(result(uncertain=[]))))


def cells(rows: Rows) -> dict[str, str]:
    """Of its first row, by header."""
    return dict(zip(rows.headers, rows.rows[0], strict=True))


def test_the_total_of_tokens_is_in_the_wide_table() -> None:
    of = status(
        result(metrics={"request_throughput": 20.3, "output_throughput": 81.2, "total_token_throughput": 25_400.0})
    )
    assert "total tok/s" not in cells(result_rows(of))
    wide = cells(result_rows(of, wide=True))
    assert (wide["req/s"], wide["tok/s"], wide["total tok/s"]) == ("20.3", "81.2", "25400")


def test_throughput_of_a_gpu_stands_beside_that_of_all_where_there_are_several() -> None:
    known = result(metrics=result().metrics | {"output_throughput_per_gpu": 203.085})

    def held(*gpus: int) -> BenchmarkRunStatus:
        servers = [ServerStatus(role=f"role-{i}", gpus=each) for i, each in enumerate(gpus)]
        return status(known).model_copy(update={"servers": servers})

    assert cells(result_rows(held(3, 1)))["per GPU"] == "203"
    for of in (held(), held(1), held(1, 0)):
        assert "per GPU" not in result_rows(of, wide=True).headers
    older = held(4).model_copy(update={"results": [result()]})
    assert "per GPU" not in result_rows(older, wide=True).headers


def test_texts_a_second_stand_where_texts_are_packed() -> None:
    rows = result_rows(status(result("packed/rate=1"), result("chat/rate=1")), texts_per_prompt={"packed": 40})
    at = rows.headers.index("texts/s")
    assert [row[at] for row in rows.rows] == ["138", "-"]
    assert "texts/s" not in result_rows(status(result())).headers


def test_which_workloads_pack_texts() -> None:
    texts = {"column": "review", "file": {"url": "https://example.org/a.csv"}}
    packed = workload("packed", dataset={"texts": {**texts, "textsPerPrompt": 40}})
    single = workload("single", dataset={"texts": texts})
    assert texts_per_prompt(spec_body(workloads=[packed, single, workload()])) == {"packed": 40, "single": 1}
    assert texts_per_prompt({"workloads": [{"dataset": "?"}, 3]}) == {}


def test_why_and_what_limits() -> None:
    assert explanation_rows(status(result())).rows == (
        ("chat/concurrency=8", "waiting", "SequenceLimit", WAITING.sentence),
        ("chat/concurrency=8", "limit", "SequenceLimit", LIMIT.sentence),
    )


def test_a_row_that_says_neither() -> None:
    assert explanation_rows(status(result(waiting=None, bottleneck=None))).rows == ()


def test_intervals() -> None:
    assert interval_rows(status(result())) == Rows(
        ("load point", "percentile (ms)", "measured", "at least", "at most", "steady state"),
        (
            ("chat/concurrency=8", "p50_ttft", "81.23", "79.5", "83.25", "80"),
            ("chat/concurrency=8", "p99_ttft", "118.4?", "-", "-", "-"),
            ("chat/concurrency=8", "p50_tpot", "9.87", "9.8", "9.9", "-"),
            ("chat/concurrency=8", "p99_e2el", "12350?", "-", "-", "-"),
        ),
    )
