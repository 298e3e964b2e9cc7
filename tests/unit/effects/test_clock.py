"""The operator's one clock: the API server's time, whatever its node's wall clock is set to."""

from contextlib import suppress
from email.utils import formatdate

import pytest
from benchrun.effects import DOUBT_SECONDS, TOLERANCE_SECONDS, Clock, ClusterError
from unit.effects.scripted_api import Answer, answering

T0 = 1_800_000_000.0
DAY = 86_400.0


class Time:
    """What a node's clocks show."""

    def __init__(self, *, wall: float = T0) -> None:
        self.wall = wall
        self.monotonic = 1000.0
        self.clock = Clock(wall=lambda: self.wall, monotonic=lambda: self.monotonic)

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.monotonic += seconds

    def told(self, seconds: float) -> None:
        self.clock.told(formatdate(seconds, usegmt=True))

    @property
    def shown(self) -> float:
        return self.clock.now().timestamp()


@pytest.mark.parametrize("jump", [30 * DAY, -5 * 3600.0])
def test_a_wall_clock_that_jumps_moves_nothing(jump: float) -> None:
    time = Time()
    time.told(T0)
    time.wall += jump
    time.passes(10)
    assert time.shown == T0 + 10
    time.told(T0 + 10)
    assert time.shown == T0 + 10


@pytest.mark.parametrize("wrong", [30 * DAY, -5 * 3600.0])
def test_a_wall_clock_that_is_wrong_from_the_beginning_is_set_right_by_the_first_answer(
    wrong: float,
) -> None:
    time = Time(wall=T0 + wrong)
    time.told(T0)
    assert time.shown == pytest.approx(T0, abs=1)


def test_a_wall_clock_that_is_right_keeps_its_fractions_of_a_second() -> None:
    time = Time(wall=T0 + 0.25)
    for _ in range(100):
        time.told(time.wall)
        assert time.shown == pytest.approx(time.wall, abs=1e-3)
        time.passes(0.37)


def test_another_time_is_believed_when_it_was_told_for_a_while() -> None:
    time = Time()
    time.told(T0)
    shown = []
    for _ in range(int(DOUBT_SECONDS / 5) + 1):
        time.told(time.wall + 30 * DAY)
        shown.append(time.shown - time.wall)
        time.passes(5)
    assert shown[:-1] == [0.0] * int(DOUBT_SECONDS / 5)
    assert shown[-1] == pytest.approx(30 * DAY, abs=1)


def test_one_api_server_of_two_that_is_wrong_is_never_believed() -> None:
    time = Time()
    for number in range(1000):
        time.told(time.wall + (30 * DAY if number % 2 else 0.0))
        assert time.shown == time.wall
        time.passes(5)


def test_a_drift_is_followed() -> None:
    """A node's monotonic clock runs 0.1 % slow."""
    time = Time()
    right = T0
    for _ in range(10_000):
        right += 5
        time.passes(4.995)
        time.told(right)
    assert time.shown == pytest.approx(right, abs=TOLERANCE_SECONDS + 1)


@pytest.mark.parametrize(
    "date", [None, "", "soon", "Fri, 99 Foo 2027 25:00:00 GMT"]
)
def test_what_is_no_date_changes_nothing(date: str | None) -> None:
    time = Time()
    time.clock.told(date)
    assert time.shown == T0


@pytest.mark.parametrize("status", [200, 404, 500])
async def test_every_answer_of_the_api_server_tells_its_time(status: int) -> None:
    date = formatdate(T0, usegmt=True)
    told = list[str | None]()
    async with answering(
        Answer(status, headers={"Date": date}), told=told.append
    ) as exchange:
        with suppress(ClusterError):
            await exchange.connection.json("GET", "/api/v1/pods")
    assert told == [date]
