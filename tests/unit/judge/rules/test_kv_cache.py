"""Prompts that should be new to the server: hits of the prefix cache are somebody else's doing, or
a reset failed."""

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.kv_cache import cache_reset, preempted, prefix_cache
from benchrun.judge.rules.rule import Code
from benchrun_client.contract import CacheReset, ServerEdge, StageRecord
from unit.judge.stages import (
    context,
    findings,
    one_finding,
    open_loop_load,
    unchecked,
)
from unit.measure.records import edge, record, requests

HITS = "prefix_cache_hits_total"
QUERIES = "prefix_cache_queries_total"
EXTERNAL_HITS = f"external_{HITS}"
EXTERNAL_QUERIES = f"external_{QUERIES}"
CONTEXT = context()


def looked_up(hits: float, queries: float, address: str = "a") -> ServerEdge:
    return edge(address, rises={HITS: hits, QUERIES: queries})


@pytest.mark.parametrize(
    ("severity", "servers"),
    [
        pytest.param(None, (looked_up(0, 1000),), id="no hit"),
        pytest.param(None, (looked_up(10, 1000),), id="1 % is chance"),
        pytest.param("Suspect", (looked_up(11, 1000),), id="above 1 %"),
        pytest.param(
            "Suspect", (looked_up(100, 1000),), id="10 % is still suspect"
        ),
        pytest.param("Invalid", (looked_up(101, 1000),), id="above 10 %"),
        pytest.param(
            "Invalid", (looked_up(960, 1000),), id="the same traffic again"
        ),
        pytest.param(None, (looked_up(0, 0),), id="no look-up: the cache is off"),
        pytest.param(
            None,
            (looked_up(0, 9000), looked_up(50, 1000, "b")),
            id="servers are summed: 0.5 %",
        ),
        pytest.param(
            "Suspect",
            (looked_up(0, 1000), looked_up(50, 1000, "b")),
            id="servers are summed: 2.5 %",
        ),
    ],
)
def test_hits(severity: Severity | None, servers: tuple[ServerEdge, ...]) -> None:
    found = findings(prefix_cache(CONTEXT(record(servers=servers))))
    expected = [(Code.PREFIX_CACHE_CONTAMINATED, severity)] if severity else []
    assert [(f.code, f.severity) for f in found] == expected


def test_hits_before_the_stage_are_not_its_own() -> None:
    warm = edge(before={HITS: 5000.0, QUERIES: 5000.0}, rises={QUERIES: 1000.0})
    assert prefix_cache(CONTEXT(record(servers=(warm,)))) == []


def test_evidence_has_the_figures_and_the_lines() -> None:
    assert prefix_cache(
        CONTEXT(record(servers=(looked_up(30, 1000),)))
    ) == one_finding(
        Code.PREFIX_CACHE_CONTAMINATED,
        "Suspect",
        3.0,
        hitTokens=30.0,
        externalHitTokens=0.0,
        lookedUpTokens=1000.0,
        hitPercent=3.0,
        declaredPercent=0.0,
        beyondPercent=3.0,
        suspectPercent=1.0,
        invalidPercent=10.0,
        cachePolicy="Isolate",
    )


@pytest.mark.parametrize(
    ("severity", "hits"),
    [
        pytest.param(None, 500, id="what every prompt begins with"),
        pytest.param(None, 510, id="1 % beyond it"),
        pytest.param("Suspect", 511, id="more than 1 % beyond it"),
        pytest.param("Invalid", 601, id="more than 10 % beyond it"),
        pytest.param(None, 100, id="fewer hits than that"),
    ],
)
def test_a_common_beginning_is_allowed_for(
    severity: Severity | None, hits: float
) -> None:
    """250 tokens that both requests begin with."""
    stage = record(servers=(looked_up(hits, 1000),), shared_prefix_tokens=250)
    found = findings(prefix_cache(context()(stage)))
    assert [f.severity for f in found] == ([severity] if severity else [])


@pytest.mark.parametrize(
    ("severity", "hits"),
    [
        pytest.param(None, 700, id="all that was declared"),
        pytest.param("Suspect", 711, id="more than 1 % beyond it"),
        pytest.param("Invalid", 801, id="more than 10 % beyond it"),
    ],
)
def test_what_the_dataset_repeats_is_allowed_for_beside_the_common_beginning(
    severity: Severity | None, hits: float
) -> None:
    """100 tokens that both requests begin with, and 500 that one of them has from the other."""
    stage = record(
        servers=(looked_up(hits, 1000),),
        shared_prefix_tokens=100,
        repeated_tokens=500,
    )
    found = findings(prefix_cache(context()(stage)))
    assert [f.severity for f in found] == ([severity] if severity else [])


