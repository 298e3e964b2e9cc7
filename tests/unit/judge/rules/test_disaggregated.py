"""Prefill here and decode there: which counts belong to the client's requests, and what each role
is called by itself."""

from collections.abc import Mapping

import pytest
from benchrun.judge.results import results
from benchrun.judge.rules.client import gap_beyond_client
from benchrun.judge.rules.failures_and_tokens import token_counts_disagree
from benchrun.judge.rules.kv_cache import kv_recomputed, prefix_cache
from benchrun.judge.rules.replicas import (
    load_uneven,
    proxy_saturated,
    replicas_unequal,
    role_idle,
)
from benchrun.judge.rules.rule import Code, Found, NotChecked, StageFinding
from benchrun.judge.stage_facts import expected_stage
from benchrun.measure import TTFT_SUM, stage_windows
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import (
    PROXY_COUNTERS,
    START_TIME,
    ServerEdge,
    StageRecord,
)
from unit.judge import stages
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


def context(record: StageRecord | None = None, *samples: Sample) -> stages.Profiled:
    seen = (
        stage_windows(record, samples, scrape_interval=1.0)
        if record is not None
        else ()
    )
    return stages.context(
        load=expected_stage(SPLIT, load_point()), windows=seen, compilations=None
    )


GOOD = stage(
    PREFILL, decode(), proxy(added_seconds_sum=0.002, added_seconds_count=2)
)


def only(found: Found) -> StageFinding:
    (finding,) = [each for each in found if isinstance(each, StageFinding)]
    return finding


@pytest.mark.parametrize(
    ("behind_ms", "found"), [(0.0, False), (5.8, False), (6.0, True)]
)
def test_ttft_is_held_against_the_proxys_and_not_against_the_ways_behind_it(
    behind_ms: float, found: bool
) -> None:
    """Both roles together say nearly nothing of the time that passes between them and the proxy."""
    digests = PREFILL.model_copy(
        update={"after": {**(PREFILL.after or {}), TTFT_SUM: 1e-6}}
    )
    seconds = sum(GOOD.requests.ttft_us) / 1e6
    answers = len(GOOD.requests.ok)
    between = proxy(
        added_seconds_count=answers,
        time_to_first_token_seconds_sum=seconds - answers * behind_ms / 1000,
        time_to_first_token_seconds_count=answers,
    )
    measured = stage(digests, decode(), between)
    # Of which 0.9 ms are three round trips.
    assert [f.code for f in gap_beyond_client(context()(measured))] == [
        Code.CLIENT_SERVER_GAP
    ] * found


@pytest.mark.parametrize(("lag_ms", "found"), [(2.0, True), (6.0, False)])
def test_what_waits_for_the_proxys_loop_is_not_the_clients(
    lag_ms: float, found: bool
) -> None:
    seconds = sum(GOOD.requests.ttft_us) / 1e6
    answers = len(GOOD.requests.ok)
    late = proxy(
        time_to_first_token_seconds_sum=seconds - answers * 0.010,
        time_to_first_token_seconds_count=answers,
        loop_lag_seconds_sum=100 * lag_ms / 1000,
        loop_lag_seconds_count=100,
    )
    result = gap_beyond_client(context()(stage(PREFILL, decode(), late)))
    assert bool([f for f in result if isinstance(f, StageFinding)]) is found


def test_behind_a_proxy_of_another_make_the_clients_own_delay_is_not_known() -> (
    None
):
    other = ServerEdge(
        address="10.0.0.4:8000",
        role="proxy",
        before={START_TIME: 1.0},
        after={START_TIME: 1.0},
    )
    (found,) = gap_beyond_client(context()(stage(PREFILL, decode(), other)))
    assert isinstance(found, NotChecked)
    assert "TTFT at the servers" in str(found)


def test_the_prefilled_prompts_are_nobodys_traffic_and_no_tokens_of_the_client() -> (
    None
):
    judged = results([load_point()], [GOOD], [], spec=SPLIT)
    assert {finding.severity for finding in judged.findings} == {"Note"}
    assert list(token_counts_disagree(context(GOOD)(GOOD))) == []


@pytest.mark.parametrize(
    ("severity", "tokens"),
    [
        (None, PROMPTS),
        (None, PROMPTS / 2),
        ("Suspect", 0.49 * PROMPTS),
        ("Invalid", 0.0),
    ],
)
def test_prompts_that_decode_computed_itself(
    severity: str | None, tokens: float
) -> None:
    found = list(kv_recomputed(context()(stage(PREFILL, decode(tokens)))))
    assert [f.severity for f in found if isinstance(f, StageFinding)] == (
        [severity] if severity else []
    )
    for finding in found:
        assert isinstance(finding, StageFinding)
        assert finding.evidence["recomputedPercent"] == pytest.approx(
            100 * (1 - tokens / PROMPTS), rel=1e-3
        )


