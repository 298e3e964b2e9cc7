"""Readings of the servers: enough of them, and agreeing with what the client waited for."""

from dataclasses import replace

import pytest
from benchrun.judge.rules.failures_and_tokens import token_counts_disagree
from benchrun.judge.rules.kv_cache import preempted, prefix_cache
from benchrun.judge.rules.rule import Code, Found, NotChecked, StageRule
from benchrun.judge.rules.scraping import littles_law, scrape_coverage
from benchrun.judge.rules.server_identity import foreign_traffic
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.measure import Window
from benchrun.measure.metrics_page import Sample
from benchrun_client.contract import START_TIME, GapCounts, ServerEdge, StageRecord
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import (
    Profiled,
    context,
    findings,
    one_finding,
    unchecked,
    users,
)
from unit.measure.records import ZERO, edge, record, requests, sample

BEGIN = 1000.0


def read(
    *samples: Sample, expected: float, load: ExpectedStage | None = None
) -> Profiled:
    return context(
        load=load or users(8), windows=(Window("server", samples, (), expected),)
    )


def every(seconds: float, count: int, pod: str = "a") -> list[Sample]:
    return [sample(BEGIN + seconds * i, pod=pod) for i in range(count)]


# ---- coverage
# -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("percent", "profile"),
    [
        pytest.param(None, read(*every(1, 100), expected=100), id="all"),
        pytest.param(None, read(*every(1, 80), expected=100), id="80 %"),
        pytest.param(79.0, read(*every(1, 79), expected=100), id="79 %"),
        pytest.param(None, read(*every(1, 2), expected=3), id="one at the edge"),
        pytest.param(50.0, read(*every(1, 2), expected=4), id="two are no edge"),
        pytest.param(
            None,
            read(*every(1, 2), *every(1, 2, "b"), expected=6),
            id="an edge for each server",
        ),
        pytest.param(
            75.0,
            read(*every(1, 99), *every(1, 51, "b"), expected=200),
            id="servers are summed",
        ),
        pytest.param(
            None,
            read(*every(16, 10), expected=160),
            id="means of sixteen, of a long run",
        ),
    ],
)
def test_coverage(percent: float | None, profile: Profiled) -> None:
    found = findings(scrape_coverage(profile(record())))
    assert [(f.severity, f.evidence["coveragePercent"]) for f in found] == (
        [("Note", percent)] if percent else []
    )


@pytest.mark.parametrize(
    "profile", [context(), read(expected=10)], ids=["no window", "no reading"]
)
def test_no_sample_at_all_is_not_checked(profile: Profiled) -> None:
    (missed,) = unchecked(scrape_coverage(profile(record())))
    assert missed.code is Code.SCRAPE_COVERAGE_LOW


def test_evidence_of_low_coverage() -> None:
    assert scrape_coverage(
        read(*every(1, 30), expected=60)(record())
    ) == one_finding(
        Code.SCRAPE_COVERAGE_LOW,
        "Note",
        50.0,
        samples=30,
        expected=60,
        coveragePercent=50.0,
        notePercent=80.0,
        scrapeIntervalSeconds=1.0,
    )


# ---- Little's law
# ---------------------------------------------------------------------------------------------------


def standing(
    in_flight: int,
    *,
    e2el_seconds: float = 1.0,
    seconds: int = 40,
    tokens: int = 24,
    itl_ms: int = 10,
) -> StageRecord:
    """So many requests at any time."""
    rounds = int(seconds / e2el_seconds)
    starts = [
        round(1e6 * e2el_seconds * turn)
        for turn in range(rounds)
        for _ in range(in_flight)
    ]
    e2el = [round(1e6 * e2el_seconds)] * len(starts)
    columns = requests(
        ttft_us=[100] * len(starts),
        e2el_us=e2el,
        output_tokens=[tokens] * len(starts),
        start_us=starts,
    )
    gaps = GapCounts(
        us=(1000 * itl_ms,), count=(max(1, (tokens - 1) * len(starts)),)
    )
    return record(requests=columns, scalars={"duration": float(seconds)}, gaps=gaps)


def holding(*counts: tuple[float, float], pods: int = 1) -> Profiled:
    """Readings of running and waiting requests, half a second after each full one."""
    samples = [
        sample(
            BEGIN + i + 0.5 + 0.01 * pod,
            pod=f"p{pod}",
            running=running,
            waiting=waiting,
        )
        for i, (running, waiting) in enumerate(counts)
        for pod in range(pods)
    ]
    return read(*samples, expected=len(counts))


def broken(found: Found) -> bool:
    return [(f.code, f.severity) for f in findings(found)] == [
        (Code.LITTLES_LAW_BROKEN, "Suspect")
    ]


@pytest.mark.parametrize(
    ("found", "profile"),
    [
        pytest.param(False, holding(*[(100, 0)] * 20), id="equal"),
        pytest.param(False, holding(*[(60, 40)] * 20), id="waiting counts"),
        pytest.param(
            False, holding(*[(85, 0)] * 20), id="15 % fewer at the server"
        ),
        pytest.param(True, holding(*[(84, 0)] * 20), id="16 % fewer"),
        pytest.param(False, holding(*[(117, 0)] * 20), id="15 % of 117 more"),
        pytest.param(True, holding(*[(118, 0)] * 20), id="more than that"),
        pytest.param(
            False, holding(*[(50, 0)] * 20, pods=2), id="two servers hold half each"
        ),
        pytest.param(True, holding(*[(100, 0)] * 20, pods=2), id="twice as many"),
        pytest.param(True, holding(*[(0, 0)] * 20), id="the servers know of none"),
        pytest.param(
            False,
            holding(*[(0, 0), (160, 0)] * 10),
            id="off by a fifth, yet readings differ more",
        ),
    ],
)
def test_requests_in_flight_agree_with_littles_law(
    found: bool, profile: Profiled
) -> None:
    assert broken(littles_law(profile(standing(100)))) == found


