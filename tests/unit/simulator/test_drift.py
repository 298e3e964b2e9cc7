"""Servers that change their speed."""

import pytest
from benchrun_simulator.drift import Changes, Drift


def factors(changes: Changes, *arrivals: float) -> list[float]:
    drift = Drift(changes)
    found = []
    for number, now in enumerate(arrivals, 1):
        drift.arrived(number, now=now)
        found.append(drift.factor(number, now=now))
    return found


def test_nothing_changes_by_itself() -> None:
    assert factors(Changes(), 0, 10, 1000) == [1, 1, 1]


def test_every_request_is_a_little_slower() -> None:
    slower = factors(Changes(percent_per_1000_requests=50), *range(2000))
    assert slower[999] == pytest.approx(1.5)
    assert slower[1999] == pytest.approx(2.0)


def test_every_second_is_slower_from_the_named_request_on() -> None:
    changes = Changes(percent_per_second=10, from_request=3)
    assert factors(changes, 0, 5, 8, 8, 13) == pytest.approx([1, 1, 1, 1, 1.5])


def test_a_token_that_falls_due_before_the_slowdown_is_as_usual() -> None:
    drift = Drift(Changes(percent_per_second=10, from_request=2))
    drift.arrived(2, now=5.0)
    assert drift.factor(1, now=4.0) == 1


def test_requests_alternate_in_groups() -> None:
    alternating = factors(Changes(alternate_requests=2, alternate_percent=20), *range(6))
    assert alternating == pytest.approx([1, 1, 1.2, 1.2, 1, 1])


def test_what_no_client_sent_goes_at_the_usual_speed() -> None:
    assert Drift(Changes(percent_per_1000_requests=9, alternate_requests=1, alternate_percent=50)).factor(0, now=1) == 1
