"""Each refusal of the API server becomes the one error that says what to do about it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from benchrun.effects.errors import (
    ClusterError,
    Conflict,
    Exists,
    Forbidden,
    Invalid,
    NotFound,
    Throttled,
    Unavailable,
    error_of,
)


def status(reason: str = "", message: str = "it said no", **details: Any) -> bytes:
    return json.dumps({"kind": "Status", "reason": reason, "message": message, "details": details}).encode()


@pytest.mark.parametrize(
    ("expected", "code", "body"),
    [
        pytest.param(NotFound, 404, status("NotFound"), id="gone"),
        pytest.param(Exists, 409, status("AlreadyExists"), id="name-taken"),
        pytest.param(Conflict, 409, status("Conflict"), id="moved-on"),
        pytest.param(Conflict, 422, status("Invalid", causes=[{"field": "metadata.uid"}]), id="other-uid"),
        pytest.param(Invalid, 422, status("Invalid", causes=[{"field": "spec.replicas"}]), id="bad-field"),
        pytest.param(Invalid, 400, status("BadRequest"), id="bad-request"),
        pytest.param(Invalid, 415, b"", id="unsupported"),
        pytest.param(Forbidden, 401, status("Unauthorized"), id="who-are-you"),
        pytest.param(Forbidden, 403, status("Forbidden"), id="not-allowed"),
        pytest.param(Throttled, 429, status("TooManyRequests"), id="slow-down"),
        pytest.param(Unavailable, 500, status("InternalError"), id="broken"),
        pytest.param(Unavailable, 503, b"<html>", id="not-there"),
        pytest.param(Unavailable, 302, b"", id="redirect"),
    ],
)
def test_status_code_and_reason_tell_the_error(expected: type[ClusterError], code: int, body: bytes) -> None:
    error = error_of(code, body, {})
    assert type(error) is expected
    assert error.code == code


@pytest.mark.parametrize(
    ("seconds", "header"),
    [
        pytest.param(7.0, {"Retry-After": "7"}, id="told"),
        pytest.param(1.0, {}, id="not-told"),
        pytest.param(1.0, {"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, id="date"),
        pytest.param(60.0, {"Retry-After": "86400"}, id="too-long"),
        pytest.param(0.0, {"Retry-After": "-3"}, id="negative"),
    ],
)
def test_throttling_says_how_long_within_reason(seconds: float, header: dict[str, str]) -> None:
    error = error_of(429, b"", header)
    assert isinstance(error, Throttled)
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
def test_message_is_the_servers_own_where_it_left_one(text: str, body: bytes) -> None:
    assert str(error_of(502, body, {})) == text
