"""A proxy between operator and API server that the test makes slow, wrong or silent for a while."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

from runs_kit.proxy import CountingProxy, Request

Wrong = Callable[[Request], bytes | None]
REASONS = {
    403: "Forbidden",
    409: "Conflict",
    422: "Invalid",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


def refusal(code: int) -> bytes:
    """Return the API server's answer with that code, in its own form."""
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": f"played: {REASONS[code]}",
        "reason": REASONS[code],
        "code": code,
    }
    return _answer(f"{code} {REASONS[code]}", status, extra="Retry-After: 1\r\n")


def expired() -> bytes:
    """Return the answer to a watch that began too long ago."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
    }
    status |= {
        "message": "too old resource version",
        "reason": "Expired",
        "code": 410,
    }
    return _answer("200 OK", {"type": "ERROR", "object": status})


SILENCE = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
"""Head of a watch that begins and sends nothing."""


def _answer(line: str, body: dict[str, Any], *, extra: str = "") -> bytes:
    text = json.dumps(body).encode() + b"\n"
    head = f"HTTP/1.1 {line}\r\nContent-Type: application/json\r\n{extra}"
    return f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text


class FaultyWay(CountingProxy):
    """Passes everything on, until told otherwise."""

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        # the answer in place of the API server's; None: pass it on
        self.wrong: Wrong = lambda _: None
        self.is_slow: Callable[[Request], bool] = lambda _: False
        self.delay_seconds = 0.0  # delay of each slow request

    async def answered(self, request: Request) -> bytes | None:
        if self.is_slow(request):
            await asyncio.sleep(self.delay_seconds)
        return self.wrong(request)
