"""Each refusal of the API server becomes the one error that says what to do about it."""

import json
from typing import Any

import pytest
from benchrun.effects import errors
from hypothesis import given, strategies as st


def status(reason: str = "", message: str = "it said no", **details: Any) -> bytes:
    return json.dumps(
        {"kind": "Status", "reason": reason, "message": message, "details": details}
    ).encode()


@pytest.mark.parametrize(
    ("expected", "code", "body"),
    [
        pytest.param(errors.NotFound, 404, status("NotFound"), id="gone"),
        pytest.param(errors.Exists, 409, status("AlreadyExists"), id="name-taken"),
        pytest.param(errors.Conflict, 409, status("Conflict"), id="moved-on"),
        pytest.param(
            errors.Conflict,
            422,
            status("Invalid", causes=[{"field": "metadata.uid"}]),
            id="other-uid",
        ),
        pytest.param(
            errors.Invalid,
            422,
            status("Invalid", causes=[{"field": "spec.replicas"}]),
            id="bad-field",
        ),
        pytest.param(errors.Invalid, 400, status("BadRequest"), id="bad-request"),
        pytest.param(errors.Invalid, 415, b"", id="unsupported"),
        pytest.param(
            errors.Forbidden, 401, status("Unauthorized"), id="who-are-you"
        ),
        pytest.param(errors.Forbidden, 403, status("Forbidden"), id="not-allowed"),
        pytest.param(
            errors.Throttled, 429, status("TooManyRequests"), id="slow-down"
        ),
        pytest.param(errors.Unavailable, 500, status("InternalError"), id="broken"),
        pytest.param(errors.Unavailable, 503, b"<html>", id="not-there"),
        pytest.param(errors.Unavailable, 302, b"", id="redirect"),
    ],
)
def test_status_code_and_reason_tell_the_error(
    expected: type[errors.ClusterError], code: int, body: bytes
) -> None:
    error = errors.error_of(code, body, {})
    assert type(error) is expected
    assert error.code == code


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        pytest.param(7.0, {"Retry-After": "7"}, id="told"),
        pytest.param(1.0, {}, id="not-told"),
        pytest.param(
            1.0, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, id="date"
        ),
        pytest.param(60.0, {"Retry-After": "86400"}, id="too-long"),
        pytest.param(0.0, {"Retry-After": "-3"}, id="negative"),
    ],
)
def test_throttling_says_how_long_within_reason(
    seconds: float, header: dict[str, str]
) -> None:
    error = errors.error_of(429, b"", header)
    assert isinstance(error, errors.Throttled)
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("text", "body"),
    [
        pytest.param("it said no", status(), id="status"),
        pytest.param("upstream down", b"upstream down", id="text"),
        pytest.param("HTTP 502", b"", id="empty"),
        pytest.param("[1]", b"[1]", id="other-json"),
    ],
)
def test_message_is_the_servers_own_where_it_left_one(
    text: str, body: bytes
) -> None:
    assert str(errors.error_of(502, body, {})) == text


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["message", "reason", "details", "causes", "field", "code"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
BODY = st.binary(max_size=400) | JSON.map(lambda value: json.dumps(value).encode())


@given(
    status=st.integers(300, 599),
    body=BODY,
    wait=st.text(max_size=12) | st.floats().map(str),
)
def test_any_answer_is_an_error_of_ours_with_words_and_a_bounded_wait(
    status: int, body: bytes, wait: str
) -> None:
    error = errors.error_of(status, body, {"Retry-After": wait})
    assert isinstance(error, errors.ClusterError)
    assert error.code == status
    assert str(error)
    assert isinstance(error, errors.Throttled) is (status == 429)
    assert isinstance(error, errors.Unavailable) is (status >= 500 or status < 400)
    if isinstance(error, errors.Throttled):
        assert 0.0 <= error.retry_after_seconds <= errors.MAX_RETRY_AFTER_SECONDS


@pytest.mark.parametrize(
    ("wait", "seconds"),
    [
        ("inf", 60.0),
        ("60", 60.0),
        ("60.5", 60.0),
        ("0.25", 0.25),
        ("-inf", 0.0),
        ("nan", 1.0),
        ("NaN", 1.0),
        ("-nan", 1.0),
    ],
)
def test_waits_at_the_edges(wait: str, seconds: float) -> None:
    error = errors.error_of(429, b"", {"Retry-After": wait})
    assert isinstance(error, errors.Throttled)
    assert error.retry_after_seconds == seconds


@pytest.mark.parametrize(
    ("expected", "details"),
    [
        pytest.param(
            errors.Conflict,
            {"causes": [{"field": "spec"}, {"field": "metadata.uid"}]},
            id="among-others",
        ),
        pytest.param(
            errors.Invalid,
            {"causes": [{"field": "metadata.uid.x"}]},
            id="another-field",
        ),
        pytest.param(
            errors.Invalid, {"causes": [{"message": "metadata.uid"}]}, id="no-field"
        ),
        pytest.param(errors.Invalid, {"causes": []}, id="no-cause"),
        pytest.param(errors.Invalid, {"causes": None}, id="null-causes"),
        pytest.param(errors.Invalid, {"causes": "metadata.uid"}, id="text-causes"),
        pytest.param(errors.Invalid, {"causes": ["metadata.uid"]}, id="text-cause"),
        pytest.param(errors.Invalid, None, id="null"),
        pytest.param(errors.Invalid, [], id="list"),
    ],
)
def test_only_a_uid_that_differs_makes_an_invalid_object_a_conflict(
    expected: type[errors.ClusterError], details: Any
) -> None:
    error = errors.error_of(
        422, json.dumps({"message": "no", "details": details}).encode(), {}
    )
    assert type(error) is expected


@pytest.mark.parametrize("code", [400, 409, 410, 500])
def test_a_uid_that_differs_counts_at_422_alone(code: int) -> None:
    body = json.dumps(
        {"message": "no", "details": {"causes": [{"field": "metadata.uid"}]}}
    ).encode()
    assert type(errors.error_of(code, body, {})) is {
        409: errors.Conflict,
        500: errors.Unavailable,
    }.get(code, errors.Invalid)


@pytest.mark.parametrize("body", [b"<html>" + b"x" * 10_000, b"[" * 10_000])
def test_a_page_in_place_of_an_answer_is_cut(body: bytes) -> None:
    assert str(errors.error_of(502, body, {})) == body[:300].decode()


def test_what_was_found_in_place_of_ours_is_at_hand() -> None:
    error = errors.Occupied("taken", found={"metadata": {"uid": "u"}})
    assert (
        error.code,
        error.found["metadata"]["uid"],
        isinstance(error, errors.Conflict),
    ) == (
        409,
        "u",
        True,
    )
