"""The engine's small port: what a client and a scraper look for at a server, and one path that takes a load.

GET  /health, /version, /v1/models, /metrics     as vLLM's API server answers them
POST /load                                       an `OfflineLoad`; empty lines while it is generated, then an `OfflineAnswer`
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable
from concurrent.futures import Future

from aiohttp import web
from pydantic import ValidationError

from benchrun_client.failures import first_line
from benchrun_client.offline.messages import LOAD_PATH, OfflineAnswer, OfflineLoad

MAX_LOAD_BYTES = 1024 * 1024 * 1024
"""50,000 prompts of 4,000 tokens."""
HEARTBEAT_SECONDS = 5.0
Job = tuple[OfflineLoad, Future[OfflineAnswer]]


class EnginePort:
    """HTTP face of the engine. Loads go through a queue to the thread that owns the engine, one at a time."""

    def __init__(self, *, version: str, model: str, context_tokens: int, metrics: Callable[[], bytes]) -> None:
        self._version, self._model, self._context_tokens = version, model, context_tokens
        self._metrics = metrics
        self.jobs: queue.Queue[Job] = queue.Queue()

    async def start(self, *, address: str, port: int) -> int:
        """Listen, and return the port."""
        app = web.Application(client_max_size=MAX_LOAD_BYTES)
        app.add_routes(
            [
                web.get("/health", self._answer_health),
                web.get("/version", self._answer_version),
                web.get("/v1/models", self._answer_models),
                web.get("/metrics", self._answer_metrics),
                web.post(LOAD_PATH, self._answer_load),
            ]
        )
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, address, port).start()
        bound: int = runner.addresses[0][1]
        return bound

    async def _answer_health(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _answer_version(self, _: web.Request) -> web.Response:
        return web.json_response({"version": self._version})

    async def _answer_models(self, _: web.Request) -> web.Response:
        model = {"id": self._model, "object": "model", "max_model_len": self._context_tokens}
        return web.json_response({"object": "list", "data": [model]})

    async def _answer_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": "text/plain; version=0.0.4"})

    async def _answer_load(self, request: web.Request) -> web.StreamResponse:
        try:
            load = OfflineLoad.model_validate_json(await request.read())
        except ValidationError as error:
            return web.Response(status=400, text=f"{first_line(str(error))}\n")
        done: Future[OfflineAnswer] = Future()
        self.jobs.put((load, done))
        answer = asyncio.wrap_future(done)
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        while not (await asyncio.wait([answer], timeout=HEARTBEAT_SECONDS))[0]:
            await response.write(b"\n")
        await response.write(answer.result().model_dump_json().encode() + b"\n")
        await response.write_eof()
        return response
