"""Loads that should stand: queues that grow, latencies that creep, and those that only waver."""

import random
from collections import deque
from collections.abc import Callable
from itertools import accumulate

import pytest
from benchrun.judge.rules.rule import Code, StageFacts
from benchrun.judge.rules.steady_state import (
    BEYOND_CAPACITY,
    not_steady_state,
    window_too_short,
)
from benchrun.judge.stage_facts import ExpectedStage
from benchrun_client.contract import GapCounts, StageRecord
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import (
    context,
    findings,
    one_finding,
    only,
    open_loop_load,
    unchecked,
    users,
)
from unit.measure.records import STAGE, record, requests

SECOND = 1_000_000
SEEDS = range(4)


def causes(stage: StageFacts) -> list[object]:
    return [f.evidence["cause"] for f in findings(not_steady_state(stage))]


# ---- beyond capacity
# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("slots", "times", "count"),
    [
        (8, 1.3, 1500),
        (8, 1.5, 200),
        (8, 2.0, 200),
        (8, 4.0, 200),
        (64, 1.3, 1500),
        (64, 1.5, 600),
        (64, 4.0, 400),
    ],
)
def test_arrivals_beyond_capacity_are_named(
    slots: int, times: float, count: int, seed: int
) -> None:
    server = Server(slots=slots, prefill_seconds=0.005)
    assert causes(
        open_loop(server, rate=times * server.capacity, count=count, seed=seed)
    ) == [BEYOND_CAPACITY]


def test_the_evidence_has_both_rates() -> None:
    server = Server(slots=10, prefill_seconds=0.005, decode_seconds=0.995)
    evidence = only(
        not_steady_state(open_loop(server, rate=13.0, count=900, seed=1))
    ).evidence
    assert (evidence["figure"], evidence["cause"]) == (
        "requestsInSystem",
        BEYOND_CAPACITY,
    )
    assert evidence["arrivalsPerSecond"] == pytest.approx(13.0, rel=0.1)
    assert evidence["completionsPerSecond"] == pytest.approx(10.0, rel=0.1)
    assert evidence["completedPercent"] == pytest.approx(77.0, rel=0.1)
    assert evidence["capacityPercent"] == 97.0


def test_both_rates_are_reported_where_answers_outlast_the_sending() -> None:
    server = Server(slots=10, prefill_seconds=0.005, decode_seconds=0.995)
    evidence = only(
        not_steady_state(open_loop(server, rate=40.0, count=400, seed=1))
    ).evidence
    assert (evidence["figure"], evidence["cause"]) == (
        "queueWaitAndTtft",
        BEYOND_CAPACITY,
    )
    assert evidence["suspectPercent"] == 100.0
    assert evidence["arrivalsPerSecond"] == pytest.approx(40.0, rel=0.1)
    assert evidence["completionsPerSecond"] == pytest.approx(10.0, rel=0.1)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("times", [1.2, 1.5, 4.0])
def test_a_queue_in_the_client_grows_as_well(times: float, seed: int) -> None:
    """Beyond capacity under a cap: the server's load stands, the requests held back pile up."""
    served = closed_loop(
        Server(slots=8, prefill_seconds=0.005), concurrency=8, count=600, seed=seed
    ).record
    due = [round(start / times) for start in served.requests.start_us]
    waits = tuple(
        start - when
        for start, when in zip(served.requests.start_us, due, strict=True)
    )
    held_back = served.model_copy(
        update={"requests": served.requests.model_copy(update={"queue_us": waits})}
    )
    rate = len(due) / (max(due) / SECOND)
    assert causes(
        context(load=open_loop_load(rate=rate, concurrency=8))(held_back)
    ) == [BEYOND_CAPACITY]


# ---- latencies that creep
# -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("cause", "slower"),
    [
        pytest.param(
            "latencies rise",
            lambda second, number: 1 + number / 400,
            id="twice as slow at the end",
        ),
        pytest.param(
            "latencies fall",
            lambda second, number: 2 - number / 400,
            id="twice as slow at the start",
        ),
    ],
)
def test_latencies_of_a_closed_loop(
    cause: str, slower: Callable[[float, int], float], seed: int
) -> None:
    assert causes(
        closed_loop(Server(slower=slower), concurrency=8, count=400, seed=seed)
    ) == [cause]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_server_that_slows_down_below_its_capacity(seed: int) -> None:
    slowing = Server(
        slots=512,
        prefill_seconds=0.001,
        slower=lambda second, number: 1 + second / 50,
    )
    assert causes(open_loop(slowing, rate=40, count=4000, seed=seed)) == [
        "latencies rise"
    ]


