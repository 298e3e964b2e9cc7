"""The HTTP server from which the operator fetches records; `contract` describes its four paths.

GET /records is answered when there is something new, at the latest after `MAX_WAIT_SECONDS`. Where
that is only a new stage, the answer may wait `MAX_SETTLE_SECONDS` for the record of the one before,
which saves the operator a connection. It needs the run's token, and so does POST /ack: an
acknowledged record is deleted here.
"""

import asyncio
import contextlib
from functools import partial
from typing import get_args

from aiohttp import web
from pydantic import ValidationError

from benchrun_client.contract import (
    CONTRACT_QUERY,
    SETTLE_QUERY,
    TOKEN_HEADER,
    Acknowledgement,
    ClientPhase,
    as_asked,
    pack_delivery,
)
from benchrun_client.http_session import listen, metric_family
from benchrun_client.run_progress import RunProgress

MAX_WAIT_SECONDS = 30.0
MAX_SETTLE_SECONDS = 5.0
MAX_BODY_BYTES = 4096
LAST_ANSWERS_SECONDS = 2.0


class RecordServer:
    """The HTTP server for a run's state; only its construction may be outside its event loop."""

    def __init__(self, state: RunProgress) -> None:
        self._state = state
        self._changed = asyncio.Event()
        self._runner: web.AppRunner | None = None

    async def start(self, *, address: str, port: int) -> int:
        self._state.listen(
            partial(asyncio.get_running_loop().call_soon_threadsafe, self._wake)
        )
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.router.add_get("/ready", self._answer_ready)
        app.router.add_get("/records", self._answer_records)
        app.router.add_post("/ack", self._answer_ack)
        app.router.add_get("/metrics", self._answer_metrics)
        self._runner, bound = await listen(
            app, address=address, port=port, shutdown_timeout=LAST_ANSWERS_SECONDS
        )
        return bound

    async def stop(self) -> None:
        """Close the port; wait at most `LAST_ANSWERS_SECONDS` for answers that are being sent."""
        if self._runner:
            await self._runner.cleanup()

    async def wait_until_delivered(self) -> None:
        while not self._state.is_delivered():
            await self._changed.wait()

    def _wake(self) -> None:
        # A waiter holds the old event; a new one is there before it waits again, so no change is
        # missed.
        self._changed.set()
        self._changed = asyncio.Event()

    async def _answer_ready(self, _: web.Request) -> web.Response:
        return (
            web.Response(text="ready\n")
            if self._state.ready
            else web.Response(status=503, text="preparing\n")
        )

    async def _answer_records(self, request: web.Request) -> web.Response:
        try:
            asked = request.query.get(CONTRACT_QUERY)
            contract = None if asked is None else int(asked)
            first = int(request.query.get("from", "0"))
            seen = int(request.query.get("seen", "-1"))
            wait_seconds = _seconds(request, "wait", MAX_WAIT_SECONDS)
            settle_seconds = _seconds(request, SETTLE_QUERY, MAX_SETTLE_SECONDS)
        except ValueError:
            return web.Response(
                status=400,
                text="from, seen and contract must be integers, wait and settle numbers of "
                "seconds\n",
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(wait_seconds):
                # Each time anew: the plan may have been read since.
                while may_read := self._state.may_read(_token(request)):
                    if self._state.has_news(first=first, seen=seen):
                        break
                    await self._changed.wait()
        if not may_read:
            return _unauthorized()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settle_seconds):
                while self._state.has_only_a_new_stage(first=first, seen=seen):
                    await self._changed.wait()
        delivery, bodies = self._state.delivery(first=first)
        packed = pack_delivery(as_asked(delivery, contract), bodies)
        return web.Response(body=packed, content_type="application/octet-stream")

    async def _answer_ack(self, request: web.Request) -> web.Response:
        if not self._state.may_acknowledge(_token(request)):
            return _unauthorized()
        try:
            ack = Acknowledgement.model_validate_json(await request.read())
        except ValidationError:
            return web.Response(
                status=400, text="the body is not an acknowledgement\n"
            )
        if not self._state.acknowledge(ack.through):
            return web.Response(
                status=409,
                text="the field through is larger than the number of records\n",
            )
        return web.Response(status=204)

    async def _answer_metrics(self, _: web.Request) -> web.Response:
        progress = self._state.progress()
        phases = {
            f'{{phase="{each}"}}': int(each == progress.phase)
            for each in get_args(ClientPhase)
        }
        gauges = (
            ("phase", "1 for the phase that the client is in.", phases),
            ("records", "Stages measured.", {"": progress.records}),
            (
                "stage_requests_done",
                "Answers in the current stage so far.",
                {"": progress.requests_done},
            ),
        )
        families = [
            metric_family(f"benchrun_client_{name}", "gauge", about, values)
            for name, about, values in gauges
        ]
        return web.Response(
            text="".join(families),
            headers={"Content-Type": "text/plain; version=0.0.4"},
        )


def _seconds(request: web.Request, name: str, most: float) -> float:
    """Return a parameter as seconds, 0 without it. Raises ValueError for what is no number."""
    return min(max(0.0, float(request.query.get(name, "0"))), most)


def _token(request: web.Request) -> str:
    return request.headers.get(TOKEN_HEADER) or request.headers.get(
        "Authorization", ""
    ).removeprefix("Bearer ")


def _unauthorized() -> web.Response:
    return web.Response(
        status=401,
        text="the run's token is needed\n",
        headers={"WWW-Authenticate": "Bearer"},
    )
