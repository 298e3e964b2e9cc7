"""Instants read from elsewhere: none raises, and none moves a deadline."""

from datetime import UTC, datetime, timedelta

import pytest
from benchrun.api import timestamp
from benchrun.decide.deadlines import believed, from_unix_us
from benchrun.observe import instant
from hypothesis import given, strategies as st

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
EARLIER = NOW - timedelta(minutes=5)
INSTANTS = st.datetimes(timezones=st.just(UTC))


@pytest.mark.parametrize("micros", [-1, 10**18, 10**30, -(10**30), None])
def test_unix_microseconds_that_are_no_instant(micros: int | None) -> None:
    assert from_unix_us(micros) is None


def test_unix_microseconds() -> None:
    assert from_unix_us(int(NOW.timestamp() * 1e6)) == NOW
    assert from_unix_us(253_402_300_799_000_000) == datetime(
        9999, 12, 31, 23, 59, 59, tzinfo=UTC
    )
    assert from_unix_us(10**16) == datetime(2286, 11, 20, 17, 46, 40, tzinfo=UTC)


@given(st.integers())
def test_any_number_is_an_instant_or_none(micros: int) -> None:
    found = from_unix_us(micros)
    assert found is None or instant(timestamp(found)) is not None


@given(st.text(max_size=32) | st.datetimes().map(str))
def test_any_text_is_an_instant_in_utc_or_none(text: str) -> None:
    found = instant(text)
    assert found is None or found.utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("claimed", "expected"),
    [
        pytest.param(
            NOW - timedelta(minutes=1), NOW - timedelta(minutes=1), id="between"
        ),
        pytest.param(NOW + timedelta(days=365), NOW, id="a clock that is ahead"),
        pytest.param(
            NOW - timedelta(days=365), EARLIER, id="a clock that is behind"
        ),
        pytest.param(None, None, id="not said"),
    ],
)
def test_another_clock_is_believed_between_what_ours_knows(
    claimed: datetime | None, expected: datetime | None
) -> None:
    assert believed(claimed, first_seen=NOW, not_before=EARLIER) == expected


@given(INSTANTS, INSTANTS, st.none() | INSTANTS)
def test_what_is_believed_is_never_later_than_it_was_heard_of(
    claimed: datetime, first_seen: datetime, not_before: datetime | None
) -> None:
    found = believed(claimed, first_seen=first_seen, not_before=not_before)
    assert found is not None
    assert found <= first_seen
    assert not_before is None or found >= min(not_before, first_seen)