@pytest.mark.parametrize("concurrency", [None, 4])
@pytest.mark.parametrize(
    ("found", "percent"),
    [(False, 0), (False, 6), (True, 16), (True, 60), (True, -16)],
)
def test_tokens_that_take_longer_and_longer(
    found: bool, percent: float, concurrency: int | None
) -> None:
    """Far below capacity neither the requests in the system nor, beside a long TTFT, the E2EL shows
    it."""

    def slower(second: float, number: int) -> float:
        return 1 + percent / 100 * (number / 400 - 0.5)

    server = Server(
        slots=512, prefill_seconds=0.05, decode_seconds=0.2, slower=slower
    )
    stage = (
        closed_loop(server, concurrency=concurrency, count=400, seed=1)
        if concurrency
        else open_loop(server, rate=10, count=400, seed=1)
    )
    figures = [f.evidence["figure"] for f in findings(not_steady_state(stage))]
    assert figures == (
        ["e2el" if concurrency and percent > 25 else "tpot"] if found else []
    )


def slowing(percent_per_second: float, *, seed: int) -> StageFacts:
    """15 requests a second of 24 tokens for 12 s. A token takes 10 ms and 0.2 for each request that
    is decoded, and more each second."""
    chance = random.Random(seed)
    rate = 15.0
    tokens = 24
    tick = 0.002
    sends = list(accumulate(chance.expovariate(rate) for _ in range(180)))
    now = 0.0
    running = dict[float, float]()
    rows = []
    waiting = deque(sends)
    while waiting or running:
        now += tick
        step = (0.010 + 0.0002 * len(running)) * (
            1 + percent_per_second / 100 * now
        )
        running = {first: left - tick / step for first, left in running.items()}
        rows += [
            (first - 0.1, now - first + 0.1)
            for first, left in running.items()
            if left <= 0
        ]
        running = {first: left for first, left in running.items() if left > 0}
        while waiting and waiting[0] + 0.1 <= now:
            running[waiting.popleft() + 0.1] = tokens - 1.0
    rows.sort()
    columns = requests(
        ttft_us=[100_000] * len(rows),
        e2el_us=[round(1e6 * e2el) for _, e2el in rows],
        output_tokens=[tokens] * len(rows),
        start_us=[round(1e6 * (sent - rows[0][0])) for sent, _ in rows],
    )
    return StageFacts(
        record(requests=columns, scalars={"duration": now}),
        open_loop_load(rate=rate),
    )


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("found", "percent_per_second"),
    [(False, 0), (True, 1.5), (True, 5), (True, 12)],
)
def test_waves_of_the_load_do_not_hide_a_server_that_slows(
    found: bool, percent_per_second: float, seed: int
) -> None:
    figures = [
        f.evidence["figure"]
        for f in findings(not_steady_state(slowing(percent_per_second, seed=seed)))
    ]
    assert bool(figures) == found
    assert set(figures) <= {"tpot", "requestsInSystem"}


def creeping(percent: float, *, noise: int = 0) -> StageRecord:
    """Two users whose answers, of one token, take longer by so much from the begin to the end, in a
    straight line."""
    starts = []
    e2el = []
    for i in range(400):
        starts.append(i * SECOND)
        e2el.append(
            round(2 * SECOND * (1 + percent / 100 * (i / 400 - 0.5)))
            + noise * (i * 7919 % 1000)
        )
    return record(
        requests=requests(
            ttft_us=[1000] * 400,
            e2el_us=e2el,
            output_tokens=[1] * 400,
            start_us=starts,
        ),
        scalars={"duration": 402.0},
    )


@pytest.mark.parametrize(
    ("found", "percent"),
    [
        pytest.param(False, 0.0, id="level"),
        pytest.param(False, 24.9, id="below a quarter"),
        pytest.param(True, 25.5, id="above a quarter"),
        pytest.param(True, -27.0, id="downward"),
    ],
)
def test_change_over_the_plateau(found: bool, percent: float) -> None:
    assert (
        len(findings(not_steady_state(context(load=users(2))(creeping(percent)))))
        == found
    )


