"""Loads by a simulated server with random arrivals or think times, and by the spec."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, LoadPoint
from benchrun.judge.rules.load import (
    all_at_once,
    concurrency_not_reached,
    rate_not_achieved,
    share_of_round,
)
from benchrun.judge.rules.steady_state import not_steady_state
from benchrun.judge.stage_facts import StageFacts, expected_stage
from benchrun.measure import NoPlateau, Plateau
from benchrun.plan import load_points
from benchrun_client.contract import StageRecord
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.specs import workload
from unit.judge.stages import context, findings, open_loop_load, trace, users
from unit.measure.records import record, requests
from unit.plan.specs import spec_body

SECOND = 1_000_000


# ---- rate
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [2, 3, 5, 20, 34])
def test_gaps_that_fall_badly_are_no_delay(count: int) -> None:
    """The first of few random gaps may be most of them all, or next to nothing."""
    for seed in range(200):
        stage = open_loop(
            Server(decode_seconds=0.1), rate=2.0, count=count, seed=seed
        )
        assert rate_not_achieved(stage) == []


# ---- users
# ----------------------------------------------------------------------------------------------------------


def taking_turns(at_a_time: int, rounds: int) -> StageRecord:
    """So many requests together for a second, then as many more."""
    starts = [turn * SECOND for turn in range(rounds) for _ in range(at_a_time)]
    count = len(starts)
    columns = requests(
        ttft_us=[1000] * count,
        e2el_us=[SECOND] * count,
        output_tokens=[2] * count,
        start_us=starts,
    )
    return record(requests=columns)


# Users that think: 16 of them with answers of about a second and think times of 3 s on average, so
# that 4 are in flight.
THINKING: dict[str, Any] = {
    "concurrency": 16,
    "think_seconds": 3.0,
    "spread_seconds": 4.0,
}
CALM = Server(prefill_seconds=0.005)


@pytest.mark.parametrize("count", [60, 200, 600])
def test_users_that_think_are_not_missed(count: int) -> None:
    for seed in range(40):
        stage = closed_loop(CALM, count=count, seed=seed, **THINKING)
        assert concurrency_not_reached(stage) == []
        assert isinstance(stage.plateau, Plateau)


def test_of_users_that_think_so_many_are_expected_in_flight() -> None:
    load = users(20, think_seconds=3.0)
    assert context(load=load)(taking_turns(20, 10)).expected_in_flight == 5.0
    assert context(load=users(20))(taking_turns(20, 10)).expected_in_flight == 20
    assert context(load=CAPPED)(taking_turns(20, 10)).expected_in_flight == 4


def test_users_that_think_are_missed_where_a_third_never_sends() -> None:
    for seed in range(10):
        stage = closed_loop(CALM, count=900, seed=seed, missing=5, **THINKING)
        (found,) = findings(concurrency_not_reached(stage))
        assert found.severity == "Suspect"
        assert found.evidence["users"] == 16
        # 95 %, less four errors of 900 think times: they are three quarters of a round.
        limit = found.evidence["suspectPercent"]
        assert limit == pytest.approx(95 * (1 - 4 * 0.75 / 30), abs=0.2)


@pytest.mark.parametrize(("think_seconds", "is_known"), [(0.0, True), (9.0, False)])
def test_a_round_of_users_that_think_is_longer(
    think_seconds: float, is_known: bool
) -> None:
    """Twenty seconds are two rounds of an answer and nine seconds of thinking, too few to tell."""
    starts = [
        turn * 10 * SECOND + user * 50_000
        for turn in range(3)
        for user in range(20)
    ]
    count = len(starts)
    stage = record(
        requests=requests(
            ttft_us=[1000] * count,
            e2el_us=[SECOND] * count,
            output_tokens=[2] * count,
            start_us=starts,
        )
    )
    facts = context(load=users(20, think_seconds=think_seconds))(stage)
    assert isinstance(facts.plateau, Plateau)
    share = share_of_round(facts, facts.plateau, facts.plateau.started)
    assert (share is not None) == is_known


@pytest.mark.parametrize(
    ("think", "expected"),
    [
        pytest.param({}, 0.0, id="none"),
        pytest.param({"thinkSeconds": {"mean": "2.5"}}, 2.5, id="of users"),
    ],
)
def test_the_expected_load_has_the_think_time(
    think: dict[str, Any], expected: float
) -> None:
    load = {"concurrencies": [4], **think}
    body = spec_body() | {"workloads": [workload(requests=9, load=load)]}
    spec = BenchmarkRunSpec.model_validate(body)
    assert (
        expected_stage(spec, load_points(spec)[0]).load.mean_think_seconds
        == expected
    )


# ---- the client's queue
# ---------------------------------------------------------------------------------------------

CAPPED = open_loop_load(rate=10.0, concurrency=4)


# A load that follows a trace: an open loop without a rate, which nobody expects to stand.

SECOND_TRACES = 1_000_000
TRACE = trace()


def replayed(due_seconds: list[float], late_seconds: list[float]) -> StageRecord:
    """Requests due at these instants, each sent so much later."""
    count = len(due_seconds)
    columns = {
        "start_us": [
            round((due + late) * SECOND_TRACES)
            for due, late in zip(due_seconds, late_seconds, strict=True)
        ],
        "queue_us": [round(late * SECOND_TRACES) for late in late_seconds],
        "ttft_us": [1000] * count,
        "e2el_us": [2000] * count,
        "output_tokens": [2] * count,
    }
    return record(requests=requests(**columns))


def test_a_replayed_trace_is_neither_a_rate_nor_users_nor_all_at_once() -> None:
    body = spec_body(
        workloads=[
            workload("chat")
            | {
                "dataset": {"timedTrace": {"file": {"path": "/trace.jsonl"}}},
                "load": {"traceSpeeds": ["1", "2.0"]},
            }
        ]
    )
    spec = BenchmarkRunSpec.model_validate(body)
    found: tuple[LoadPoint, ...] = load_points(spec)
    assert [
        (load_point.id, load_point.load.axis, load_point.load.value)
        for load_point in found
    ] == [
        ("chat/speed=1", "TraceSpeed", "1"),
        ("chat/speed=2", "TraceSpeed", "2"),
    ]
    load = expected_stage(spec, found[1]).load
    assert (load.rate, load.cap, load.closed_loop, load.capped) == (
        None,
        None,
        False,
        False,
    )
    assert load.follows_trace
    assert not load.all_at_once
    assert load.has_due_instants


def test_a_trace_is_not_expected_to_stand() -> None:
    stage = replayed([n * n / 100 for n in range(100)], [0.0] * 100)
    assert StageFacts(stage, TRACE).plateau is NoPlateau.FOLLOWS_TRACE
    assert list(not_steady_state(context(load=TRACE)(stage))) == []
    assert list(all_at_once(context(load=TRACE)(stage))) == []
