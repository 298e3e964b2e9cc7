"""Stages that ran more requests at once than the warm-up did: batches that nothing was compiled for."""

from random import Random

import pytest
from benchrun.judge.rules.rule import CellContext, Code, RunContext, StageFinding
from benchrun.judge.rules.warm_up import batch_not_warmed_up
from benchrun.judge.thresholds import Thresholds
from benchrun.measure import Window
from benchrun_client.contract import WarmupOutcome
from unit.judge.stages import OPEN_LOOP, context, findings
from unit.measure.records import cell, edge, record, sample

POD = "chat-0"


def found(*running: float, warmed_up: int | None = 8, requests: int = 16) -> list[StageFinding]:
    """What is found of stages in order of time, each a cell of its own with so many running at most; the first has the warm-up."""
    cells = {}
    for place, most in enumerate(running):
        planned = cell(value=str(place + 1))
        outcome = WarmupOutcome(requests=requests, concurrency=warmed_up, answered=16, failed=0, took_us=1)
        measured = record(planned.stage_ids[0], sequence=place, warmup=None if place else outcome)
        samples = tuple(sample(1001.0 + n, pod=POD, running=each) for n, each in enumerate((1.0, most, most / 2)))
        profile = context(windows=(Window("server", samples, (edge(),), expected=3.0),))(measured)
        cells[planned.id] = CellContext(planned, Thresholds(), OPEN_LOOP, ("50",), (profile,)).summary()
    # Cells are listed as planned, and measured in another order.
    return findings(batch_not_warmed_up(RunContext(Thresholds(), dict(reversed(cells.items())))))


@pytest.mark.parametrize(
    ("warmed_up", "most", "is_beyond"), [(8, 19, False), (8, 20, True), (64, 128, False), (64, 129, True)]
)
def test_twice_the_warm_up_and_more_than_a_burst(warmed_up: int, most: int, is_beyond: bool) -> None:
    assert bool(found(most, warmed_up=warmed_up, requests=2 * warmed_up)) == is_beyond


def test_the_first_stage_that_goes_beyond_is_named_and_later_ones_find_a_warm_engine() -> None:
    (finding,) = found(8, 100, 120, 100)
    assert (finding.code, finding.severity, finding.stage_id) == (Code.WARMUP_INCOMPLETE, "Note", "chat/rate=2")
    assert (finding.evidence["running"], finding.evidence["warmedUp"]) == (100.0, 8.0)


def test_a_warm_up_of_fewer_requests_is_no_larger_than_these() -> None:
    assert len(found(100, warmed_up=64, requests=8)) == 1


@pytest.mark.parametrize("warmed_up", [None, 0])
def test_an_unknown_warm_up_says_nothing(warmed_up: int | None) -> None:
    assert found(100, warmed_up=warmed_up) == []


@pytest.mark.parametrize("mean", [8, 32, 256])
def test_bursts_of_a_rate_that_the_warm_up_was_made_for_are_none(mean: int) -> None:
    """The most of 300 samples in each of 200 stages, with as many in flight on average as the warm-up had."""
    chance = Random(mean)
    most = [max(round(chance.gauss(mean, mean**0.5)) for _ in range(300)) for _ in range(200)]
    assert sum(bool(found(each, warmed_up=mean, requests=2 * mean)) for each in most) <= 2