def test_what_decode_has_in_its_own_cache_is_not_computed_there() -> None:
    kept = decode(0.0, prefix_cache_hits_total=PROMPTS)
    assert list(kv_recomputed(context()(stage(PREFILL, kept)))) == []


def test_failed_transfers_are_told_as_the_cause() -> None:
    failed = decode(0.0, nixl_num_failed_transfers_total=3.0)
    assert (
        only(kv_recomputed(context()(stage(PREFILL, failed)))).evidence[
            "failedTransfers"
        ]
        == 3
    )


def test_a_connector_that_counts_nothing_is_not_judged() -> None:
    silent = decode().model_copy(update={"before": {}, "after": {}})
    (found,) = kv_recomputed(context()(stage(PREFILL, silent)))
    assert isinstance(found, NotChecked)
    assert list(kv_recomputed(context()(stage(edge())))) == []


def test_fetching_is_no_contamination_and_what_prefill_finds_is() -> None:
    assert list(prefix_cache(context()(GOOD))) == []
    warmed = PREFILL.model_copy(
        update={
            "after": {
                **(PREFILL.after or {}),
                "external_prefix_cache_hits_total": PROMPTS,
            }
        }
    )
    assert (
        only(prefix_cache(context()(stage(warmed, decode())))).code
        is Code.PREFIX_CACHE_CONTAMINATED
    )


def test_roles_are_compared_with_their_own_kind_alone() -> None:
    digests = {"prefill": "a" * 32, "decode": "b" * 32}
    servers = [
        each.model_copy(
            update={"settings": digests[each.role], "version": each.role}
        )
        for each in (PREFILL, decode())
    ]
    assert [
        f
        for f in replicas_unequal(context()(stage(*servers)))
        if isinstance(f, StageFinding)
    ] == []
    other = servers[1].model_copy(
        update={"settings": "c" * 32, "address": "10.0.0.9:8000"}
    )
    assert (
        only(replicas_unequal(context()(stage(*servers, other)))).code
        is Code.REPLICAS_UNEQUAL
    )


def test_an_uneven_load_is_looked_for_within_a_role() -> None:
    busy, idle = ({"request_success_total": count} for count in (400.0, 0.0))
    one = edge("a", role="prefill", rises=busy)
    assert (
        list(
            load_uneven(context()(stage(one, edge("b", role="decode", rises=idle))))
        )
        == []
    )
    found = only(
        load_uneven(context()(stage(one, edge("b", role="prefill", rises=idle))))
    )
    assert found.evidence["requests"] == 400


@pytest.mark.parametrize(
    ("rises", "sign"),
    [
        ({"added_seconds_sum": 0.011, "added_seconds_count": 2}, "addedMeanMs"),
        (
            {
                "queue_seconds_sum": 0.011,
                "queue_seconds_count": 2,
                "added_seconds_count": 2,
            },
            "queuedMeanMs",
        ),
        (
            {"cpu": 8.1, "added_seconds_sum": 0.001, "added_seconds_count": 2},
            "cores",
        ),
    ],
)
def test_a_proxy_that_takes_time_of_its_own(
    rises: Mapping[str, float], sign: str
) -> None:
    found = only(
        proxy_saturated(context()(stage(PREFILL, decode(), proxy(**rises))))
    )
    lines = {
        "addedMeanMs": "suspectMs",
        "queuedMeanMs": "suspectMs",
        "cores": "suspectCores",
    }
    crossed = {
        name
        for name, line in lines.items()
        if float(found.evidence[name] or 0) > float(found.evidence[line] or 0)
    }
    assert crossed == {sign}
    assert list(proxy_saturated(context()(GOOD))) == []


def test_a_proxy_of_another_make_is_not_judged() -> None:
    mute = ServerEdge(address="x", role="proxy", before=None, after=None)
    (found,) = proxy_saturated(context()(stage(PREFILL, decode(), mute)))
    assert isinstance(found, NotChecked)
    assert list(
        replicas_unequal(context()(stage(PREFILL, decode(), mute)))
    ) == list(replicas_unequal(context()(GOOD)))


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
IDLE = role_samples("decode", running=0.0, waiting=0.0)


def test_one_role_idles_while_the_other_queues() -> None:
    record_ = stage(
        *(
            each.model_copy(update={"before": {}, "after": {}})
            for each in (PREFILL, decode())
        )
    )
    found = only(role_idle(context(record_, *QUEUED, *IDLE)(record_)))
    assert (
        found.severity,
        found.evidence["idleRole"],
        found.evidence["queueRole"],
    ) == (
        "Note",
        "decode",
        "prefill",
    )
    calm = role_samples("prefill", running=1.0, waiting=0.0)
    assert list(role_idle(context(record_, *calm, *IDLE)(record_))) == []
    working = role_samples("decode", running=3.0, waiting=0.0)
    assert list(role_idle(context(record_, *QUEUED, *working)(record_))) == []


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