@pytest.mark.parametrize(("found", "e2el_seconds"), [(False, 0.1), (True, 0.11)])
def test_a_short_way_to_the_server_counts_for_little(
    found: bool, e2el_seconds: float
) -> None:
    """A fifth of the time is spent outside of the server: 20 ms, and 22 ms."""
    assert (
        broken(
            littles_law(
                holding(*[(80, 0)] * 20)(standing(100, e2el_seconds=e2el_seconds))
            )
        )
        == found
    )


@pytest.mark.parametrize(
    ("found", "held", "itl_ms"),
    [(False, 80, 100), (True, 80, 99), (True, 125, 100)],
)
def test_two_long_steps_pass_before_a_gauge_shows_a_request(
    found: bool, held: int, itl_ms: int
) -> None:
    """A fifth of a second is spent outside of the servers; more requests there than at the client
    are not explained by it."""
    assert (
        broken(
            littles_law(holding(*[(held, 0)] * 20)(standing(100, itl_ms=itl_ms)))
        )
        == found
    )


@pytest.mark.parametrize(
    "profile",
    [
        pytest.param(context(), id="no window"),
        pytest.param(holding(*[(50, 0)] * 9), id="nine readings"),
        pytest.param(
            read(*(replace(s, running=None) for s in every(1, 20)), expected=20),
            id="readings that don't tell",
        ),
    ],
)
def test_too_few_samples_are_not_checked(profile: Profiled) -> None:
    (missed,) = unchecked(littles_law(profile(standing(100))))
    assert missed.code is Code.LITTLES_LAW_BROKEN


@pytest.mark.parametrize(
    ("tokens", "is_checked"), [(1, False), (6, False), (7, True)]
)
def test_answers_that_end_with_the_step_are_in_no_gauge(
    tokens: int, is_checked: bool
) -> None:
    found = littles_law(holding(*[(0, 0)] * 20)(standing(100, tokens=tokens)))
    assert (broken(found), bool(unchecked(found))) == (is_checked, not is_checked)


@pytest.mark.parametrize("seed", range(10))
def test_requests_that_wait_unseen_are_found(seed: int) -> None:
    """A gateway holds every request back for half as long as it takes: the servers know of two in
    three."""
    stage = closed_loop(Server(), concurrency=16, count=320, seed=seed)
    (window,) = stage.windows
    fewer = tuple(
        replace(s, running=(s.running or 0) * 2 / 3) for s in window.samples
    )
    assert broken(
        littles_law(replace(stage, windows=(replace(window, samples=fewer),)))
    )


@pytest.mark.parametrize("clock_seconds", [-2.0, 0.0, 2.0])
def test_clocks_that_differ_break_no_law(clock_seconds: float) -> None:
    for seed in range(10):
        for stage in (
            closed_loop(Server(), concurrency=16, count=320, seed=seed),
            open_loop(Server(), rate=10, count=300, seed=seed),
        ):
            (window,) = stage.windows
            moved = tuple(
                replace(s, at=s.at + clock_seconds) for s in window.samples
            )
            assert (
                findings(
                    littles_law(
                        replace(stage, windows=(replace(window, samples=moved),))
                    )
                )
                == []
            )


def test_evidence_of_a_broken_law() -> None:
    assert littles_law(holding(*[(50, 10)] * 20)(standing(100))) == one_finding(
        Code.LITTLES_LAW_BROKEN,
        "Suspect",
        40.0,
        clientInFlight=100.0,
        serversInFlight=60.0,
        differencePercent=40.0,
        suspectPercent=15.0,
        millisecondsARequest=400.0,
        suspectMilliseconds=20.0,
        difference=40.0,
        explainedByNoise=0.0,
        samples=20,
    )


# A rule that compares counters needs them of every server at both ends of the stage; otherwise it
# is NotChecked.


@pytest.mark.parametrize(
    "servers",
    [
        pytest.param((), id="no metrics endpoint could be read"),
        pytest.param(
            (ServerEdge(address="a", before=None, after=ZERO),),
            id="the opening edge is missing",
        ),
        pytest.param(
            (ServerEdge(address="a", before=ZERO, after=None),),
            id="the closing edge is missing",
        ),
        pytest.param(
            (edge(), ServerEdge(address="b", before=ZERO, after=None)),
            id="of one of two servers",
        ),
        pytest.param(
            (ServerEdge(address="a", before={}, after={}),),
            id="a server without these counters",
        ),
        pytest.param(
            (
                ServerEdge(
                    address="a",
                    before={"request_success_total": 0},
                    after={"request_success_total": 9},
                ),
            ),
            id="a server that counts only requests",
        ),
        pytest.param((edge(after={START_TIME: 5.0}),), id="the server restarted"),
    ],
)
@pytest.mark.parametrize(
    ("code", "rule"),
    [
        (Code.FOREIGN_TRAFFIC, foreign_traffic),
        (Code.PREFIX_CACHE_CONTAMINATED, prefix_cache),
        (Code.PREEMPTED, preempted),
        (Code.TOKEN_COUNTS_DISAGREE, token_counts_disagree),
    ],
)
def test_a_rule_without_its_counters_is_not_checked(
    code: Code, rule: StageRule, servers: tuple[ServerEdge, ...]
) -> None:
    (missed,) = rule(context()(record(servers=servers)))
    assert isinstance(missed, NotChecked)
    assert missed.code is code
