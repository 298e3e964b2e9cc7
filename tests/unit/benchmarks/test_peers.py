"""How often intervals hold the truth: what is counted, and of how many."""

from random import Random

import pytest
from truth_kit import peers
from truth_kit.certainty import SERVERS

SERVER = SERVERS[0]


def coverage(*intervals: tuple[float, float] | None) -> peers.Coverage:
    """Return what is counted of intervals of a p95 that is truly 2."""
    found = [{"95": each} for each in intervals]
    return peers._coverage("guidellm", SERVER, 95, found, 2.0)


def test_intervals_are_given_and_hold_the_truth() -> None:
    seen = coverage((1, 3), (2, 2), (3, 4), None)
    assert (seen.given, seen.held, seen.points) == (3, 2, 4)
    assert seen.held_percent == pytest.approx(200 / 3)


def test_of_few_intervals_nothing_is_said() -> None:
    assert coverage((1, 3), None, None, None).held_percent is None


def test_the_worst_is_of_those_that_are_told() -> None:
    seen = [coverage((1, 3)), coverage((3, 4), (1, 3)), coverage(None)]
    assert peers._worst(seen) == 50.0
    assert peers._worst([coverage(None)]) is None
    assert peers._given(seen) == 75.0
    assert peers._given([]) is None


def test_ours_has_an_answer_for_every_percentile() -> None:
    stages = [SERVER.stage(400, Random(1))]
    assert set(peers._ours(SERVER, stages)) == {"50", "90", "95", "99"}
