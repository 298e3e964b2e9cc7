"""Why TTFT is longer at the client than at the server: the path, the API server, the client itself,
or nobody knows."""

from typing import Any

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.all_rules import evidence_sentence, judge_stage
from benchrun.judge.rules.client import (
    client_saturated,
    client_throttled,
    gap_beyond_client,
    path_slow,
    shards_out_of_step,
)
from benchrun.judge.rules.rule import Code, StageRule
from benchrun.judge.stage_facts import ExpectedStage
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import (
    PROCESS_CPU,
    PROXY_COUNTERS,
    START_TIME,
    Connections,
    RoundTrips,
    ServerEdge,
    Shards,
    StageRecord,
)
from unit.judge.stages import (
    context,
    findings,
    one_finding,
    only,
    open_loop_load,
    unchecked,
    users,
)
from unit.measure.records import NEAR, client, edge, record, requests, served

BUSY: dict[str, Any] = {"cpu_seconds": 9.5, "lag_p99_us": 60_000}
GAP_CODES = [Code.FRONTEND_SATURATED, Code.CLIENT_SERVER_GAP]
CULPRITS = {
    Code.CLIENT_SATURATED,
    Code.PATH_SLOW,
    Code.FRONTEND_SATURATED,
    Code.CLIENT_SERVER_GAP,
}


def away(ms: float, *, p95_ms: float | None = None) -> RoundTrips:
    return RoundTrips(
        count=20,
        median_us=round(1000 * ms),
        p95_us=round(1000 * (ms if p95_ms is None else p95_ms)),
    )


def stage(
    *,
    at_server_ms: float = 100.0,
    gap_ms: float = 0.0,
    cores: float | None = 0.1,
    round_trips: RoundTrips | None = NEAR,
    servers: tuple[ServerEdge, ...] | None = None,
    **of_client: Any,
) -> StageRecord:
    """Ten seconds with a hundred requests; the API server used so many cores."""
    columns = requests(
        ttft_us=[round(1000 * (at_server_ms + gap_ms))] * 100,
        e2el_us=[9_000_000] * 100,
        output_tokens=[99] * 100,
    )
    rises = {
        **served(columns),
        "time_to_first_token_seconds_sum": at_server_ms / 10,
        PROCESS_CPU: 10 * (cores or 0.0),
    }
    at_server = edge(rises=rises)
    if cores is None:
        counts = [
            {k: v for k, v in (side or {}).items() if k != PROCESS_CPU}
            for side in (at_server.before, at_server.after)
        ]
        at_server = at_server.model_copy(
            update={"before": counts[0], "after": counts[1]}
        )
    known = (at_server,) if servers is None else servers
    return record(
        requests=columns,
        servers=known,
        client=client(**of_client),
        round_trips=round_trips,
    )


def codes(measured: StageRecord) -> set[Code]:
    """What is called the cause, by all rules."""
    return {found.code for found in judge_stage(context()(measured))} & CULPRITS


def doses(cause: str) -> list[tuple[Code | None, StageRecord]]:
    if cause == "path":
        # A distant request opens a connection, sends, and a long prompt waits once more.
        trips = [0.5, 2, 4, 5, 5.1, 8, 20, 60, 200]
        return [
            (
                Code.PATH_SLOW if ms > 5 else None,
                stage(gap_ms=2 * ms, round_trips=away(ms)),
            )
            for ms in trips
        ]
    gaps = [0, 2, 5.8, 6.0, 12, 40, 300, 3000]
    if cause == "client":
        return [(Code.CLIENT_SATURATED, stage(gap_ms=gap, **BUSY)) for gap in gaps]
    cores = 0.95 if cause == "front end" else 0.5
    code = (
        Code.FRONTEND_SATURATED if cause == "front end" else Code.CLIENT_SERVER_GAP
    )
    # Three round trips of 0.3 ms are the path's.
    return [
        (code if gap > 5.9 else None, stage(gap_ms=gap, cores=cores))
        for gap in gaps
    ]


