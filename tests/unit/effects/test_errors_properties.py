"""Whatever the API server (or what stands before it) answers, it becomes one of our errors, with a sentence and a bounded wait."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchrun.effects.errors import (
    MAX_RETRY_AFTER_SECONDS,
    ClusterError,
    Conflict,
    Invalid,
    Occupied,
    Throttled,
    Unavailable,
    error_of,
)
from hypothesis import given
from hypothesis import strategies as st

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["message", "reason", "details", "causes", "field", "code"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)
BODY = st.binary(max_size=400) | JSON.map(lambda value: json.dumps(value).encode())


@given(status=st.integers(300, 599), body=BODY, wait=st.text(max_size=12) | st.floats().map(str))
def test_any_answer_is_an_error_of_ours_with_words_and_a_bounded_wait(status: int, body: bytes, wait: str) -> None:
    error = error_of(status, body, {"Retry-After": wait})
    assert isinstance(error, ClusterError)
    assert error.code == status
    assert str(error)
    assert isinstance(error, Throttled) is (status == 429)
    assert isinstance(error, Unavailable) is (status >= 500 or status < 400)
    if isinstance(error, Throttled):
        assert 0.0 <= error.retry_after_seconds <= MAX_RETRY_AFTER_SECONDS


@pytest.mark.parametrize("wait", ["nan", "NaN", "-nan"])
def test_a_wait_that_is_no_number_is_not_waited_for(wait: str) -> None:
    error = error_of(429, b"", {"Retry-After": wait})
    assert isinstance(error, Throttled)
    assert error.retry_after_seconds == 1.0


@pytest.mark.parametrize(
    ("wait", "seconds"), [("inf", 60.0), ("60", 60.0), ("60.5", 60.0), ("0.25", 0.25), ("-inf", 0.0)]
)
def test_waits_at_the_edges(wait: str, seconds: float) -> None:
    error = error_of(429, b"", {"Retry-After": wait})
    assert isinstance(error, Throttled)
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("expected", "details"),
    [
        pytest.param(Conflict, {"causes": [{"field": "spec"}, {"field": "metadata.uid"}]}, id="among-others"),
        pytest.param(Invalid, {"causes": [{"field": "metadata.uid.x"}]}, id="another-field"),
        pytest.param(Invalid, {"causes": [{"message": "metadata.uid"}]}, id="no-field"),
        pytest.param(Invalid, {"causes": []}, id="no-cause"),
        pytest.param(Invalid, {"causes": None}, id="null-causes"),
        pytest.param(Invalid, {"causes": "metadata.uid"}, id="text-causes"),
        pytest.param(Invalid, {"causes": ["metadata.uid"]}, id="text-cause"),
        pytest.param(Invalid, None, id="null"),
        pytest.param(Invalid, [], id="list"),
    ],
)
def test_only_a_uid_that_differs_makes_an_invalid_object_a_conflict(expected: type[ClusterError], details: Any) -> None:
    error = error_of(422, json.dumps({"message": "no", "details": details}).encode(), {})
    assert type(error) is expected


@pytest.mark.parametrize("code", [400, 409, 410, 500])
def test_a_uid_that_differs_counts_at_422_alone(code: int) -> None:
    body = json.dumps({"message": "no", "details": {"causes": [{"field": "metadata.uid"}]}}).encode()
    assert type(error_of(code, body, {})) is {409: Conflict, 500: Unavailable}.get(code, Invalid)


@pytest.mark.parametrize("body", [b"<html>" + b"x" * 10_000, b"[" * 10_000])
def test_a_page_in_place_of_an_answer_is_cut(body: bytes) -> None:
    assert str(error_of(502, body, {})) == body[:300].decode()


def test_what_was_found_in_place_of_ours_is_at_hand() -> None:
    error = Occupied("taken", found={"metadata": {"uid": "u"}})
    assert (error.code, error.found["metadata"]["uid"], isinstance(error, Conflict)) == (409, "u", True)
