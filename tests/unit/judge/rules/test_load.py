"""The load that was asked for: its rate, its users, and what a cap or the lack of one does to
latencies."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, LoadPoint, Severity
from benchrun.judge.rules.client import client_saturated
from benchrun.judge.rules.load import (
    all_at_once,
    concurrency_not_reached,
    queue_wait_hidden,
    rate_not_achieved,
    share_of_round,
)
from benchrun.judge.rules.rule import Code
from benchrun.judge.rules.steady_state import not_steady_state
from benchrun.judge.stage_facts import ExpectedStage, StageFacts, expected_stage
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import NoPlateau, Plateau
from benchrun.plan import load_points
from benchrun_client.contract import StageRecord
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.specs import workload
from unit.judge.stages import (
    context,
    findings,
    one_finding,
    open_loop_load,
    trace,
    unchecked,
    users,
)
from unit.measure.records import record, requests
from unit.plan.specs import spec_body

SECOND = 1_000_000


def spread(count: int, seconds: float, **changes: Any) -> StageRecord:
    """Requests evenly sent over so long."""
    starts = [round(i * seconds * SECOND / (count - 1)) for i in range(count)]
    columns = {
        "ttft_us": [1000] * count,
        "e2el_us": [2000] * count,
        "output_tokens": [2] * count,
        "start_us": starts,
    }
    return record(requests=requests(**(columns | changes)))


# ---- rate
# -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "count", "seconds"),
    [
        pytest.param(None, 100, 99.0, id="as asked, by the gaps between"),
        pytest.param(None, 100, 100.0, id="as asked, by the whole time"),
        pytest.param(None, 97, 100.0, id="97 % is good enough"),
        pytest.param("Suspect", 97, 100.1, id="just below"),
        pytest.param("Suspect", 90, 100.0, id="90 % is still suspect"),
        pytest.param("Invalid", 90, 100.1, id="below 90 %"),
        pytest.param("Invalid", 2, 100.0, id="hardly any"),
        pytest.param(None, 100, 50.0, id="more than asked is no delay"),
        pytest.param(None, 2, 0.0, id="both at once"),
    ],
)
def test_sent_rate(severity: Severity | None, count: int, seconds: float) -> None:
    found = findings(
        rate_not_achieved(
            context(load=open_loop_load(rate=1.0))(spread(count, seconds))
        )
    )
    assert [(f.code, f.severity) for f in found] == (
        [(Code.RATE_NOT_ACHIEVED, severity)] if severity else []
    )


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(
            open_loop_load(rate=1.0, concurrency=4), id="a cap holds back"
        ),
        pytest.param(users(4), id="users"),
        pytest.param(open_loop_load(rate=None), id="all at once"),
    ],
)
def test_only_an_uncapped_rate_can_be_missed(load: ExpectedStage) -> None:
    assert rate_not_achieved(context(load=load)(spread(10, 1000.0))) == []


def test_one_request_has_no_rate() -> None:
    single = record(requests=requests(ttft_us=[1], e2el_us=[2], output_tokens=[2]))
    (missed,) = unchecked(rate_not_achieved(context()(single)))
    assert missed.code is Code.RATE_NOT_ACHIEVED


@pytest.mark.parametrize("count", [2, 3, 5, 20, 34])
def test_gaps_that_fall_badly_are_no_delay(count: int) -> None:
    """The first of few random gaps may be most of them all, or next to nothing."""
    for seed in range(200):
        stage = open_loop(
            Server(decode_seconds=0.1), rate=2.0, count=count, seed=seed
        )
        assert rate_not_achieved(stage) == []


def test_evidence_of_a_missed_rate() -> None:
    assert rate_not_achieved(
        context(load=open_loop_load(rate=1.0))(spread(80, 100.0))
    ) == one_finding(
        Code.RATE_NOT_ACHIEVED,
        "Invalid",
        20.0,
        requests=80,
        askedRate=1.0,
        sentRate=0.8,
        sentPercent=80.0,
        sendingSeconds=100.0,
        suspectPercent=97.0,
        invalidPercent=90.0,
    )


# ---- users
# ----------------------------------------------------------------------------------------------------------


def taking_turns(at_a_time: int, rounds: int, *, pause_us: int = 0) -> StageRecord:
    """So many requests together for a second, then, after a pause, as many more."""
    starts = [
        turn * (SECOND + pause_us)
        for turn in range(rounds)
        for _ in range(at_a_time)
    ]
    count = len(starts)
    columns = requests(
        ttft_us=[1000] * count,
        e2el_us=[SECOND] * count,
        output_tokens=[2] * count,
        start_us=starts,
    )
    return record(requests=columns)


@pytest.mark.parametrize(
    ("percent", "stage"),
    [
        pytest.param(None, taking_turns(20, 10), id="all users all the time"),
        pytest.param(None, taking_turns(19, 10), id="95 % is good enough"),
        pytest.param(90.0, taking_turns(18, 10), id="two users missing"),
        pytest.param(
            None,
            taking_turns(20, 10, pause_us=52_000),
            id="pauses of 5 % less a little",
        ),
        pytest.param(
            94.967,
            taking_turns(20, 10, pause_us=53_000),
            id="pauses of 5 % and a little",
        ),
        pytest.param(None, taking_turns(20, 1), id="a single wave"),
        pytest.param(40.0, taking_turns(8, 1), id="fewer requests than users"),
    ],
)
def test_users(percent: float | None, stage: StageRecord) -> None:
    found = findings(concurrency_not_reached(context(load=users(20))(stage)))
    assert [(f.severity, f.evidence["reachedPercent"]) for f in found] == (
        [("Suspect", percent)] if percent else []
    )


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(open_loop_load(rate=4.0, concurrency=99)),
        pytest.param(open_loop_load(rate=None)),
    ],
)
def test_only_a_closed_loop_has_users(load: ExpectedStage) -> None:
    assert concurrency_not_reached(context(load=load)(taking_turns(2, 9))) == []


@pytest.mark.parametrize(
    ("known", "ok"),
    [
        pytest.param(True, [1] * 99 + [0], id="1 % failed"),
        pytest.param(
            False, [1] * 98 + [0, 0], id="2 % failed, who knows for how long"
        ),
    ],
)
def test_failed_requests_hide_how_many_were_under_way(
    known: bool, ok: list[int]
) -> None:
    stage = spread(100, 10.0, ok=ok)
    found = concurrency_not_reached(
        context(Thresholds(max_failed_percent=1.0), load=users(50))(stage)
    )
    assert (len(findings(found)), len(unchecked(found))) == (
        (1, 0) if known else (0, 1)
    )


def test_nothing_is_reported_of_users_whom_nobody_answered() -> None:
    assert (
        concurrency_not_reached(
            context(load=users(50))(spread(9, 10.0, ok=[0] * 9))
        )
        == []
    )


def test_a_slow_ramp_and_the_drain_do_not_count() -> None:
    assert (
        concurrency_not_reached(
            closed_loop(Server(), concurrency=16, count=200, seed=3)
        )
        == []
    )


def test_evidence_of_missing_users() -> None:
    assert concurrency_not_reached(
        context(load=users(20))(taking_turns(18, 10))
    ) == one_finding(
        Code.CONCURRENCY_NOT_REACHED,
        "Suspect",
        10.0,
        users=20,
        meanInFlight=18.0,
        reachedPercent=90.0,
        requests=180,
        suspectPercent=95.0,
    )


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


def test_answers_that_took_no_time_are_no_error() -> None:
    nothing = record(
        requests=requests(
            ttft_us=[0] * 30, e2el_us=[0] * 30, output_tokens=[2] * 30
        )
    )
    facts = context(load=users(4, think_seconds=3.0))(nothing)
    assert [f.code for f in findings(concurrency_not_reached(facts))] == [
        Code.CONCURRENCY_NOT_REACHED
    ]


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


@pytest.mark.parametrize(
    ("found", "queue_us", "e2el_us"),
    [
        pytest.param(False, [0] * 100, 50_000, id="no wait"),
        pytest.param(False, [5_000] * 100, 50_000, id="5 ms is a late wake-up"),
        pytest.param(
            True, [5_001] * 100, 50_000, id="more than 5 ms and 1 % of 50 ms"
        ),
        pytest.param(False, [10_000] * 100, 1_000_000, id="1 % of a second"),
        pytest.param(
            True, [10_001] * 100, 1_000_000, id="more than 1 % of a second"
        ),
        pytest.param(
            False,
            [0] * 990 + [9_000_000] * 10,
            10_000_000,
            id="nine of the ten slowest seconds: p99 is 0",
        ),
        pytest.param(
            True, [0] * 980 + [9_000_000] * 20, 10_000_000, id="2 % wait: p99 shows"
        ),
    ],
)
def test_queue_wait(found: bool, queue_us: list[int], e2el_us: int) -> None:
    count = len(queue_us)
    stage = spread(count, 10.0, queue_us=queue_us, e2el_us=[e2el_us] * count)
    assert [
        f.severity for f in findings(queue_wait_hidden(context(load=CAPPED)(stage)))
    ] == ["Note"] * found


@pytest.mark.parametrize(
    "load",
    [
        pytest.param(open_loop_load(rate=10.0), id="no cap"),
        pytest.param(users(4), id="no rate"),
    ],
)
def test_only_a_capped_rate_hides_waits(load: ExpectedStage) -> None:
    assert (
        queue_wait_hidden(
            context(load=load)(spread(9, 10.0, queue_us=[SECOND] * 9))
        )
        == []
    )


def test_evidence_of_hidden_waits() -> None:
    stage = spread(4, 10.0, queue_us=[0, 0, 20_000, 20_000], e2el_us=[50_000] * 4)
    assert queue_wait_hidden(context(load=CAPPED)(stage)) == one_finding(
        Code.QUEUE_WAIT_HIDDEN,
        "Note",
        20.0,
        meanQueueWaitMs=10.0,
        p99QueueWaitMs=20.0,
        meanE2elMs=50.0,
        meanE2elWithQueueMs=60.0,
        maxConcurrency=4,
        askedRate=10.0,
        lineMs=5.0,
        noteMs=5.0,
        notePercent=1.0,
    )


def test_nothing_answered_hides_nothing() -> None:
    stage = spread(2, 10.0, queue_us=[SECOND, SECOND], ok=[0, 0])
    assert queue_wait_hidden(context(load=CAPPED)(stage)) == []


# ---- all at once
# ----------------------------------------------------------------------------------------------------


def test_all_at_once_is_noted_with_its_ttft() -> None:
    stage = spread(2, 0.0, ttft_us=[1_000, 3_000], e2el_us=[9_000, 9_000])
    assert all_at_once(
        context(load=open_loop_load(rate=None))(stage)
    ) == one_finding(Code.ALL_AT_ONCE, "Note", 0.0, requests=2, meanTtftMs=2.0)


@pytest.mark.parametrize(
    "load",
    [open_loop_load(rate=4.0), users(8), CAPPED],
    ids=["rate", "users", "both"],
)
def test_other_loads_are_not(load: ExpectedStage) -> None:
    assert all_at_once(context(load=load)(spread(2, 0.0))) == []


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


@pytest.mark.parametrize(
    ("severity", "late_seconds"),
    [
        pytest.param(None, [0.0] * 100, id="on time"),
        pytest.param(None, [5.0] * 100, id="all of it late by the same"),
        pytest.param(None, [n * 0.03 for n in range(100)], id="drawn out by 3 %"),
        pytest.param(
            "Suspect", [n * 0.04 for n in range(100)], id="drawn out by 4 %"
        ),
        pytest.param(
            "Invalid", [n * 0.12 for n in range(100)], id="drawn out by 12 %"
        ),
    ],
)
def test_a_trace_takes_as_long_to_send_as_it_says(
    severity: Severity | None, late_seconds: list[float]
) -> None:
    found = findings(
        rate_not_achieved(
            context(load=TRACE)(
                replayed([float(n) for n in range(100)], late_seconds)
            )
        )
    )
    assert [f.severity for f in found] == ([severity] if severity else [])


def test_a_trace_of_one_instant_has_no_pace() -> None:
    assert (
        findings(
            rate_not_achieved(context(load=TRACE)(replayed([0.0] * 9, [0.0] * 9)))
        )
        == []
    )


def test_a_trace_is_not_expected_to_stand() -> None:
    stage = replayed([n * n / 100 for n in range(100)], [0.0] * 100)
    assert StageFacts(stage, TRACE).plateau is NoPlateau.FOLLOWS_TRACE
    assert list(not_steady_state(context(load=TRACE)(stage))) == []
    assert list(all_at_once(context(load=TRACE)(stage))) == []


def test_a_client_that_sends_late_is_reported() -> None:
    late = replayed([float(n) for n in range(100)], [0.5] * 100)
    (found,) = findings(client_saturated(context(load=TRACE)(late)))
    assert found.evidence["sendLagP99Ms"] == 500
    on_time = replayed([float(n) for n in range(100)], [0.0] * 100)
    assert findings(client_saturated(context(load=TRACE)(on_time))) == []
    assert unchecked(rate_not_achieved(context(load=TRACE)(replayed([0.0], [0.0]))))
