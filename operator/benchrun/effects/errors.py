"""What the API server may refuse with: one tree, made in one place.

ClusterError
+-- NotFound        404: it is gone
|   +-- NotServed   404 for a whole kind: the cluster does not have it
+-- Conflict        409, or 422 on an immutable uid: the object is not the one we knew; read again
|   +-- Exists      409 AlreadyExists: the name is taken
|   +-- Occupied    the name is taken by an object that somebody else controls
+-- Forbidden       401, 403: our rights do not reach, or a policy said no; 500: a policy's webhook could not be asked
+-- Invalid         400, 422: it will never be accepted as it stands
+-- Throttled       429: later, and when
+-- Unavailable     5xx, a broken connection, a timeout: nothing is known about the outcome
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from benchrun.observe import untrusted_json as raw


class ClusterError(Exception):
    """The API server did not carry out the request."""

    def __init__(self, message: str, *, code: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        """HTTP status; None when no answer came."""


class NotFound(ClusterError):
    """The object does not exist."""


class NotServed(NotFound):
    """The API server does not know such objects at all."""


class Conflict(ClusterError):
    """The object is not in the state that the request assumed."""


class Exists(Conflict):
    """An object of that name exists already."""


class Occupied(Conflict):
    """An object of that name exists and is not ours; it is in `found` (metadata only)."""

    def __init__(self, message: str, *, found: dict[str, Any]) -> None:
        super().__init__(message, code=409)
        self.found = found


class Forbidden(ClusterError):
    """The API server knows who asks and says no."""


class Invalid(ClusterError):
    """The request will be refused however often it is sent."""


class Throttled(ClusterError):
    """Too many requests."""

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message, code=429)
        self.retry_after_seconds = retry_after_seconds


class Unavailable(ClusterError):
    """No answer that says anything; the request may or may not have been carried out."""


DEFAULT_RETRY_AFTER_SECONDS = 1.0
MAX_RETRY_AFTER_SECONDS = 60.0
_UNASKED = "failed calling webhook"
"""Of a webhook that must not be passed over: nothing was created, and it may be long until it can be."""


def error_of(status: int, body: bytes, headers: Mapping[str, str]) -> ClusterError:
    """The error that a failed answer means."""
    answer = _status_object(body)
    message = str(answer.get("message") or body[:300].decode(errors="replace") or f"HTTP {status}")
    reason = answer.get("reason")
    if status == 404:
        return NotFound(message, code=status)
    if status == 409:
        return Exists(message, code=status) if reason == "AlreadyExists" else Conflict(message, code=status)
    if status == 422 and _uid_differs(answer):
        return Conflict(message, code=status)
    if status in (401, 403) or (status == 500 and _UNASKED in message):
        return Forbidden(message, code=status)
    if status == 429:
        return Throttled(message, retry_after_seconds=_retry_after_seconds(headers))
    if 400 <= status < 500:
        return Invalid(message, code=status)
    return Unavailable(message, code=status)


def _status_object(body: bytes) -> dict[str, Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return answer if isinstance(answer, dict) else {}


def _uid_differs(answer: Mapping[str, Any]) -> bool:
    causes = raw.mappings(raw.mapping(answer.get("details")).get("causes"))
    return any(cause.get("field") == "metadata.uid" for cause in causes)


def _retry_after_seconds(headers: Mapping[str, str]) -> float:
    try:
        seconds = float(headers.get("Retry-After", DEFAULT_RETRY_AFTER_SECONDS))
    except ValueError:
        seconds = math.nan
    return DEFAULT_RETRY_AFTER_SECONDS if math.isnan(seconds) else min(max(seconds, 0.0), MAX_RETRY_AFTER_SECONDS)