@pytest.mark.parametrize("cause", ["path", "client", "front end", "unknown"])
def test_each_cause_is_named_at_every_dose_and_no_other(cause: str) -> None:
    for code, measured in doses(cause):
        assert codes(measured) == ({code} if code else set())


@pytest.mark.parametrize(
    ("code", "measured"),
    [
        pytest.param(
            None,
            stage(at_server_ms=20_000, round_trips=away(20)),
            id="20 ms away, at a TTFT of 20 s",
        ),
        pytest.param(
            Code.PATH_SLOW,
            stage(at_server_ms=280, round_trips=away(20)),
            id="20 ms away, at one of 280 ms",
        ),
        pytest.param(
            None, stage(at_server_ms=1000, round_trips=away(50)), id="5 % of TTFT"
        ),
        pytest.param(
            Code.PATH_SLOW,
            stage(at_server_ms=1000, round_trips=away(50.1)),
            id="a little more than 5 %",
        ),
        pytest.param(
            None,
            stage(at_server_ms=1000, gap_ms=50.8, cores=0.95),
            id="a gap of 5 %",
        ),
        pytest.param(
            Code.FRONTEND_SATURATED,
            stage(at_server_ms=1000, gap_ms=51, cores=0.95),
            id="a little longer",
        ),
        pytest.param(
            Code.CLIENT_SERVER_GAP,
            stage(gap_ms=40, cores=0.8),
            id="an API server at 0.8 of a core",
        ),
        pytest.param(
            Code.FRONTEND_SATURATED,
            stage(gap_ms=40, cores=0.81),
            id="and a little above",
        ),
        pytest.param(
            None, stage(cores=1.5), id="a busy API server at which nothing waits"
        ),
        pytest.param(
            None,
            stage(gap_ms=-20, cores=0.95),
            id="TTFT that is shorter at the client",
        ),
    ],
)
def test_thresholds(code: Code | None, measured: StageRecord) -> None:
    assert codes(measured) == ({code} if code else set())


def test_a_slow_path_hides_no_busy_api_server() -> None:
    both = stage(gap_ms=300, cores=0.97, round_trips=away(20))
    assert codes(both) == {Code.PATH_SLOW, Code.FRONTEND_SATURATED}


def test_a_client_that_is_a_little_late_is_not_called_the_cause_of_a_long_gap() -> (
    None
):
    late = stage(gap_ms=300, cores=0.97, lag_p99_us=12_000)
    assert codes(late) == {Code.CLIENT_SATURATED, Code.FRONTEND_SATURATED}
    (saturated,) = (
        each
        for each in judge_stage(context()(late))
        if each.code is Code.CLIENT_SATURATED
    )
    assert (saturated.severity, saturated.evidence["crossed"]) == (
        "Suspect",
        "eventLoopLagP99Ms",
    )


def test_a_client_that_fills_its_core_hides_no_full_api_server() -> None:
    both = stage(gap_ms=200, cores=0.98, cpu_seconds=9.5, lag_p99_us=12_000)
    assert codes(both) == {Code.CLIENT_SATURATED, Code.FRONTEND_SATURATED}


def test_the_busiest_of_several_servers_counts() -> None:
    columns = stage().requests
    half = {
        **served(columns),
        "request_success_total": 50.0,
        "time_to_first_token_seconds_count": 50.0,
    }
    half["time_to_first_token_seconds_sum"] = 5.0
    servers = (
        edge("a", rises=half | {PROCESS_CPU: 1.0}),
        edge("b", rises=half | {PROCESS_CPU: 9.0}),
    )
    assert Code.FRONTEND_SATURATED in codes(stage(gap_ms=40, servers=servers))


def test_evidence_of_a_slow_path() -> None:
    measured = stage(gap_ms=21, round_trips=away(20, p95_ms=31))
    assert path_slow(context()(measured)) == one_finding(
        Code.PATH_SLOW,
        "Suspect",
        4.0,
        roundTripMs=20.0,
        roundTripP95Ms=31.0,
        roundTrips=20,
        lineMs=5.0,
        meanTtftMs=121.0,
        serverTtftMs=100.0,
    )


