"""Which prompts were sent before: by the generator, its seed and the test request. The hits are
those of the riddle in docs/experiments/which-run-is-true.md."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, Explanation, Result, ServerStatus
from benchrun.judge.explain.prompt_beginnings import beginnings, block_tokens_of
from benchrun.judge.results import results
from benchrun_client.contract import StageRecord
from benchrun_client.engines import ENGINES
from unit.judge.specs import spec, workload
from unit.measure.records import edge, load_point, record, requests

VLLM = ENGINES["VLLM"]

HITS = "prefix_cache_hits_total"
QUERIES = "prefix_cache_queries_total"
OLD = {"generator": "VLLM", "version": "0.9", "rangeRatio": "0.1", "seed": 0}


def old(
    name: str, tokens: int, answer: int, *, n: int, test: bool = True
) -> dict[str, Any]:
    """As his tool sends it: all at once, after a test request."""
    data = {**OLD, "inputTokens": tokens, "outputTokens": answer}
    return workload(
        name,
        dataset={"random": data},
        load={"requestRates": ["inf"]},
        requests=n,
        testRequest=test,
    )


def shared(
    *workloads: dict[str, Any], policy: str = "Share", repeats: int = 1
) -> BenchmarkRunSpec:
    measurement = {
        "percentiles": ["50"],
        "cachePolicy": policy,
        "order": "AsListed",
    }
    endpoint = {"url": "http://server:8000", "allowCacheReset": policy == "Reset"}
    return spec(
        workloads=list(workloads),
        repeats=repeats,
        measurement=measurement,
        endpoint=endpoint,
    )


def percents(of: BenchmarkRunSpec) -> list[float]:
    last = f"{of.workloads[-1].name}/rate=inf/r{of.repeats}"
    found = beginnings(of, last=last, block_tokens=16)
    return [round(each.percent or 0.0, 1) for each in found.values()]


RIDDLE = (
    old("a", 7000, 1000, n=7),
    old("b", 7000, 1000, n=7),
    old("c", 7000, 3000, n=7),
    old("d", 10_000, 3000, n=7),
    old("e", 7000, 3000, n=7),
    old("f", 7000, 3000, n=10),
    old("g", 12_000, 1000, n=1),
)


def test_every_observation_of_the_riddle_follows_from_generator_and_test_request() -> (
    None
):
    assert percents(shared(*RIDDLE)) == [13.8, 99.9, 99.9, 13.7, 99.9, 9.8, 100.0]


def test_longer_prompts_before_do_not_help_where_they_begin_otherwise() -> None:
    closing = shared(old("long", 12_000, 3000, n=7), old("short", 7000, 1000, n=7))
    assert percents(closing) == [14.9, 13.8]


def test_what_is_named_begins_alike() -> None:
    found = beginnings(shared(*RIDDLE), last="g/rate=inf/r1", block_tokens=16)
    assert found["c/rate=inf/r1"].sent_before == ("a/rate=inf/r1", "b/rate=inf/r1")
    assert found["d/rate=inf/r1"].sent_before == ()


def test_a_cache_that_is_emptied_has_the_test_request_alone() -> None:
    assert percents(shared(*RIDDLE[:2], policy="Reset")) == [13.8, 13.8]


def test_todays_generator_begins_alike_at_every_length() -> None:
    today = {"generator": "VLLM", "seed": 0}
    short, long = (
        workload(
            name,
            dataset={"random": {**today, "inputTokens": tokens}},
            load={"requestRates": ["inf"]},
            requests=4,
        )
        for name, tokens in (("short", 1600), ("long", 3200))
    )
    assert percents(shared(short, long)) == [0.0, 50.0]


def test_prompts_of_one_seed_a_stage_share_nothing_and_of_a_shared_one_all() -> (
    None
):
    plain = workload(
        dataset={"random": {}}, load={"requestRates": ["inf"]}, requests=4
    )
    isolated = spec(workloads=[plain], repeats=2)
    assert percents(isolated) == [0.0, 0.0]
    assert percents(shared(plain, repeats=2)) == [0.0, 98.4]


def test_stages_that_were_not_measured_sent_nothing() -> None:
    assert list(
        beginnings(shared(*RIDDLE), last="b/rate=inf/r1", block_tokens=16)
    ) == [
        "a/rate=inf/r1",
        "b/rate=inf/r1",
    ]


@pytest.mark.parametrize(
    ("text", "tokens"), [("128", 128), ("", 16), ("0", 1), ("9" * 9, 16)]
)
def test_blocks_are_as_long_as_the_server_says(text: str, tokens: int) -> None:
    assert (
        block_tokens_of(
            VLLM,
            [
                ServerStatus(
                    engine="VLLM", role="server", reported={"block_size": text}
                )
            ],
        )
        == tokens
    )


def measured(
    name: str, place: int, *, hits: float, n: int, queries: float = 50_000
) -> StageRecord:
    columns = requests(
        ttft_us=[1000] * n,
        e2el_us=[9000] * n,
        output_tokens=[9] * n,
        input_tokens=[7000] * n,
    )
    rises = {HITS: hits, QUERIES: queries, "generation_tokens_total": 9.0 * n}
    return record(
        f"{name}/rate=inf/r1",
        sequence=place,
        requests=columns,
        servers=(edge(rises=rises),),
    )


def judged(of: BenchmarkRunSpec, *records: StageRecord) -> list[Result]:
    load_points = [
        load_point(each.name, "RequestRate", "inf") for each in of.workloads
    ]
    return results(load_points, records, [], spec=of).results


def answer(row: Result, question: str) -> Explanation:
    (found,) = [each for each in row.explanations if each.question == question]
    return found


def test_the_report_names_generator_test_request_and_who_sent_them_before() -> None:
    of = shared(*RIDDLE[:4])
    places = zip("abcd", range(4), (6900, 49_900, 49_900, 6850), strict=True)
    rows = judged(
        of, *(measured(w, place, hits=hits, n=7) for w, place, hits in places)
    )
    found = [answer(row, "Beginnings") for row in rows]
    assert [each.answer for each in found] == [
        "TestRequest",
        "SentBefore",
        "SentBefore",
        "TestRequest",
    ]
    assert found[2].evidence == {
        "generator": "vLLM 0.9",
        "testRequest": "true",
        "requests": 7,
        "earlierLoadPoint": "b/rate=inf",
        "computedPercent": pytest.approx(99.9, abs=0.1),
        "hitPercent": pytest.approx(99.8),
    }


def test_only_a_load_point_whose_prompts_begin_alike_is_said_to_have_sent_them() -> (
    None
):
    of = shared(*RIDDLE[2:4])
    rows = judged(of, *(measured(w, i, hits=6900, n=7) for i, w in enumerate("cd")))
    true_run = answer(rows[1], "TrueRun")
    assert true_run.answer == "PrefixCache"
    assert "earlierLoadPoint" not in true_run.evidence


def test_a_cache_that_was_asked_nothing_is_said_to_be_off() -> None:
    of = shared(*RIDDLE[:1])
    (row,) = judged(of, measured("a", 0, hits=0, queries=0, n=7))
    found = answer(row, "Beginnings")
    assert "hitPercent" not in found.evidence
    assert "prefix cache is off" in found.sentence


def test_prompts_of_benchruns_own_raise_no_question() -> None:
    of = shared(workload("a", load={"requestRates": ["inf"]}))
    (row,) = judged(of, measured("a", 0, hits=0, n=2))
    assert [
        each for each in row.explanations if each.question == "Beginnings"
    ] == []


def test_a_test_request_is_told_of_any_dataset() -> None:
    data = {
        "file": {"pvc": {"claimName": "data", "path": "rows.csv"}},
        "column": "text",
    }
    texts = workload(
        "a",
        dataset={"texts": data},
        load={"requestRates": ["inf"]},
        testRequest=True,
    )
    (row,) = judged(shared(texts), measured("a", 0, hits=0, n=2))
    found = answer(row, "Beginnings")
    assert (found.answer, found.evidence["testRequest"]) == ("TestRequest", "true")
    assert "computedPercent" not in found.evidence
