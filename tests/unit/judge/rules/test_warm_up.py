"""Cold servers, simulated, and batches that no stage before has warmed up."""

from random import Random

import pytest
from benchrun.judge.rules.rule import (
    Code,
    LoadPointContext,
    RunContext,
    StageFacts,
    StageFinding,
)
from benchrun.judge.rules.warm_up import batch_not_warmed_up, cold_start
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import Window
from benchrun_client.contract import WarmupOutcome
from unit.judge.queues import Server, closed_loop, open_loop
from unit.judge.stages import OPEN_LOOP, context, findings
from unit.measure.records import edge, load_point, record, sample


def is_cold(measured: StageFacts) -> bool:
    return [f.code for f in findings(cold_start(measured))] == [Code.COLD_START]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("seconds", [0.5, 3.0])
def test_a_cold_server_is_found_under_any_load(seconds: float, seed: int) -> None:
    """It holds up each of its first eight requests."""
    cold = Server(held_up=lambda number: seconds if number < 8 else 0.0)
    for measured in (
        open_loop(cold, rate=10, count=200, seed=seed),
        closed_loop(cold, concurrency=1, count=100, seed=seed),
        closed_loop(cold, concurrency=8, count=100, seed=seed),
    ):
        assert is_cold(measured)


@pytest.mark.parametrize("lengths_vary", [False, True])
@pytest.mark.parametrize("concurrency", [2, 4, 16, 64])
@pytest.mark.parametrize("prefill_seconds", [0.01, 0.2])
def test_a_first_wave_that_waits_for_its_own_prefills_is_not_cold(
    prefill_seconds: float, concurrency: int, lengths_vary: bool
) -> None:
    server = Server(
        prefill_seconds=prefill_seconds,
        decode_seconds=4.0,
        lengths_vary=lengths_vary,
    )
    for seed in range(10):
        measured = closed_loop(
            server, concurrency=concurrency, count=10 * concurrency, seed=seed
        )
        assert not is_cold(measured)


# Stages that ran more requests at once than the warm-up did: batches that nothing was compiled for.

POD = "chat-0"


def found(
    *running: float, warmed_up: int = 8, requests: int = 16
) -> list[StageFinding]:
    """What is found of stages in order of time, each a load point of its own with so many running at
    most; the first has the warm-up."""
    load_points = {}
    for place, most in enumerate(running):
        planned = load_point(value=str(place + 1))
        outcome = WarmupOutcome(
            requests=requests,
            concurrency=warmed_up,
            answered=16,
            failed=0,
            took_us=1,
        )
        measured = record(
            planned.stage_ids[0], sequence=place, warmup=None if place else outcome
        )
        samples = tuple(
            sample(1001.0 + n, pod=POD, running=each)
            for n, each in enumerate((1.0, most, most / 2))
        )
        profile = context(
            windows=(Window("server", samples, (edge(),), expected=3.0),)
        )(measured)
        load_points[planned.id] = LoadPointContext(
            planned, Thresholds(), OPEN_LOOP, ("50",), (profile,)
        ).summary()
    # Load points are listed as planned, and measured in another order.
    return findings(
        batch_not_warmed_up(
            RunContext(Thresholds(), dict(reversed(load_points.items())))
        )
    )


def test_the_first_stage_that_goes_beyond_is_named_and_later_ones_find_a_warm_engine() -> (
    None
):
    (finding,) = found(8, 100, 120, 100)
    assert (finding.code, finding.severity, finding.stage_id) == (
        Code.WARMUP_INCOMPLETE,
        "Note",
        "chat/rate=2",
    )
    assert (finding.evidence["running"], finding.evidence["warmedUp"]) == (
        100.0,
        8.0,
    )


@pytest.mark.parametrize("mean", [8, 32, 256])
def test_bursts_of_a_rate_that_the_warm_up_was_made_for_are_none(mean: int) -> None:
    """The most of 300 samples in each of 200 stages, with as many in flight on average as the
    warm-up had."""
    chance = Random(mean)
    most = [
        max(round(chance.gauss(mean, mean**0.5)) for _ in range(300))
        for _ in range(200)
    ]
    assert (
        sum(bool(found(each, warmed_up=mean, requests=2 * mean)) for each in most)
        <= 2
    )