def test_a_change_that_noise_makes_is_none() -> None:
    """A third upward, among latencies that differ by more than their mean."""
    assert (
        findings(
            not_steady_state(context(load=users(2))(creeping(33.0, noise=6000)))
        )
        == []
    )
    assert (
        len(
            findings(
                not_steady_state(context(load=users(2))(creeping(33.0, noise=60)))
            )
        )
        == 1
    )


def test_evidence_of_a_trend() -> None:
    finding = only(not_steady_state(context(load=users(2))(creeping(50.0))))
    assert (finding.code, finding.severity, finding.stage_id) == (
        Code.NOT_STEADY_STATE,
        "Suspect",
        STAGE,
    )
    assert {key: finding.evidence[key] for key in ("cause", "figure")} == {
        "cause": "latencies rise",
        "figure": "e2el",
    }
    assert finding.evidence["changePercent"] == pytest.approx(50.0, abs=1)
    assert (
        finding.evidence["suspectPercent"],
        finding.evidence["suspectChance"],
    ) == (25.0, 0.0002)
    assert isinstance(finding.evidence["chance"], float)
    assert finding.evidence["chance"] < 1e-4


# ---- nothing to say
# -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("concurrency", [None, 8])
def test_too_few_requests_tell_no_trend(concurrency: int | None) -> None:
    load = users(concurrency) if concurrency else open_loop_load()
    (missed,) = unchecked(not_steady_state(context(load=load)(record())))
    assert missed.code is Code.NOT_STEADY_STATE


def test_sending_as_long_as_an_answer_tells_no_trend() -> None:
    stage = open_loop(
        Server(slots=512, prefill_seconds=0.001), rate=200, count=200, seed=1
    )
    (missed,) = unchecked(not_steady_state(stage))
    assert missed.why == "answers took about as long as the sending"


def test_a_load_sent_all_at_once_never_stands() -> None:
    assert (
        not_steady_state(context(load=open_loop_load(rate=None))(creeping(50.0)))
        == []
    )


def test_nothing_answered_has_no_trend() -> None:
    assert not_steady_state(context()(record(requests=requests(ok=(0, 0))))) == []


def stage(
    count: int, seconds: float, *, e2el_seconds: float = 0.001, ok: int = 1
) -> StageRecord:
    e2el = [round(1e6 * e2el_seconds)] * count
    columns = requests(
        start_us=[
            round(i * (seconds - e2el_seconds) * SECOND / count)
            for i in range(count)
        ],
        ttft_us=[500] * count,
        e2el_us=e2el,
        output_tokens=[2] * count,
        ok=[ok] * count,
    )
    return record(requests=columns, scalars={"duration": seconds})


@pytest.mark.parametrize(
    ("short", "load", "measured"),
    [
        pytest.param(
            False, users(8), stage(80, 10.0), id="ten requests a user, ten seconds"
        ),
        pytest.param(True, users(8), stage(79, 10.0), id="one request less"),
        pytest.param(True, users(8), stage(80, 9.99), id="a little shorter"),
        pytest.param(
            False,
            users(8),
            stage(80, 150.0, e2el_seconds=12.0),
            id="rounds of 12 s: ten",
        ),
        pytest.param(
            True,
            users(8),
            stage(79, 150.0, e2el_seconds=12.0),
            id="and one request less",
        ),
        pytest.param(
            True,
            users(8),
            stage(40, 150.0, e2el_seconds=24.0),
            id="five rounds: none is steady",
        ),
        pytest.param(
            True,
            users(8),
            stage(39, 150.0, e2el_seconds=24.0),
            id="and one request less than these",
        ),
        pytest.param(
            True,
            users(200),
            stage(600, 900.0, e2el_seconds=300.0),
            id="three rounds: none is steady",
        ),
        pytest.param(
            True,
            users(200),
            stage(599, 900.0, e2el_seconds=300.0),
            id="never fewer than three",
        ),
        pytest.param(
            False,
            users(8, think_seconds=1.0),
            stage(40, 10.0, e2el_seconds=1.0),
            id="users that think half of the time: four under way",
        ),
        pytest.param(
            True,
            users(8, think_seconds=1.0),
            stage(39, 10.0, e2el_seconds=1.0),
            id="and one request less than ten for each of these",
        ),
        pytest.param(
            False,
            users(8, think_seconds=9.0),
            stage(24, 30.0, e2el_seconds=1.0),
            id="users that hardly do anything else: three a user",
        ),
        pytest.param(
            True,
            users(8, think_seconds=9.0),
            stage(23, 30.0, e2el_seconds=1.0),
            id="and one request less than three a user",
        ),
        pytest.param(
            False,
            open_loop_load(rate=4.0),
            stage(60, 15.0, e2el_seconds=1.0),
            id="a rate: four under way",
        ),
        pytest.param(
            True,
            open_loop_load(rate=4.0),
            stage(60, 15.0, e2el_seconds=1.1),
            id="a rate: answers that are longer for the sending",
        ),
        pytest.param(
            False,
            open_loop_load(rate=4.0, concurrency=999),
            stage(60, 15.0, e2el_seconds=1.0),
            id="a cap never met",
        ),
        pytest.param(
            False,
            open_loop_load(rate=None),
            stage(40, 10.0, e2el_seconds=10.0),
            id="all at once",
        ),
        pytest.param(
            True,
            open_loop_load(rate=None),
            stage(40, 9.9),
            id="all at once, and too short",
        ),
        pytest.param(
            False,
            users(8),
            stage(8, 1.0, ok=0),
            id="none answered: another rule's matter",
        ),
    ],
)
def test_length(short: bool, load: ExpectedStage, measured: StageRecord) -> None:
    found = findings(window_too_short(context(load=load)(measured)))
    assert [(f.code, f.severity) for f in found] == [
        (Code.WINDOW_TOO_SHORT, "Suspect")
    ] * short


