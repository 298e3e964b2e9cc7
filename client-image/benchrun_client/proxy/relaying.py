"""Answers on their way back: passed on as they come, and never ended well where they did not end well."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from http import HTTPStatus

import aiohttp
from aiohttp import web
from multidict import CIMultiDict

from benchrun_client.proxy.steps import Whole

_OF_ONE_CONNECTION = frozenset(
    {
        *("connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "te", "trailer"),
        *("transfer-encoding", "upgrade", "expect", "host", "date", "server"),
    }
)
"""Headers that belong to the way between two, or are told anew by whoever speaks."""


class Broken(Exception):
    """The server's answer broke off in the middle. The client has seen its connection end, and no end of the answer."""

    def __init__(self, response: web.StreamResponse) -> None:
        super().__init__("the answer broke off")
        self.response = response


def passed_on(headers: Mapping[str, str], *, with_length: bool = False) -> CIMultiDict[str]:
    """The headers that mean something beyond one connection."""
    dropped = _OF_ONE_CONNECTION if with_length else _OF_ONE_CONNECTION | {"content-length"}
    return CIMultiDict((name, value) for name, value in headers.items() if name.lower() not in dropped)


async def relay(
    request: web.Request,
    upstream: aiohttp.ClientResponse,
    *,
    on_first: Callable[[float], None] = lambda _: None,
) -> web.StreamResponse:
    """Pass an answer on, piece by piece, as fast as the client reads it.

    `on_first` gets the seconds from the first piece's arrival to its having been written.

    Raises:
        Broken: it broke off.
    """
    headers = passed_on(upstream.headers, with_length=True)
    response = web.StreamResponse(status=upstream.status, reason=upstream.reason, headers=headers)
    await response.prepare(request)
    first = True
    while True:
        try:
            piece = await upstream.content.readany()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _hang_up(request)
            raise Broken(response) from error
        if not piece:
            break
        arrived = time.perf_counter()
        await response.write(piece)
        if first:
            on_first(time.perf_counter() - arrived)
            first = False
    await response.write_eof()
    return response


def answered(whole: Whole) -> web.Response:
    """An answer that was read to its end, passed on."""
    return web.Response(status=whole.status, body=whole.body, headers=passed_on(whole.headers))


def complaint(status: HTTPStatus, words: str) -> web.Response:
    """The proxy's own refusal, in the form of vLLM's."""
    kind = status.phrase.replace(" ", "")
    error = {"message": f"proxy: {words}", "type": kind, "param": None, "code": int(status)}
    return web.json_response({"error": error}, status=status)


def _hang_up(request: web.Request) -> None:
    if request.transport is not None:
        # What has been written still arrives; the mark of the end does not.
        request.transport.close()
