"""Specs as bytes: the same back, equal bytes for equal objects, and few of them."""

import json

from benchrun.observe import packed, unpacked
from hypothesis import given, settings, strategies as st

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(),
    lambda inner: (
        st.lists(inner, max_size=8) | st.dictionaries(st.text(), inner, max_size=8)
    ),
    max_leaves=20,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(), JSON, max_size=4))
def test_what_was_packed_comes_back(value: dict[str, object]) -> None:
    assert unpacked(packed(value)) == json.loads(json.dumps(value))


def test_the_order_of_keys_makes_no_difference() -> None:
    long = "x" * 1000
    assert packed({"a": long, "b": {"c": 1, "d": 2}}) == packed(
        {"b": {"d": 2, "c": 1}, "a": long}
    )


def test_repetition_takes_no_memory() -> None:
    """As Python objects the first takes 1.1 MB, the second 1.4."""
    assert len(packed({"free": [[] for _ in range(19_000)]})) < 2_000
    assert len(packed({"free": "a" * 1_400_000})) < 10_000
