"""A client beyond its capacity, told by four figures; and one that the kernel held back."""

from typing import Any

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.all_rules import evidence_sentence
from benchrun.judge.rules.client import client_saturated, client_throttled, shards_out_of_step
from benchrun.judge.rules.rule import Code
from benchrun.judge.stage_facts import ExpectedLoad
from benchrun.judge.thresholds import Thresholds
from benchrun_client.contract import RoundTrips, ServerEdge, Shards, StageRecord
from unit.judge.stages import context, findings, one_finding, only, open_loop_load, unchecked, users
from unit.measure.records import client, edge, record, requests

SUM, COUNT = "time_to_first_token_seconds_sum", "time_to_first_token_seconds_count"


def servers(mean_ms: float, count: int = 100) -> tuple[ServerEdge, ...]:
    return (edge(rises={SUM: mean_ms * count / 1000, COUNT: float(count)}),)


def stage(
    *,
    ttft_ms: float = 50.0,
    at_server_ms: float | None = None,
    e2el_ms: float = 9_000.0,
    queue_us: list[int] | None = None,
    round_trips: RoundTrips | None = None,
    **of_client: Any,
) -> StageRecord:
    """A hundred requests of nine tokens; at the server TTFT is the client's unless told otherwise."""
    e2el_us = [round(1000 * e2el_ms)] * 100
    columns = requests(
        ttft_us=[round(1000 * ttft_ms)] * 100, e2el_us=e2el_us, output_tokens=[9] * 100, queue_us=queue_us
    )
    at_server = servers(ttft_ms if at_server_ms is None else at_server_ms)
    return record(requests=columns, servers=at_server, client=client(**of_client), round_trips=round_trips)


@pytest.mark.parametrize(
    ("severity", "measured"),
    [
        pytest.param(None, stage(), id="at its ease"),
        pytest.param(None, stage(lag_p99_us=5_000), id="an event loop 5 ms late"),
        pytest.param("Suspect", stage(lag_p99_us=5_001), id="a little later"),
        pytest.param("Suspect", stage(lag_p99_us=15_000), id="three times as late"),
        pytest.param("Invalid", stage(lag_p99_us=15_001), id="and a little later"),
        pytest.param("Suspect", stage(lag_p99_us=10_000), id="10 ms at a TTFT of 50 ms"),
        pytest.param(None, stage(ttft_ms=20_000, e2el_ms=60_000, lag_p99_us=10_000), id="10 ms at one of 20 s"),
        pytest.param(None, stage(ttft_ms=500, lag_p99_us=40_000), id="8 % of TTFT"),
        pytest.param("Suspect", stage(ttft_ms=500, lag_p99_us=40_001), id="more than 8 %"),
        pytest.param("Invalid", stage(ttft_ms=500, lag_p99_us=120_001), id="more than three times that"),
        pytest.param(
            "Suspect",
            stage(ttft_ms=9_000, at_server_ms=500, e2el_ms=20_000, lag_p99_us=40_001),
            id="of the server's TTFT",
        ),
        pytest.param(None, stage(ttft_ms=5_000, e2el_ms=5_200, lag_p99_us=16_000), id="8 % of a short answer"),
        pytest.param("Suspect", stage(ttft_ms=5_000, e2el_ms=5_200, lag_p99_us=16_001), id="which TPOT is made of"),
        pytest.param(None, stage(queue_us=[5_000] * 100), id="sends 5 ms late"),
        pytest.param("Suspect", stage(queue_us=[5_001] * 100), id="sends later"),
        pytest.param("Invalid", stage(queue_us=[15_001] * 100), id="sends three times as late"),
        pytest.param(None, stage(ttft_ms=500, queue_us=[40_000] * 100), id="sends late by 8 % of TTFT"),
        pytest.param(None, stage(queue_us=[0] * 99 + [20_000]), id="a single late send is not p99"),
        pytest.param(None, stage(cpu_seconds=9.0), id="0.9 of a core"),
        pytest.param("Suspect", stage(cpu_seconds=9.1), id="more than 0.9"),
        pytest.param("Suspect", stage(cpu_seconds=10.0), id="all of a core is not Invalid by itself"),
        pytest.param(None, stage(cpu_seconds=18.0, processes=2), id="0.9 of a core in each of two processes"),
        pytest.param("Invalid", stage(cpu_seconds=10.0, lag_p99_us=40_000), id="the worst sign counts"),
        pytest.param(None, stage(cpu_seconds=1.0, wall_seconds=0.0), id="no time, no share of a core"),
        pytest.param(None, stage(ttft_ms=1000, at_server_ms=50, cpu_seconds=6.0), id="a gap alone, however long"),
    ],
)
def test_signs_of_overload(severity: Severity | None, measured: StageRecord) -> None:
    found = client_saturated(context()(measured))
    assert [(f.code, f.severity) for f in findings(found)] == ([(Code.CLIENT_SATURATED, severity)] if severity else [])
    assert unchecked(found) == []


