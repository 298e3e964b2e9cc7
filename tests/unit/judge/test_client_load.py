"""A client beyond its capacity, told by four figures; and one that the kernel held back."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api import Severity
from benchrun.judge.rules.client import client_saturated, client_throttled, shards_out_of_step
from benchrun.judge.rules.rule import Code
from benchrun.judge.stage_profile import ExpectedLoad
from benchrun_client.contract import ServerEdge, Shards, StageRecord
from unit.judge.stages import asked, context, findings, one_finding, only, unchecked, users
from unit.measure.records import client, edge, record, requests

SUM, COUNT = "time_to_first_token_seconds_sum", "time_to_first_token_seconds_count"


def servers(mean_ms: float, count: int = 100) -> tuple[ServerEdge, ...]:
    return (edge(rises={SUM: mean_ms * count / 1000, COUNT: float(count)}),)


def stage(
    *, ttft_ms: float = 50.0, at_server_ms: float = 50.0, queue_us: list[int] | None = None, **of_client: Any
) -> StageRecord:
    """A hundred requests."""
    columns = requests(
        ttft_us=[round(1000 * ttft_ms)] * 100, e2el_us=[9_000_000] * 100, output_tokens=[9] * 100, queue_us=queue_us
    )
    return record(requests=columns, servers=servers(at_server_ms), client=client(**of_client))


@pytest.mark.parametrize(
    ("severity", "measured"),
    [
        pytest.param(None, stage(), id="at its ease"),
        pytest.param(None, stage(ttft_ms=55.0), id="5 ms later than the server"),
        pytest.param("Suspect", stage(ttft_ms=55.1), id="a little more"),
        pytest.param("Suspect", stage(ttft_ms=65.0), id="three times as much"),
        pytest.param("Invalid", stage(ttft_ms=65.1), id="and a little more"),
        pytest.param(None, stage(ttft_ms=1050, at_server_ms=1000), id="5 % of a second"),
        pytest.param("Suspect", stage(ttft_ms=1051, at_server_ms=1000), id="more than 5 % of a second"),
        pytest.param("Invalid", stage(ttft_ms=1151, at_server_ms=1000), id="more than 15 % of a second"),
        pytest.param(None, stage(ttft_ms=40.0), id="earlier than the server: not the client's load"),
        pytest.param(None, stage(queue_us=[10_000] * 100), id="sends 10 ms late"),
        pytest.param("Suspect", stage(queue_us=[10_001] * 100), id="sends more than 10 ms late"),
        pytest.param("Invalid", stage(queue_us=[30_001] * 100), id="sends more than 30 ms late"),
        pytest.param(None, stage(queue_us=[0] * 99 + [20_000]), id="a single late send is not p99"),
        pytest.param(None, stage(lag_p99_us=10_000), id="the event loop is 10 ms late"),
        pytest.param("Suspect", stage(lag_p99_us=10_001), id="the event loop is later"),
        pytest.param("Invalid", stage(lag_p99_us=30_001), id="the event loop is three times as late"),
        pytest.param(None, stage(cpu_seconds=6.0), id="0.6 of a core"),
        pytest.param("Suspect", stage(cpu_seconds=6.1), id="more than 0.6"),
        pytest.param("Suspect", stage(cpu_seconds=10.0), id="all of a core is not Invalid by itself"),
        pytest.param(None, stage(cpu_seconds=12.0, processes=2), id="0.6 of a core in each of two processes"),
        pytest.param("Invalid", stage(cpu_seconds=10.0, lag_p99_us=40_000), id="the worst sign counts"),
        pytest.param(None, stage(cpu_seconds=1.0, wall_seconds=0.0), id="no time, no share of a core"),
    ],
)
def test_signs_of_overload(severity: Severity | None, measured: StageRecord) -> None:
    found = client_saturated(context()(measured))
    assert [(f.code, f.severity) for f in findings(found)] == ([(Code.CLIENT_SATURATED, severity)] if severity else [])
    assert unchecked(found) == []


@pytest.mark.parametrize(
    "of",
    [
        pytest.param(users(4), id="users"),
        pytest.param(asked(rate=4.0, concurrency=4), id="a cap"),
        pytest.param(asked(rate=None), id="all at once"),
    ],
)
def test_waiting_for_a_place_is_no_late_send(of: ExpectedLoad) -> None:
    assert client_saturated(context(of=of)(stage(queue_us=[9_000_000] * 100))) == []


@pytest.mark.parametrize(
    ("why", "changes"),
    [
        pytest.param("unknown: TTFT at the servers", {"servers": ()}, id="no counters"),
        pytest.param("unknown: TTFT at the servers", {"servers": servers(50, 98)}, id="of other requests too few"),
        pytest.param("unknown: TTFT at the servers", {"servers": servers(50, 102)}, id="of other requests too many"),
        pytest.param("unknown: TTFT at the servers", {"servers": servers(0, 0)}, id="of none"),
        pytest.param("unknown: event-loop lag", {"client": client(lag_p99_us=None)}, id="no lag"),
        pytest.param(
            "unknown: TTFT at the servers, event-loop lag",
            {"servers": (), "client": client(lag_p99_us=None)},
            id="neither",
        ),
    ],
)
def test_what_is_unknown_is_said(why: str, changes: dict[str, Any]) -> None:
    (missed,) = unchecked(client_saturated(context()(stage().model_copy(update=changes))))
    assert (missed.code, missed.why) == (Code.CLIENT_SATURATED, why)


def test_counts_that_differ_by_one_in_a_hundred_agree() -> None:
    nearly = stage(ttft_ms=70.0).model_copy(update={"servers": servers(50, 101)})
    assert only(client_saturated(context()(nearly))).evidence["ttftGapMs"] == 20.0


def test_what_is_unknown_does_not_hide_what_is_known() -> None:
    found = client_saturated(context()(stage(cpu_seconds=9.0, lag_p99_us=None).model_copy(update={"servers": ()})))
    assert only(found).evidence["crossed"] == "coresAProcess"
    assert unchecked(found) == []


def test_evidence_names_all_figures_and_the_line_crossed_most() -> None:
    measured = stage(ttft_ms=80.0, queue_us=[2_000] * 100, cpu_seconds=9.0, lag_p99_us=4_000)
    assert client_saturated(context()(measured)) == one_finding(
        Code.CLIENT_SATURATED,
        "Invalid",
        6.0,
        ttftGapMs=30.0,
        sendLagP99Ms=2.0,
        eventLoopLagP99Ms=4.0,
        coresAProcess=0.9,
        eventLoopLagMaxMs=1.0,
        proxyLookups="false",
        serverTtftMs=50.0,
        crossed="ttftGapMs, coresAProcess",
        worst="ttftGapMs",
        line=5.0,
        lineForInvalid=15.0,
    )


def test_what_may_have_made_the_gap_is_told() -> None:
    """The longest time for which nothing was read, and proxies that are looked up within every TTFT."""
    held_up = stage(ttft_ms=80.0, lag_max_us=212_000)
    engine = held_up.engine.model_copy(update={"trust_env": True})
    evidence = only(client_saturated(context()(held_up.model_copy(update={"engine": engine})))).evidence
    assert (evidence["eventLoopLagMaxMs"], evidence["proxyLookups"]) == (212.0, "true")


def test_a_line_that_makes_nothing_invalid_has_no_second_one() -> None:
    evidence = only(client_saturated(context()(stage(cpu_seconds=9.0)))).evidence
    assert (evidence["worst"], evidence["line"], evidence["lineForInvalid"]) == ("coresAProcess", 0.6, None)


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