@pytest.mark.parametrize(
    ("lost", "answers", "found"),
    [
        (2, 100, False),
        (3, 100, True),
        (10, 2000, False),
        (11, 2000, True),
        (None, 100, False),
    ],
)
def test_packets_that_the_path_loses(
    lost: int | None, answers: int, found: bool
) -> None:
    columns = requests(
        ttft_us=[100_000] * answers,
        e2el_us=[9_000_000] * answers,
        output_tokens=[99] * answers,
    )
    measured = record(
        requests=columns,
        servers=(edge(rises=served(columns)),),
        client=client(lost_segments=lost),
    )
    assert [each.evidence for each in findings(path_slow(context()(measured)))] == (
        [
            {
                "lostSegments": lost,
                "suspectSegments": max(2.0, answers / 200),
                "answered": answers,
            }
        ]
        if found
        else []
    )


def test_a_path_too_bad_for_the_probe_is_told_by_what_it_loses() -> None:
    (found,) = findings(
        path_slow(context()(stage(round_trips=None, lost_segments=30)))
    )
    assert found.evidence["lostSegments"] == 30


@pytest.mark.parametrize(("trip_ms", "found"), [(2.0, False), (2.1, True)])
def test_a_fast_server_shows_a_shorter_path(trip_ms: float, found: bool) -> None:
    assert codes(
        stage(at_server_ms=15, gap_ms=trip_ms, round_trips=away(trip_ms))
    ) == ({Code.PATH_SLOW} if found else set())


@pytest.mark.parametrize(
    ("connections", "found"),
    [
        (None, False),
        (Connections(opened=100, total_us=600_000, longest_us=9_000), False),
        (Connections(opened=1, total_us=6_000, longest_us=6_000), True),
    ],
)
def test_what_connections_took_is_not_asked_of_anybody_else(
    connections: Connections | None, found: bool
) -> None:
    """Where it was not measured, a round trip may be one."""
    far = stage(at_server_ms=1000, gap_ms=155, round_trips=away(50)).model_copy(
        update={"connections": connections}
    )
    near = stage(gap_ms=8, cores=0.95).model_copy(
        update={"connections": connections}
    )
    assert (Code.CLIENT_SERVER_GAP in codes(far)) == found
    assert (Code.FRONTEND_SATURATED in codes(near)) == (
        connections is None or found
    )


def test_evidence_of_a_busy_api_server() -> None:
    assert gap_beyond_client(
        context()(stage(gap_ms=40.9, cores=0.95))
    ) == one_finding(
        Code.FRONTEND_SATURATED,
        "Suspect",
        0.95,
        ttftGapMs=40.9,
        unexplainedMs=40.0,
        lineMs=5.0,
        serverTtftMs=100.0,
        apiServerCores=0.95,
        roundTripMs=0.3,
        eventLoopLagP99Ms=0.5,
        stolenPercent=0.0,
        suspectCores=0.8,
    )


@pytest.mark.parametrize(
    ("rule", "missed", "measured"),
    [
        pytest.param(
            path_slow, [Code.PATH_SLOW], stage(round_trips=None), id="no probe"
        ),
        pytest.param(
            path_slow,
            [Code.PATH_SLOW],
            stage(lost_segments=None),
            id="no count of lost packets",
        ),
        pytest.param(
            gap_beyond_client,
            [Code.FRONTEND_SATURATED],
            stage(gap_ms=40, cores=None),
            id="no CPU seconds",
        ),
        pytest.param(
            gap_beyond_client,
            GAP_CODES,
            stage(servers=()),
            id="no counters, no gap",
        ),
        pytest.param(
            gap_beyond_client,
            GAP_CODES,
            stage(servers=(edge(rises={}),)),
            id="counters of other requests",
        ),
    ],
)
def test_what_a_record_does_not_tell_is_not_checked(
    rule: StageRule, missed: list[Code], measured: StageRecord
) -> None:
    assert [each.code for each in unchecked(rule(context()(measured)))] == missed


