"""The path of a completion: to a prefill server for one token, to a decode server, and back.

With vLLM connectors such as NIXL, the prefill server's answer says where the prompt's KV blocks
are; that is added to the request to the decode server. Other connectors find blocks by the prompt;
then the decode server gets the client's request unchanged.
"""

import asyncio
import json
import time
import uuid
from http import HTTPStatus
from typing import Any

import aiohttp
from aiohttp import web

from benchrun_client.proxy import upstream
from benchrun_client.proxy.metrics import Outcome, ProxyMetrics

REQUEST_ID = "X-Request-Id"
TRANSFER = "kv_transfer_params"
_TO_PREFILL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    **dict.fromkeys(
        ("remote_engine_id", "remote_block_ids", "remote_host", "remote_port")
    ),
}
_OF_THE_ANSWER = (
    "stream_options",
    "min_tokens",
    "max_tokens",
    "max_completion_tokens",
)
"""Fields for the answer's length and form. They are removed for prefill, whose answer is one token,
not streamed."""


def read_object(body: bytes) -> dict[str, Any]:
    """Parse the client's request; raise ValueError if it is not a JSON object."""
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ValueError("the body is not JSON") from error
    if not isinstance(fields, dict):
        raise ValueError("the body is not a JSON object")
    return fields


def prefill_body(fields: dict[str, Any]) -> bytes:
    """Return the request's body for the prefill server: one token, not streamed.

    It says that another server will fetch the KV blocks.
    """
    most = (
        "max_completion_tokens"
        if fields.get("max_completion_tokens") is not None
        else "max_tokens"
    )
    kept = {
        name: value for name, value in fields.items() if name not in _OF_THE_ANSWER
    }
    return json.dumps(
        kept | {most: 1, "stream": False, TRANSFER: _TO_PREFILL}
    ).encode()


def decode_body(body: bytes, fields: dict[str, Any], answer: bytes) -> bytes:
    """Return the client's request with the location of the KV blocks on the prefill server.

    If the prefill server's answer does not give the location, the client's bytes are returned
    unchanged.
    """
    try:
        transfer = read_object(answer).get(TRANSFER)
    except ValueError:
        return body
    return (
        json.dumps(fields | {TRANSFER: transfer}).encode()
        if isinstance(transfer, dict)
        else body
    )


# An answer, and the outcome that it counts as.
_Ended = tuple[web.StreamResponse, Outcome]


class Forwarder:
    def __init__(
        self,
        prefill: upstream.UpstreamRole,
        decode: upstream.UpstreamRole,
        *,
        session: aiohttp.ClientSession,
        places: upstream.InFlightLimit,
        metrics: ProxyMetrics,
    ) -> None:
        self._prefill = prefill
        self._decode = decode
        self._session = session
        self._places = places
        self._metrics = metrics

    async def forward(self, request: web.Request) -> web.StreamResponse:
        outcome: Outcome = "refused"
        try:
            response, outcome = await self._admitted(request)
            return response
        except (asyncio.CancelledError, ConnectionResetError):
            outcome = "client_gone"
            raise
        except upstream.Unreachable as error:
            outcome = (
                "prefill_unreachable"
                if error.role == "prefill"
                else "decode_unreachable"
            )
            return upstream.refusal(HTTPStatus.BAD_GATEWAY, str(error))
        except upstream.Broken as error:
            outcome = "broken"
            return error.response
        finally:
            self._metrics.count(outcome)

    async def _admitted(self, request: web.Request) -> _Ended:
        body = await request.read()
        received = time.perf_counter()
        try:
            fields = read_object(body)
        except ValueError as error:
            return upstream.refusal(HTTPStatus.BAD_REQUEST, str(error)), "refused"
        read = time.perf_counter()
        try:
            async with self._places.place():
                placed = time.perf_counter()
                self._metrics.queue.observe(placed - read)
                return await self._both(
                    request,
                    body,
                    fields,
                    received=received,
                    queued_seconds=placed - read,
                )
        except asyncio.QueueFull:
            problem = "the proxy is full: as many requests as --max-in-flight allows already wait"
            return upstream.refusal(
                HTTPStatus.SERVICE_UNAVAILABLE, problem
            ), "refused"

    async def _both(
        self,
        request: web.Request,
        body: bytes,
        fields: dict[str, Any],
        *,
        received: float,
        queued_seconds: float,
    ) -> _Ended:
        headers = upstream.passed_on(request.headers)
        # What was packed has been unpacked on the way in.
        headers.popall("Content-Encoding", None)
        headers.setdefault(REQUEST_ID, uuid.uuid4().hex)
        url = self._prefill.next_server() + request.path_qs
        first = await upstream.post(
            self._session,
            "prefill",
            url,
            body=prefill_body(fields),
            headers=headers,
        )
        prefilled = time.perf_counter()
        self._metrics.prefill.observe(prefilled - first.sent_at)
        if first.status != HTTPStatus.OK:
            kept = upstream.passed_on(first.headers)
            return web.Response(
                status=first.status, body=first.body, headers=kept
            ), "prefill_error"
        body = decode_body(body, fields, first.body)
        url = self._decode.next_server() + request.path_qs
        async with upstream.open_answer(
            self._session, "decode", url, body=body, headers=headers
        ) as (answer, sent):
            added = (first.sent_at - received - queued_seconds) + (
                sent.at - prefilled
            )

            def on_first(seconds: float) -> None:
                if answer.status == HTTPStatus.OK:
                    self._metrics.added.observe(added + seconds)
                    self._metrics.ttft.observe(time.perf_counter() - received)

            response = await upstream.relay(request, answer, on_first=on_first)
            return (
                response,
                "ok" if answer.status == HTTPStatus.OK else "decode_error",
            )