def test_evidence_of_a_short_stage() -> None:
    assert window_too_short(context(load=users(16))(stage(40, 8.0))) == one_finding(
        Code.WINDOW_TOO_SHORT,
        "Suspect",
        0.75,
        requests=40,
        concurrency=16.0,
        neededRequests=160.0,
        seconds=8.0,
        neededSeconds=10.0,
        meanE2elSeconds=0.001,
    )


# ---- a server that stood still
# --------------------------------------------------------------------------------------


def stood_still(
    seconds: float, *, times: int = 1, usual_us: int = 10_000
) -> StageFacts:
    """180 requests of 24 tokens, 15 a second with a TTFT of 113 ms, where no token left for so long
    from second 4 on."""
    starts = [round(i * SECOND / 15) for i in range(180)]
    waits = [
        max(0, round((4 + seconds) * SECOND) - at) if at >= 4 * SECOND else 0
        for at in starts
    ]
    ttft = [113_000 + wait for wait in waits]
    columns = requests(
        start_us=starts,
        ttft_us=ttft,
        e2el_us=[each + 23 * usual_us for each in ttft],
        output_tokens=[24] * 180,
    )
    pauses = 4 * times
    us = (usual_us, usual_us + round(seconds * SECOND))
    count = (180 * 23 - pauses, pauses)
    gaps = (
        GapCounts(us=us, count=count)
        if seconds
        else GapCounts(us=us[:1], count=(180 * 23,))
    )
    return context(load=open_loop_load(rate=15))(
        record(requests=columns, gaps=gaps, scalars={"duration": 12.3})
    )


def test_a_server_that_stood_still_is_named_with_what_it_does_to_the_mean() -> None:
    evidence = only(not_steady_state(stood_still(0.4))).evidence
    assert evidence == {
        "cause": "standstill",
        "stoodStillMs": 410.0,
        "streams": 4,
        "usualMs": 10.0,
        "laterTtftPercent": pytest.approx(5.7, abs=0.3),
        "suspectTtftPercent": 3.0,
    }


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(stood_still(0.0), id="never"),
        pytest.param(stood_still(0.15), id="too short to matter"),
        pytest.param(
            stood_still(0.4, times=20), id="again and again: its ordinary work"
        ),
        pytest.param(stood_still(0.3, usual_us=40_000), id="gaps are long, too"),
    ],
)
def test_pauses_that_are_ordinary_or_short_are_none(stage: StageFacts) -> None:
    assert findings(not_steady_state(stage)) == []


def test_a_client_without_any_ttft_is_no_standstill_and_no_error() -> None:
    stage = stood_still(0.4)
    columns = stage.record.requests.model_copy(update={"ttft_us": (0,) * 180})
    hostile = stage.record.model_copy(update={"requests": columns})
    assert (
        findings(not_steady_state(context(load=open_loop_load(rate=15))(hostile)))
        == []
    )
