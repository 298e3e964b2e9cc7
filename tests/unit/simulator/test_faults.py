"""Misbehaviour is counted, not drawn."""

import pytest
from benchrun_simulator.faults import FaultPlan
from benchrun_simulator.settings import Faults


def failures(faults: Faults, requests: int) -> list[bool]:
    plan = FaultPlan(faults)
    return [plan.next_request_fails() for _ in range(requests)]


def test_without_faults_nothing_fails() -> None:
    assert not any(failures(Faults(), 1000))


@pytest.mark.parametrize(("percent", "expected"), [(1.0, 10), (2.5, 25), (50.0, 500), (100.0, 1000)])
def test_errors_have_exactly_their_share(percent: float, expected: int) -> None:
    assert sum(failures(Faults(error_percent=percent), 1000)) == expected


def test_errors_are_spread_evenly() -> None:
    assert failures(Faults(error_percent=25), 8) == [False, False, False, True] * 2


def test_canaries_fail_first() -> None:
    assert failures(Faults(canary_fails=2), 4) == [True, True, False, False]


def test_the_process_dies_at_the_end_of_the_named_request() -> None:
    plan = FaultPlan(Faults(die_after_requests=3))
    assert [plan.last_request_served() for _ in range(4)] == [False, False, True, False]
