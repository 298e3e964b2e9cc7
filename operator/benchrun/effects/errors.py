"""Errors of the API server, by HTTP status."""

import math
from collections.abc import Mapping
from typing import Any

from benchrun.observe import untrusted_json as raw


class ClusterError(Exception):
    """The API server did not carry out the request."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code  # HTTP status; None when no answer came


class NotFound(ClusterError):
    """404: the object does not exist."""


class NotServed(NotFound):
    """404 for a whole kind: the cluster does not have it."""


class Conflict(ClusterError):
    """The object is not in the state that the request assumed: 409, or 422 on an immutable uid.

    The caller must read the object again.
    """


class Exists(Conflict):
    """409 AlreadyExists: the name is taken."""


class Occupied(Conflict):
    """An object of that name exists and has another owner; `found` has at least its metadata."""

    def __init__(self, message: str, *, found: dict[str, Any]) -> None:
        super().__init__(message, code=409)
        self.found = found


class Forbidden(ClusterError):
    """The operator's rights or a policy do not allow the request: 401, 403.

    Also 500 where a policy's webhook could not be reached.
    """


class Invalid(ClusterError):
    """400, 422, and any other 4xx: a retry would be refused too."""


class Throttled(ClusterError):
    """429: too many requests."""

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message, code=429)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(ClusterError):
    """5xx, a broken connection, a timeout: the request may or may not have been carried out."""


class TooLarge(Unavailable):
    """The answer is longer than allowed; the rest was not read."""


DEFAULT_RETRY_AFTER_SECONDS = 1.0
MAX_RETRY_AFTER_SECONDS = 60.0
# no object is created until the webhook answers
_UNASKED = "failed calling webhook"


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> ClusterError:
    """Return the error for an answer with a failed status."""
    answer = raw.mapping(raw.parsed(body))
    message = str(
        answer.get("message")
        or body[:300].decode(errors="replace")
        or f"HTTP {status}"
    )
    causes = raw.mappings(raw.mapping(answer.get("details")).get("causes"))
    if status == 429:
        return Throttled(message, retry_after_seconds=_retry_after_seconds(headers))
    kind: type[ClusterError] = Invalid if 400 <= status < 500 else Unavailable
    if status == 404:
        kind = NotFound
    elif status == 409:
        kind = Exists if answer.get("reason") == "AlreadyExists" else Conflict
    elif status == 422 and any(
        cause.get("field") == "metadata.uid" for cause in causes
    ):
        kind = Conflict
    elif status in (401, 403) or (status == 500 and _UNASKED in message):
        kind = Forbidden
    return kind(message, code=status)


def _retry_after_seconds(headers: Mapping[str, str]) -> float:
    try:
        seconds = float(headers.get("Retry-After", DEFAULT_RETRY_AFTER_SECONDS))
    except ValueError:
        seconds = math.nan
    return (
        DEFAULT_RETRY_AFTER_SECONDS
        if math.isnan(seconds)
        else min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
    )