def test_without_a_gap_nobody_needs_the_cpu_seconds_of_the_api_server() -> None:
    assert gap_beyond_client(context()(stage(cores=None))) == []


def test_a_gap_whose_cause_is_not_known_is_still_told() -> None:
    """An older record, or a vLLM with several API servers."""
    assert codes(stage(gap_ms=40, cores=None, round_trips=None)) == {
        Code.CLIENT_SERVER_GAP
    }


@pytest.mark.parametrize("count", [99, 101])
def test_counts_that_differ_by_one_in_a_hundred_agree(count: int) -> None:
    rises = {
        "time_to_first_token_seconds_sum": count / 10,
        "time_to_first_token_seconds_count": float(count),
    }
    assert codes(stage(gap_ms=40, servers=(edge(rises=rises),))) == {
        Code.CLIENT_SERVER_GAP
    }


def test_an_api_server_that_was_restarted_has_no_cpu_seconds_to_compare() -> None:
    restarted = edge(rises={PROCESS_CPU: 9.5}, after={START_TIME: 5000.0})
    assert (
        findings(
            gap_beyond_client(context()(stage(gap_ms=40, servers=(restarted,))))
        )
        == []
    )


@pytest.mark.parametrize("rule", [path_slow, gap_beyond_client])
def test_an_engine_without_an_api_server_has_neither_path_nor_front_end(
    rule: StageRule,
) -> None:
    far = stage(gap_ms=40, cores=0.95, round_trips=away(20))
    assert rule(context(load=open_loop_load(offline=True))(far)) == []
    assert (
        rule(
            context(load=open_loop_load(offline=True))(
                stage(servers=(), round_trips=None)
            )
        )
        == []
    )


def test_behind_the_proxy_of_a_disaggregated_server_the_proxy_is_the_front_end() -> (
    None
):
    counted = dict.fromkeys(PROXY_COUNTERS, 0.0)
    after = counted | {
        "benchrun_proxy_time_to_first_token_seconds_sum": 10.0,
        "benchrun_proxy_time_to_first_token_seconds_count": 100.0,
        PROCESS_CPU: 9.5,
    }
    proxy = ServerEdge(address="p", role="proxy", before=counted, after=after)
    assert codes(stage(gap_ms=40, servers=(proxy,))) == {Code.CLIENT_SERVER_GAP}


# A client beyond its capacity, told by four figures; and one that the kernel held back.

SUM = "time_to_first_token_seconds_sum"
COUNT = "time_to_first_token_seconds_count"


def servers(mean_ms: float, count: int = 100) -> tuple[ServerEdge, ...]:
    return (edge(rises={SUM: mean_ms * count / 1000, COUNT: float(count)}),)


def stage_client_load(
    *,
    ttft_ms: float = 50.0,
    at_server_ms: float | None = None,
    e2el_ms: float = 9_000.0,
    queue_us: list[int] | None = None,
    round_trips: RoundTrips | None = None,
    **of_client: Any,
) -> StageRecord:
    """A hundred requests of nine tokens; at the server TTFT is the client's unless told
    otherwise."""
    e2el_us = [round(1000 * e2el_ms)] * 100
    columns = requests(
        ttft_us=[round(1000 * ttft_ms)] * 100,
        e2el_us=e2el_us,
        output_tokens=[9] * 100,
        queue_us=queue_us,
    )
    at_server = servers(ttft_ms if at_server_ms is None else at_server_ms)
    return record(
        requests=columns,
        servers=at_server,
        client=client(**of_client),
        round_trips=round_trips,
    )


