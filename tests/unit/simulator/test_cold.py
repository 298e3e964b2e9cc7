"""Which requests a cold engine holds up."""

import pytest
from benchrun_simulator.cold import Cold, ColdStart


def held_up(cold: Cold, *arrivals: float) -> list[float]:
    start = ColdStart(cold)
    return [start.held_up_seconds(number, now=now) for number, now in enumerate(arrivals, 1)]


@pytest.mark.parametrize(
    ("cold", "delays"),
    [
        pytest.param(Cold(), [0, 0, 0, 0], id="no request by default"),
        pytest.param(Cold(requests=2, seconds=0.3), [0.3, 0.3, 0, 0], id="the first ones"),
        pytest.param(Cold(requests=1, seconds=0.3, after_requests=2), [0, 0, 0.3, 0], id="the first after a warm-up"),
    ],
)
def test_cold_requests_are_held_up(cold: Cold, delays: list[float]) -> None:
    assert held_up(cold, 0, 1, 2, 3) == delays


def test_an_idle_engine_gets_cold() -> None:
    cold = Cold(requests=2, seconds=0.3, idle_seconds=10)
    assert held_up(cold, 0, 1, 2, 12, 13, 14) == [0.3, 0.3, 0, 0.3, 0.3, 0]


def test_idleness_before_the_named_request_changes_nothing() -> None:
    cold = Cold(requests=1, seconds=0.3, after_requests=2, idle_seconds=10)
    assert held_up(cold, 0, 100, 101, 200) == [0, 0, 0.3, 0.3]
