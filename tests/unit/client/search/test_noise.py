"""A search whose outcomes chance has a say in: seldom too high, and seldom far too low."""

from __future__ import annotations

import random
from decimal import Decimal

from benchrun_client.contract import Search
from benchrun_client.search.course import Position, Tally, after, first, outcome
from unit.client.search.searches import search

TRUTH = 10.0
"""Load at which exactly nine requests of ten keep the limit."""
STEEPNESS = 8
REQUESTS = 200
RUNS = 200


def share_within(load: float) -> float:
    """Of requests that keep the limit, the fewer the higher the load."""
    return 1 / (1 + (load / TRUTH) ** STEEPNESS / 9)


def found(of: Search, chance: random.Random) -> tuple[Decimal, Decimal]:
    """What one search ends with."""
    here: Position | None = first(of)
    tally = Tally()
    met, not_met = Decimal(0), Decimal(10**6)
    while here is not None:
        share = share_within(float(here.value))
        tally += Tally(REQUESTS, sum(chance.random() < share for _ in range(REQUESTS)))
        what = outcome(tally, 90)
        following = after(of, here, what)
        if following is None or following.number != here.number:
            met, not_met = (max(met, here.value), not_met) if what == "Met" else (met, min(not_met, here.value))
            tally = Tally()
        here = following
    return met, not_met


def test_noise_leads_it_astray_no_more_often_than_it_says() -> None:
    brackets = [found(search(), random.Random(seed)) for seed in range(RUNS)]
    too_high = sum(float(met) > TRUTH for met, _ in brackets)
    far_too_low = sum(float(not_met) < 0.8 * TRUTH for _, not_met in brackets)
    assert all(met < not_met for met, not_met in brackets)
    assert too_high <= 0.05 * RUNS
    assert far_too_low <= 0.05 * RUNS
