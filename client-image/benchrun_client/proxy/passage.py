"""A completion on its way: to a prefill server for one token, to a decode server for all of them, and back as it comes.

The fields are those of vLLM's connectors that hand blocks over by request (NIXL and its kin): the prefill server learns that
another will decode, answers where its blocks are, and that answer goes into the request to the decode server. Connectors that
find blocks by the prompt itself say nothing, and the decode server gets the client's own bytes.
"""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web

from benchrun_client.proxy.figures import Figures, Outcome
from benchrun_client.proxy.roles import NoPlace, Places, Role, Unreachable
from benchrun_client.proxy.steps import Broken, Steps, answered, complaint, passed_on, relay

TRANSFER = "kv_transfer_params"
_TO_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}
_OF_THE_ANSWER = ("stream_options", "min_tokens", "max_tokens", "max_completion_tokens")
"""About an answer's length and form, which is one token in one piece."""


def read_object(body: bytes) -> dict[str, Any]:
    """The client's request. ValueError: it is not a JSON object."""
    try:
        request = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("the body is not JSON") from error
    if not isinstance(request, dict):
        raise ValueError("the body is not a JSON object")
    return request


def prefill_body(asked: dict[str, Any]) -> bytes:
    """The same request for one token, not streamed, whose blocks somebody else is going to fetch."""
    most = "max_completion_tokens" if asked.get("max_completion_tokens") is not None else "max_tokens"
    kept = {name: value for name, value in asked.items() if name not in _OF_THE_ANSWER}
    return json.dumps(kept | {most: 1, "stream": False, TRANSFER: _TO_PREFILL}).encode()


def transfer_of(answer: bytes) -> dict[str, Any] | None:
    """What the prefill server says about its blocks, if it says anything."""
    try:
        transfer = read_object(answer).get(TRANSFER)
    except ValueError:
        return None
    return transfer if isinstance(transfer, dict) else None


def decode_body(body: bytes, asked: dict[str, Any], transfer: dict[str, Any] | None) -> bytes:
    """The client's own request, with what the prefill server said; without that its very bytes."""
    return body if transfer is None else json.dumps(asked | {TRANSFER: transfer}).encode()


REQUEST_ID = "X-Request-Id"


_Ended = tuple[web.StreamResponse, Outcome]
"""An answer, and how it is counted."""


class Passages:
    """Takes every completion through both roles."""

    def __init__(self, prefill: Role, decode: Role, *, steps: Steps, places: Places, figures: Figures) -> None:
        self._prefill, self._decode = prefill, decode
        self._steps = steps
        self._places = places
        self._figures = figures

    async def serve(self, request: web.Request) -> web.StreamResponse:
        """Answer one completion, or a chat."""
        outcome: Outcome = "refused"
        try:
            response, outcome = await self._admitted(request)
            return response
        except (asyncio.CancelledError, ConnectionResetError):
            outcome = "client_gone"
            raise
        except Unreachable as error:
            outcome = "prefill_unreachable" if error.role == "prefill" else "decode_unreachable"
            return complaint(HTTPStatus.BAD_GATEWAY, str(error))
        except Broken as error:
            outcome = "broken"
            return error.response
        finally:
            self._figures.ended(outcome)

    async def _admitted(self, request: web.Request) -> _Ended:
        body = await request.read()
        received = time.perf_counter()
        try:
            asked = read_object(body)
        except ValueError as error:
            return complaint(HTTPStatus.BAD_REQUEST, str(error)), "refused"
        read = time.perf_counter()
        try:
            async with self._places.place():
                placed = time.perf_counter()
                self._figures.queue.observe(placed - read)
                return await self._both(request, body, asked, received=received, queued_seconds=placed - read)
        except NoPlace:
            words = "the proxy is full: as many requests wait as are under way"
            return complaint(HTTPStatus.SERVICE_UNAVAILABLE, words), "refused"

    async def _both(
        self, request: web.Request, body: bytes, asked: dict[str, Any], *, received: float, queued_seconds: float
    ) -> _Ended:
        headers = passed_on(request.headers)
        # What was packed has been unpacked on the way in.
        headers.popall("Content-Encoding", None)
        headers.setdefault(REQUEST_ID, uuid.uuid4().hex)
        url = self._prefill.next_server() + request.path_qs
        first = await self._steps.ask("prefill", url, body=prefill_body(asked), headers=headers)
        prefilled = time.perf_counter()
        self._figures.prefill.observe(prefilled - first.sent_at)
        if first.status != HTTPStatus.OK:
            return answered(first), "prefill_error"
        body = decode_body(body, asked, transfer_of(first.body))
        url = self._decode.next_server() + request.path_qs
        async with self._steps.open("decode", url, body=body, headers=headers) as (response, sent):
            added = (first.sent_at - received - queued_seconds) + (sent.at - prefilled)
            return await self._back(request, response, received=received, added_seconds=added)

    async def _back(
        self, request: web.Request, response: aiohttp.ClientResponse, *, received: float, added_seconds: float
    ) -> _Ended:
        fine = response.status == HTTPStatus.OK

        def written(seconds: float) -> None:
            if fine:
                self._figures.added.observe(added_seconds + seconds)
                self._figures.ttft.observe(time.perf_counter() - received)

        return await relay(request, response, on_first=written), "ok" if fine else "decode_error"