@pytest.mark.parametrize(
    ("severity", "measured"),
    [
        pytest.param(None, stage_client_load(), id="at its ease"),
        pytest.param(
            None, stage_client_load(lag_p99_us=5_000), id="an event loop 5 ms late"
        ),
        pytest.param(
            "Suspect", stage_client_load(lag_p99_us=5_001), id="a little later"
        ),
        pytest.param(
            "Suspect",
            stage_client_load(lag_p99_us=15_000),
            id="three times as late",
        ),
        pytest.param(
            "Invalid", stage_client_load(lag_p99_us=15_001), id="and a little later"
        ),
        pytest.param(
            "Suspect",
            stage_client_load(lag_p99_us=10_000),
            id="10 ms at a TTFT of 50 ms",
        ),
        pytest.param(
            None,
            stage_client_load(ttft_ms=20_000, e2el_ms=60_000, lag_p99_us=10_000),
            id="10 ms at one of 20 s",
        ),
        pytest.param(
            None,
            stage_client_load(ttft_ms=500, lag_p99_us=40_000),
            id="8 % of TTFT",
        ),
        pytest.param(
            "Suspect",
            stage_client_load(ttft_ms=500, lag_p99_us=40_001),
            id="more than 8 %",
        ),
        pytest.param(
            "Invalid",
            stage_client_load(ttft_ms=500, lag_p99_us=120_001),
            id="more than three times that",
        ),
        pytest.param(
            "Suspect",
            stage_client_load(
                ttft_ms=9_000, at_server_ms=500, e2el_ms=20_000, lag_p99_us=40_001
            ),
            id="of the server's TTFT",
        ),
        pytest.param(
            None,
            stage_client_load(ttft_ms=5_000, e2el_ms=5_200, lag_p99_us=16_000),
            id="8 % of a short answer",
        ),
        pytest.param(
            "Suspect",
            stage_client_load(ttft_ms=5_000, e2el_ms=5_200, lag_p99_us=16_001),
            id="which TPOT is made of",
        ),
        pytest.param(
            None, stage_client_load(queue_us=[5_000] * 100), id="sends 5 ms late"
        ),
        pytest.param(
            "Suspect", stage_client_load(queue_us=[5_001] * 100), id="sends later"
        ),
        pytest.param(
            "Invalid",
            stage_client_load(queue_us=[15_001] * 100),
            id="sends three times as late",
        ),
        pytest.param(
            None,
            stage_client_load(ttft_ms=500, queue_us=[40_000] * 100),
            id="sends late by 8 % of TTFT",
        ),
        pytest.param(
            None,
            stage_client_load(queue_us=[0] * 99 + [20_000]),
            id="a single late send is not p99",
        ),
        pytest.param(None, stage_client_load(cpu_seconds=9.0), id="0.9 of a core"),
        pytest.param(
            "Suspect", stage_client_load(cpu_seconds=9.1), id="more than 0.9"
        ),
        pytest.param(
            "Suspect",
            stage_client_load(cpu_seconds=10.0),
            id="all of a core is not Invalid by itself",
        ),
        pytest.param(
            None,
            stage_client_load(cpu_seconds=18.0, processes=2),
            id="0.9 of a core in each of two processes",
        ),
        pytest.param(
            "Invalid",
            stage_client_load(cpu_seconds=10.0, lag_p99_us=40_000),
            id="the worst sign counts",
        ),
        pytest.param(
            None,
            stage_client_load(cpu_seconds=1.0, wall_seconds=0.0),
            id="no time, no share of a core",
        ),
        pytest.param(
            None,
            stage_client_load(ttft_ms=1000, at_server_ms=50, cpu_seconds=6.0),
            id="a gap alone, however long",
        ),
    ],
)
def test_signs_of_overload(
    severity: Severity | None, measured: StageRecord
) -> None:
    found = client_saturated(context()(measured))
    assert [(f.code, f.severity) for f in findings(found)] == (
        [(Code.CLIENT_SATURATED, severity)] if severity else []
    )
    assert unchecked(found) == []


