"""Loads that should stand: queues that grow, latencies that creep, and those that only waver. Each
needs a simulated server that changes over time, or times that are worked out."""

import random
from collections import deque
from collections.abc import Callable
from itertools import accumulate

import pytest
from benchrun.judge.rules.rule import StageFacts
from benchrun.judge.rules.steady_state import BEYOND_CAPACITY, not_steady_state
from benchrun_client.contract import GapCounts, StageRecord
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import context, findings, only, open_loop_load, users
from unit.measure.records import record, requests

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