def gap(ms: float, **of_client: Any) -> StageRecord:
    return stage(ttft_ms=50.0 + ms, at_server_ms=50.0, **of_client)


@pytest.mark.parametrize(
    ("crossed", "severity", "measured"),
    [
        pytest.param(None, None, gap(5, cpu_seconds=6.1, lag_p99_us=2_000), id="5 ms, three fifths of a core"),
        pytest.param("ttftGapMs", "Suspect", gap(6, cpu_seconds=6.1, lag_p99_us=2_000), id="a little more"),
        pytest.param(None, None, gap(6, cpu_seconds=6.0, lag_p99_us=2_000), id="a client that is not busy"),
        pytest.param(None, None, gap(11, cpu_seconds=6.1, lag_p99_us=2_000), id="more than five turns of its loop"),
        pytest.param("ttftGapMs", "Invalid", gap(16, cpu_seconds=6.1, lag_p99_us=4_000), id="three times as long"),
        pytest.param(
            "ttftGapMs, eventLoopLagP99Ms", "Invalid", gap(30, lag_p99_us=6_000), id="as long as five late turns"
        ),
        pytest.param("eventLoopLagP99Ms", "Suspect", gap(31, lag_p99_us=6_000), id="longer than five late turns"),
        pytest.param("ttftGapMs, coresAProcess", "Invalid", gap(500, cpu_seconds=9.1), id="any gap of a full core"),
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
def test_waiting_for_a_place_is_no_late_send(load: ExpectedLoad) -> None:
    assert client_saturated(context(load=load)(stage(queue_us=[9_000_000] * 100))) == []


def test_an_unknown_lag_is_reported() -> None:
    (missed,) = unchecked(client_saturated(context()(stage(lag_p99_us=None))))
    assert (missed.code, missed.why) == (Code.CLIENT_SATURATED, "unknown: event-loop lag")


@pytest.mark.parametrize(("severity", "lag_us"), [(None, 0), ("Invalid", 1)])
def test_everything_is_beyond_a_threshold_of_0(severity: Severity | None, lag_us: int) -> None:
    stages = context(Thresholds(client_lag_suspect_ms=0.0, client_lag_suspect_percent=0.0))
    found = findings(client_saturated(stages(stage(lag_p99_us=lag_us))))
    assert [each.severity for each in found] == ([severity] if severity else [])


def test_what_is_unknown_does_not_hide_what_is_known() -> None:
    found = client_saturated(context()(stage(cpu_seconds=9.5, lag_p99_us=None).model_copy(update={"servers": ()})))
    assert only(found).evidence["crossed"] == "coresAProcess"
    assert unchecked(found) == []


def test_evidence_names_all_figures_and_the_line_crossed_most() -> None:
    measured = stage(
        ttft_ms=80.0, at_server_ms=50.0, queue_us=[2_000] * 100, cpu_seconds=9.5, lag_p99_us=4_000, stolen_seconds=1.5
    )
    assert client_saturated(context()(measured)) == one_finding(
        Code.CLIENT_SATURATED,
        "Invalid",
        6.0,
        ttftGapMs=30.0,
        sendLagP99Ms=2.0,
        eventLoopLagP99Ms=4.0,
        coresAProcess=0.95,
        eventLoopLagMaxMs=1.0,
        proxyLookups="false",
        serverTtftMs=50.0,
        stolenPercent=15.0,
        crossed="ttftGapMs, coresAProcess",
        worst="ttftGapMs",
        line=5.0,
        lineForInvalid=15.0,
    )


def test_what_may_have_made_the_gap_is_reported() -> None:
    """The longest time for which nothing was read, and proxies that are looked up within every TTFT."""
    held_up = gap(30, cpu_seconds=9.5, lag_max_us=212_000)
    engine = held_up.engine.model_copy(update={"trust_env": True})
    evidence = only(client_saturated(context()(held_up.model_copy(update={"engine": engine})))).evidence
    assert (evidence["eventLoopLagMaxMs"], evidence["proxyLookups"]) == (212.0, "true")


@pytest.mark.parametrize(("reported", "stolen"), [(False, None), (False, 0.0), (False, 0.49), (True, 0.5), (True, 1.7)])
def test_stolen_cpu_is_reported_where_it_matters(reported: bool, stolen: float | None) -> None:
    finding = only(client_saturated(context()(stage(lag_p99_us=9_000, stolen_seconds=stolen))))
    assert ("hypervisor" in evidence_sentence(finding.code, finding.evidence)) == reported
    assert finding.evidence["stolenPercent"] == (None if stolen is None else pytest.approx(10 * stolen))


def test_a_line_that_makes_nothing_invalid_has_no_second_one() -> None:
    evidence = only(client_saturated(context()(stage(cpu_seconds=9.5)))).evidence
    assert (evidence["worst"], evidence["line"], evidence["lineForInvalid"]) == ("coresAProcess", 0.9, None)


def test_failed_requests_have_no_ttft() -> None:
    columns = requests(ttft_us=[50_000, 0], e2el_us=[60_000, 0], output_tokens=[9, 0], ok=[1, 0])
    measured = record(requests=columns, servers=servers(50.0, 1), client=client())
    assert client_saturated(context()(measured)) == []


@pytest.mark.parametrize(("found", "periods"), [(False, 0), (True, 1), (True, 50)])
def test_throttling(found: bool, periods: int) -> None:
    assert (
        client_throttled(context()(stage(throttled_periods=periods)))
        == one_finding(Code.CLIENT_THROTTLED, "Suspect", periods, throttledPeriods=periods, wallSeconds=10.0)[
            : int(found)
        ]
    )


def test_throttling_that_cannot_be_read() -> None:
    (missed,) = unchecked(client_throttled(context()(stage(throttled_periods=None))))
    assert missed.code is Code.CLIENT_THROTTLED


@pytest.mark.parametrize(
    ("skew_us", "error_us", "suspect"),
    [(0, 0, False), (20_000, 0, False), (20_001, 0, True), (10_000, 10_000, False), (10_000, 10_001, True)],
)
def test_what_they_were_apart_and_what_their_clocks_may_hide_count_together(
    skew_us: int, error_us: int, suspect: bool
) -> None:
    measured = record(shards=Shards(count=3, start_skew_us=skew_us, clock_error_us=error_us))
    found = findings(shards_out_of_step(context()(measured)))
    assert [(each.code, each.severity) for each in found] == [(Code.SHARDS_OUT_OF_STEP, "Suspect")] * suspect
    assert all(each.evidence["processes"] == 3 for each in found)


def test_one_process_is_in_step_with_itself() -> None:
    assert shards_out_of_step(context()(record())) == []