def gap(ms: float, **of_client: Any) -> StageRecord:
    return stage_client_load(ttft_ms=50.0 + ms, at_server_ms=50.0, **of_client)


@pytest.mark.parametrize(
    ("crossed", "severity", "measured"),
    [
        pytest.param(
            None,
            None,
            gap(5, cpu_seconds=6.1, lag_p99_us=2_000),
            id="5 ms, three fifths of a core",
        ),
        pytest.param(
            "unexplainedMs",
            "Suspect",
            gap(6, cpu_seconds=6.1, lag_p99_us=2_000),
            id="a little more",
        ),
        pytest.param(
            None,
            None,
            gap(6, cpu_seconds=6.0, lag_p99_us=2_000),
            id="a client that is not busy",
        ),
        pytest.param(
            None,
            None,
            gap(11, cpu_seconds=6.1, lag_p99_us=2_000),
            id="more than five turns of its loop",
        ),
        pytest.param(
            "unexplainedMs",
            "Invalid",
            gap(16, cpu_seconds=6.1, lag_p99_us=4_000),
            id="three times as long",
        ),
        pytest.param(
            "unexplainedMs, eventLoopLagP99Ms",
            "Invalid",
            gap(30, lag_p99_us=6_000),
            id="as long as five late turns",
        ),
        pytest.param(
            "eventLoopLagP99Ms",
            "Suspect",
            gap(31, lag_p99_us=6_000),
            id="longer than five late turns",
        ),
        pytest.param(
            "unexplainedMs, coresAProcess",
            "Invalid",
            gap(500, cpu_seconds=9.1),
            id="any gap of a full core",
        ),
    ],
)
def test_a_gap_is_the_clients_where_it_accounts_for_it(
    crossed: str | None, severity: Severity | None, measured: StageRecord
) -> None:
    found = findings(client_saturated(context()(measured)))
    expected = [(crossed, severity)] if crossed else []
    assert [(each.evidence["crossed"], each.severity) for each in found] == expected


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(users(4), id="users"),
        pytest.param(open_loop_load(rate=4.0, concurrency=4), id="a cap"),
        pytest.param(open_loop_load(rate=None), id="all at once"),
    ],
)
def test_waiting_for_a_place_is_no_late_send(load: ExpectedStage) -> None:
    assert (
        client_saturated(
            context(load=load)(stage_client_load(queue_us=[9_000_000] * 100))
        )
        == []
    )


def test_an_unknown_lag_is_reported() -> None:
    (missed,) = unchecked(
        client_saturated(context()(stage_client_load(lag_p99_us=None)))
    )
    assert (missed.code, missed.why) == (
        Code.CLIENT_SATURATED,
        "unknown: event-loop lag",
    )


@pytest.mark.parametrize(("severity", "lag_us"), [(None, 0), ("Invalid", 1)])
def test_everything_is_beyond_a_threshold_of_0(
    severity: Severity | None, lag_us: int
) -> None:
    stages = context(
        Thresholds(client_lag_suspect_ms=0.0, client_lag_suspect_percent=0.0)
    )
    found = findings(client_saturated(stages(stage_client_load(lag_p99_us=lag_us))))
    assert [each.severity for each in found] == ([severity] if severity else [])


def test_what_is_unknown_does_not_hide_what_is_known() -> None:
    found = client_saturated(
        context()(
            stage_client_load(cpu_seconds=9.5, lag_p99_us=None).model_copy(
                update={"servers": ()}
            )
        )
    )
    assert only(found).evidence["crossed"] == "coresAProcess"
    assert unchecked(found) == []


