"""The gate's clock, from a few questions."""

from benchrun_client.shards.messages import Answer, offset_of
from hypothesis import given, strategies as st

WAY = st.floats(min_value=1e-5, max_value=2.0)


@given(ahead=st.floats(min_value=-1e6, max_value=1e6), ways=st.lists(st.tuples(WAY, WAY), min_size=1, max_size=8))
def test_the_error_never_exceeds_the_stated_bound(ahead: float, ways: list[tuple[float, float]]) -> None:
    for n, (there, back) in enumerate(ways):
        found = offset_of(Answer(left=n, gate_time=n + there + ahead), came=n + there + back)
        assert abs(found.seconds - ahead) <= found.error + 1e-6


def test_an_offset_is_in_error_by_half_of_what_the_question_took() -> None:
    found = offset_of(Answer(left=2.0, gate_time=102.001), came=2.002)
    assert (round(found.seconds, 9), round(found.error, 9)) == (100.0, 0.001)
