"""Searches on simulated queues: the load found is not above the true one, and not absurdly far
below it."""

import math
import random
from dataclasses import replace

import pytest
from truth_kit.searches import (
    Found,
    case_of,
    limit_at,
    one_search,
    other_case,
    shares,
    simulated,
)


def test_the_limit_is_the_percentile_of_the_response_time() -> None:
    # M/M/1: exponential, of rate 1 - rho.
    assert limit_at(1, None, 0.6, 90) == round(1000 * math.log(10) / 0.4)
    # M/M/8 with so little to do that nobody waits.
    assert limit_at(8, None, 0.01, 90) == round(1000 * math.log(10))


def test_the_simulated_queue_has_that_percentile() -> None:
    case = case_of(8, None, 0.7, 90, 100_000)
    begins, ends = simulated(case, case.truth, case.requests, random.Random(1))
    late = sum(
        end - begin > case.limit_ms for begin, end in zip(begins, ends, strict=True)
    )
    assert late / case.requests == pytest.approx(0.1, abs=0.01)


def test_a_search_finds_less_than_the_truth_and_not_half() -> None:
    case = case_of(1, None, 0.5, 50, 1000)
    found = shares([(case, one_search(case, seed)) for seed in range(3)])
    assert (
        found.searches,
        found.above_truth_percent,
        found.none_found_percent,
    ) == (3, 0, 0)
    assert found.median_below_percent < 45


def test_all_users_are_found_that_nobody_has_to_wait_for() -> None:
    case = other_case("users", 8, 1.0, 90.0, 300)
    assert (case.truth, case.limit_ms) == (8, 260)
    found = shares([(case, one_search(case, seed)) for seed in range(3)])
    assert (found.above_truth_percent, found.none_found_percent) == (0, 0)
    assert found.median_below_percent == 0


def test_shares_count_what_was_not_found_as_nothing() -> None:
    case = case_of(1, None, 0.5, 90, 400)
    found = shares(
        [(case, Found(0.55, 9)), (case, Found(0.45, 9)), (case, Found(None, 12))]
    )
    assert found.above_truth_percent == pytest.approx(100 / 3)
    assert found.none_found_percent == pytest.approx(100 / 3)
    assert found.median_below_percent == pytest.approx(10)


def test_a_drifting_server_is_held_against_what_it_is_at_the_end() -> None:
    case = replace(case_of(1, None, 0.6, 90, 400), drift_percent=1.0)
    slower = 1.01**20
    assert case.truth_at(0) == case.truth == 0.6
    # M/M/1: the percentile is log(10) / (1 - rho) services, each so much longer.
    rho = 1 - math.log(10) * slower / (math.log(10) / 0.4)
    assert case.truth_at(20) == pytest.approx(rho / slower, rel=1e-3)
    found = shares([(case, Found(0.55, 1)), (case, Found(0.55, 21))])
    assert found.above_truth_percent == 50


def test_a_search_of_a_faster_server_is_not_above_what_it_is_at_the_end() -> None:
    case = replace(case_of(1, None, 0.5, 50, 1000), drift_percent=-1.0)
    ends = [(case, one_search(case, seed)) for seed in range(2)]
    assert all(found.load is not None for _, found in ends)
    assert shares(ends).above_truth_percent == 0