@pytest.mark.parametrize("policy", ["Isolate", "Reset", "Share"])
def test_every_policy_is_judged_by_the_same_thresholds(policy: str) -> None:
    (found,) = findings(
        prefix_cache(
            context(load=open_loop_load(cache_policy=policy))(
                record(servers=(looked_up(960, 1000),))
            )
        )
    )
    assert (found.severity, found.evidence["cachePolicy"]) == ("Invalid", policy)


@pytest.mark.parametrize(
    ("severity", "rises"),
    [
        pytest.param(
            None,
            {QUERIES: 1000.0, EXTERNAL_QUERIES: 1000.0},
            id="no hit in either tier",
        ),
        pytest.param(
            None,
            {QUERIES: 1000.0, HITS: 5.0, EXTERNAL_HITS: 5.0},
            id="1 % in both together",
        ),
        pytest.param(
            "Suspect",
            {QUERIES: 1000.0, HITS: 5.0, EXTERNAL_HITS: 6.0},
            id="more than 1 % in both together",
        ),
        pytest.param(
            "Invalid",
            {QUERIES: 1000.0, EXTERNAL_QUERIES: 1000.0, EXTERNAL_HITS: 900.0},
            id="the second alone",
        ),
        pytest.param(
            "Invalid",
            {EXTERNAL_QUERIES: 1000.0, EXTERNAL_HITS: 900.0},
            id="there is no first tier",
        ),
    ],
)
def test_hits_of_a_second_tier_count(
    severity: Severity | None, rises: dict[str, float]
) -> None:
    found = findings(prefix_cache(CONTEXT(record(servers=(edge(rises=rises),)))))
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_a_server_without_a_second_tier() -> None:
    old = ServerEdge(
        address="a",
        before={HITS: 0.0, QUERIES: 0.0},
        after={HITS: 30.0, QUERIES: 1000.0},
    )
    (found,) = findings(prefix_cache(CONTEXT(record(servers=(old,)))))
    assert found.evidence["externalHitTokens"] == 0.0


# ---- the reset before a stage
# ---------------------------------------------------------------------------------------

RESET = context(load=open_loop_load(cache_policy="Reset"))
FAILED = CacheReset(succeeded=False, attempts=5, answer='{"success": false}')


def test_a_reset_that_failed() -> None:
    assert cache_reset(RESET(record(cache_reset=FAILED))) == one_finding(
        Code.CACHE_RESET_FAILED,
        "Suspect",
        5,
        attempts=5,
        answer='{"success": false}',
    )


def test_a_reset_that_succeeded_at_last() -> None:
    done = CacheReset(succeeded=True, attempts=3, answer='{"success": true}')
    assert cache_reset(RESET(record(cache_reset=done))) == []


def test_an_unreported_reset_is_not_checked() -> None:
    (missed,) = unchecked(cache_reset(RESET(record(cache_reset=None))))
    assert missed.code is Code.CACHE_RESET_FAILED


@pytest.mark.parametrize("policy", ["Isolate", "Share"])
def test_other_cache_policies_request_no_reset(policy: str) -> None:
    assert (
        cache_reset(context(load=open_loop_load(cache_policy=policy))(record()))
        == []
    )


# Preemptions: one is worth knowing, more than a few are in the tail.

PREEMPTIONS = "num_preemptions_total"


def two_hundred(*preemptions: float) -> StageRecord:
    servers = tuple(
        edge(f"s{n}", rises={PREEMPTIONS: each})
        for n, each in enumerate(preemptions)
    )
    return record(
        requests=requests(
            ttft_us=[1] * 200, e2el_us=[2] * 200, output_tokens=[3] * 200
        ),
        servers=servers,
    )


@pytest.mark.parametrize(
    ("severity", "preemptions"),
    [
        pytest.param(None, (0.0,), id="none"),
        pytest.param("Note", (1.0,), id="one"),
        pytest.param("Note", (2.0,), id="1 % of the requests"),
        pytest.param("Suspect", (3.0,), id="above 1 %"),
        pytest.param("Suspect", (1.0, 2.0), id="servers are summed"),
        pytest.param(
            "Suspect", (900.0,), id="more than requests: each again and again"
        ),
    ],
)
def test_preemptions(
    severity: Severity | None, preemptions: tuple[float, ...]
) -> None:
    found = findings(preempted(context()(two_hundred(*preemptions))))
    assert [(f.code, f.severity) for f in found] == (
        [(Code.PREEMPTED, severity)] if severity else []
    )


def test_evidence() -> None:
    assert preempted(context()(two_hundred(5.0))) == one_finding(
        Code.PREEMPTED,
        "Suspect",
        2.5,
        preemptions=5.0,
        requests=200,
        percent=2.5,
        suspectPercent=1.0,
    )
