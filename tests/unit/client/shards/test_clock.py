"""The gate's clock, from a few questions."""

from __future__ import annotations

from benchrun_client.shards.messages import ClockQuestion, offset_of
from hypothesis import given, strategies as st

WAY = st.floats(min_value=1e-5, max_value=2.0)


@given(ahead=st.floats(min_value=-1e6, max_value=1e6), ways=st.lists(st.tuples(WAY, WAY), min_size=1, max_size=8))
def test_the_error_never_exceeds_the_stated_bound(ahead: float, ways: list[tuple[float, float]]) -> None:
    exchanges = [
        ClockQuestion(left=n, came=n + there + back, said=n + there + ahead) for n, (there, back) in enumerate(ways)
    ]
    found = offset_of(exchanges)
    assert abs(found.seconds - ahead) <= found.error + 1e-6


def test_the_quickest_question_counts() -> None:
    slow, quick = ClockQuestion(left=0.0, came=1.0, said=100.9), ClockQuestion(left=2.0, came=2.002, said=102.001)
    found = offset_of([slow, quick])
    assert (round(found.seconds, 9), round(found.error, 9)) == (100.0, 0.001)
