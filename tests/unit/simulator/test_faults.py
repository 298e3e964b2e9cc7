"""Misbehaviour is counted, not drawn."""

import pytest
from benchrun_simulator.faults import FaultPlan, Share
from benchrun_simulator.settings import Faults


def failures(faults: Faults, requests: int) -> list[bool]:
    plan = FaultPlan(faults)
    return [plan.next_request_refused() is not None for _ in range(requests)]


def test_without_faults_nothing_fails() -> None:
    assert not any(failures(Faults(), 1000))


@pytest.mark.parametrize(("percent", "expected"), [(1.0, 10), (2.5, 25), (50.0, 500), (100.0, 1000)])
def test_errors_have_exactly_their_share(percent: float, expected: int) -> None:
    assert sum(failures(Faults(error_percent=percent), 1000)) == expected


def test_errors_are_spread_evenly() -> None:
    assert failures(Faults(error_percent=25), 8) == [False, False, False, True] * 2


@pytest.mark.parametrize("percent", [0.1, 29.0, 57.0, 99.9])
def test_a_share_is_exact_at_every_thousand(percent: float) -> None:
    share = Share(percent)
    due = [share.next_is_due() for _ in range(5000)]
    assert [sum(due[start : start + 1000]) for start in range(0, 5000, 1000)] == [round(percent * 10)] * 5


def test_the_rejected_get_another_status_than_the_failed() -> None:
    plan = FaultPlan(Faults(reject_percent=50, error_percent=25))
    assert [plan.next_request_refused() for _ in range(4)] == [None, 429, None, 500]


def test_resets_fail_first() -> None:
    plan = FaultPlan(Faults(reset_fails=2))
    assert [plan.next_reset_fails() for _ in range(3)] == [True, True, False]


def test_canaries_fail_first() -> None:
    assert failures(Faults(canary_fails=2), 4) == [True, True, False, False]


def test_the_process_dies_at_the_end_of_the_named_request() -> None:
    plan = FaultPlan(Faults(die_after_requests=3))
    assert [plan.last_request_served() for _ in range(4)] == [False, False, True, False]
