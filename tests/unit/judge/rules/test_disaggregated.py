"""Prefill here and decode there: which counts belong to the client's requests, and what each role
is called by itself."""

import pytest
from benchrun.judge.results import results
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import (
    PROXY_COUNTERS,
    START_TIME,
    ServerEdge,
    StageRecord,
)
from unit.judge.specs import spec
from unit.measure.records import edge, load_point, record, requests, sample, served

DECODED = served(requests())
PREFILLED = DECODED | {"generation_tokens_total": 2.0}
PROMPTS = DECODED["prompt_tokens_total"]
SPLIT = spec(
    endpoint=None,
    server={
        "image": "v",
        "disaggregated": {
            "prefill": {"args": ["--max-num-seqs=1"]},
            "decode": {"args": ["--max-num-seqs=64"]},
            "kvTransfer": {"connector": "C"},
        },
    },
)


def fetched(tokens: float) -> dict[str, float]:
    return {
        "external_prefix_cache_queries_total": PROMPTS,
        "external_prefix_cache_hits_total": tokens,
    }


def decode(tokens: float = PROMPTS, **changes: float) -> ServerEdge:
    return edge(
        "10.0.0.3:8000",
        before={START_TIME: 2.0},
        role="decode",
        rises=DECODED | fetched(tokens) | changes,
    )


PREFILL = edge(
    "10.0.0.2:8000",
    before={START_TIME: 1.0},
    role="prefill",
    rises=PREFILLED | fetched(0),
)


def proxy(**rises: float) -> ServerEdge:
    before = dict.fromkeys(PROXY_COUNTERS, 0.0)
    after = before | {
        f"benchrun_proxy_{name}": value
        for name, value in rises.items()
        if name != "cpu"
    }
    return ServerEdge(
        address="10.0.0.4:8000",
        role="proxy",
        before=before,
        after=after | {"process_cpu_seconds_total": rises.get("cpu", 0.0)},
    )


def stage(*servers: ServerEdge) -> StageRecord:
    return record(servers=servers)


GOOD = stage(
    PREFILL, decode(), proxy(added_seconds_sum=0.002, added_seconds_count=2)
)


def test_the_prefilled_prompts_are_nobodys_traffic_and_no_tokens_of_the_client() -> (
    None
):
    judged = results([load_point()], [GOOD], [], spec=SPLIT)
    assert {finding.severity for finding in judged.findings} == {"Note"}


def role_samples(
    role: str, *, running: float, waiting: float, count: int = 10
) -> list[Sample]:
    start = {"prefill": 1.0, "decode": 2.0}[role]
    return [
        sample(
            1000.2 + n,
            role=role,
            pod=role,
            running=running,
            waiting=waiting,
            start_time=start,
            generation_tokens=1.0,
        )
        for n in range(count)
    ]


QUEUED = role_samples("prefill", running=1.0, waiting=8.0)


def test_each_role_has_its_bottleneck_and_the_row_names_the_queueing_role() -> None:
    decoding = role_samples("decode", running=3.0, waiting=0.0)
    servers = (
        PREFILL.model_copy(
            update={"before": {START_TIME: 1.0}, "after": {START_TIME: 1.0}}
        ),
        decode().model_copy(
            update={"before": {START_TIME: 2.0}, "after": {START_TIME: 2.0}}
        ),
        proxy(added_seconds_sum=0.004, added_seconds_count=2, cpu=1.0),
    )
    (row,) = results(
        [load_point()], [stage(*servers)], [*QUEUED, *decoding], spec=SPLIT
    ).results
    by_role = {figures.role: figures for figures in row.roles}
    assert (by_role["prefill"].waiting, by_role["decode"].waiting) == (
        "SequenceLimit",
        "None",
    )
    assert (by_role["prefill"].waiting_mean, by_role["proxy"].added_mean_ms) == (
        8,
        2,
    )
    assert by_role["proxy"].cores == pytest.approx(0.1)
    assert row.waiting is not None
    assert row.waiting.reason == "SequenceLimit"
    assert row.waiting.sentence.startswith("prefill: ")


def test_what_was_fetched_is_a_figure_of_the_role_that_fetched() -> None:
    (row,) = results(
        [load_point()], [stage(PREFILL, decode(0.9 * PROMPTS))], [], spec=SPLIT
    ).results
    by_role = {figures.role: figures for figures in row.roles}
    assert by_role["decode"].fetched_percent == pytest.approx(90)
    assert by_role["decode"].fetched_tokens == pytest.approx(0.9 * PROMPTS)
    assert by_role["prefill"].fetched_percent == 0