def test_evidence_names_all_figures_and_the_line_crossed_most() -> None:
    measured = stage_client_load(
        ttft_ms=80.0,
        at_server_ms=50.0,
        queue_us=[2_000] * 100,
        cpu_seconds=9.5,
        lag_p99_us=4_000,
        stolen_seconds=1.5,
    )
    assert client_saturated(context()(measured)) == one_finding(
        Code.CLIENT_SATURATED,
        "Invalid",
        6.0,
        unexplainedMs=30.0,
        sendLagP99Ms=2.0,
        eventLoopLagP99Ms=4.0,
        coresAProcess=0.95,
        eventLoopLagMaxMs=1.0,
        proxyLookups="false",
        serverTtftMs=50.0,
        stolenPercent=15.0,
        crossed="unexplainedMs, coresAProcess",
        worst="unexplainedMs",
        line=5.0,
        lineForInvalid=15.0,
    )


def test_what_may_have_made_the_gap_is_reported() -> None:
    """The longest time for which nothing was read, and proxies that are looked up within every
    TTFT."""
    held_up = gap(30, cpu_seconds=9.5, lag_max_us=212_000)
    engine = held_up.engine.model_copy(update={"trust_env": True})
    evidence = only(
        client_saturated(context()(held_up.model_copy(update={"engine": engine})))
    ).evidence
    assert (evidence["eventLoopLagMaxMs"], evidence["proxyLookups"]) == (
        212.0,
        "true",
    )


@pytest.mark.parametrize(
    ("reported", "stolen"),
    [(False, None), (False, 0.0), (False, 0.49), (True, 0.5), (True, 1.7)],
)
def test_stolen_cpu_is_reported_where_it_matters(
    reported: bool, stolen: float | None
) -> None:
    finding = only(
        client_saturated(
            context()(stage_client_load(lag_p99_us=9_000, stolen_seconds=stolen))
        )
    )
    assert (
        "hypervisor" in evidence_sentence(finding.code, finding.evidence)
    ) == reported
    assert finding.evidence["stolenPercent"] == (
        None if stolen is None else pytest.approx(10 * stolen)
    )


def test_a_line_that_makes_nothing_invalid_has_no_second_one() -> None:
    evidence = only(
        client_saturated(context()(stage_client_load(cpu_seconds=9.5)))
    ).evidence
    assert (evidence["worst"], evidence["line"], evidence["lineForInvalid"]) == (
        "coresAProcess",
        0.9,
        None,
    )


def test_failed_requests_have_no_ttft() -> None:
    columns = requests(
        ttft_us=[50_000, 0], e2el_us=[60_000, 0], output_tokens=[9, 0], ok=[1, 0]
    )
    measured = record(requests=columns, servers=servers(50.0, 1), client=client())
    assert client_saturated(context()(measured)) == []


@pytest.mark.parametrize(("found", "periods"), [(False, 0), (True, 1), (True, 50)])
def test_throttling(found: bool, periods: int) -> None:
    assert (
        client_throttled(context()(stage_client_load(throttled_periods=periods)))
        == one_finding(
            Code.CLIENT_THROTTLED,
            "Suspect",
            periods,
            throttledPeriods=periods,
            wallSeconds=10.0,
        )[: int(found)]
    )


def test_throttling_that_cannot_be_read() -> None:
    (missed,) = unchecked(
        client_throttled(context()(stage_client_load(throttled_periods=None)))
    )
    assert missed.code is Code.CLIENT_THROTTLED


@pytest.mark.parametrize(
    ("skew_us", "error_us", "suspect"),
    [
        (0, 0, False),
        (20_000, 0, False),
        (20_001, 0, True),
        (10_000, 10_000, False),
        (10_000, 10_001, True),
    ],
)
def test_what_they_were_apart_and_what_their_clocks_may_hide_count_together(
    skew_us: int, error_us: int, suspect: bool
) -> None:
    measured = record(
        shards=Shards(count=3, start_skew_us=skew_us, clock_error_us=error_us)
    )
    found = findings(shards_out_of_step(context()(measured)))
    assert [(each.code, each.severity) for each in found] == [
        (Code.SHARDS_OUT_OF_STEP, "Suspect")
    ] * suspect
    assert all(each.evidence["processes"] == 3 for each in found)


def test_one_process_is_in_step_with_itself() -> None:
    assert shards_out_of_step(context()(record())) == []
