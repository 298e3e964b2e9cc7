"""The engine's small port, and a load put to vLLM's engine.

GET  /health, /version, /v1/models, /metrics     as vLLM's API server answers them
POST /load                                       an `OfflineLoad`; empty lines while it is generated, then an `OfflineAnswer`
"""

from __future__ import annotations

import asyncio
import importlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import pairwise
from typing import Any

from aiohttp import web
from pydantic import ValidationError

from benchrun_client.failures import first_line
from benchrun_client.offline.messages import LOAD_PATH, OfflineAnswer, OfflineLoad, OfflineTimes

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


# ---- generating -------------------------------------------------------------------------------------------------------
# A load put to vLLM's engine, and the times of its requests.
#
# The call, and how it samples, are those of vLLM's `benchmarks/throughput.py` (one call) and `benchmarks/latency.py` (one call a
# batch): temperature 1, nothing cut off.


class NoTimesKept(Exception):
    """The engine answered and does not tell when."""


def generated(llm: Any, load: OfflineLoad) -> OfflineTimes:
    """Have the engine answer every prompt; returns when it has.

    Args:
        llm: a `vllm.LLM` that keeps statistics.

    Raises:
        NoTimesKept: by this engine no request has times of its own.
        Exception: whatever vLLM raises about a prompt.
    """
    size = load.batch_size or len(load.prompts)
    bounds = [*range(0, len(load.prompts), size), len(load.prompts)]
    begun = time.perf_counter()
    calls = [_call(llm, load, first, end, begun=begun) for first, end in pairwise(bounds)]
    took = time.perf_counter() - begun
    return OfflineTimes(
        sent=_joined([call.sent for call in calls]),
        ttft=_joined([call.ttft for call in calls]),
        e2el=_joined([call.e2el for call in calls]),
        output_tokens=tuple(tokens for call in calls for tokens in call.output_tokens),
        call_seconds=tuple(call.took_seconds for call in calls),
        took_seconds=took,
    )


def _joined(columns: Sequence[Sequence[float]]) -> tuple[float, ...]:
    return tuple(value for column in columns for value in column)


def _call(llm: Any, load: OfflineLoad, first: int, end: int, *, begun: float) -> OfflineTimes:
    params = [_sampling(tokens, ignore_eos=load.ignore_eos) for tokens in load.output_tokens[first:end]]
    prompts = load.prompts[first:end]
    start, wall = time.perf_counter(), time.time()
    if load.api == "Chat":
        messages = [[{"role": "user", "content": prompt}] for prompt in prompts]
        outputs = llm.chat(messages, params, use_tqdm=False)
    else:
        outputs = llm.generate(list(prompts), params, use_tqdm=False)
    took = time.perf_counter() - start
    return times_of(outputs, called_at=start - begun, wall=wall, took=took, as_batch=load.batch_size is not None)


def times_of(outputs: Sequence[Any], *, called_at: float, wall: float, took: float, as_batch: bool) -> OfflineTimes:
    """The times of one call's requests.

    Args:
        outputs: vLLM's, one a prompt, in order.
        called_at: when the call was made; seconds from the first.
        wall: the same as Unix time, by which vLLM notes arrivals.
        took: how long the call took.
        as_batch: every request began with the call and ended with it, as for whoever waits for the whole batch.

    Raises:
        NoTimesKept: vLLM tells none.
    """
    stats = [output.metrics for output in outputs]
    if any(each is None for each in stats):
        raise NoTimesKept(
            "this version of vLLM tells no times of requests without its API server (0.11 and later do), "
            "or --disable-log-stats is among the arguments"
        )
    waits = [min(max(each.arrival_time - wall, 0.0), took) for each in stats]
    first_tokens = [max(each.first_token_latency, 0.0) for each in stats]
    decodes = [max(each.last_token_ts - each.first_token_ts, 0.0) for each in stats]
    answered = [sum(len(each.token_ids) for each in output.outputs) for output in outputs]
    if as_batch:
        return OfflineTimes(
            sent=(called_at,) * len(stats),
            ttft=tuple(min(wait + ttft, took) for wait, ttft in zip(waits, first_tokens, strict=True)),
            e2el=(took,) * len(stats),
            output_tokens=tuple(answered),
            call_seconds=(took,),
            took_seconds=took,
        )
    return OfflineTimes(
        sent=tuple(called_at + wait for wait in waits),
        ttft=tuple(first_tokens),
        e2el=tuple(ttft + decode for ttft, decode in zip(first_tokens, decodes, strict=True)),
        output_tokens=tuple(answered),
        call_seconds=(took,),
        took_seconds=took,
    )


def _sampling(output_tokens: int, *, ignore_eos: bool) -> Any:
    params = importlib.import_module("vllm").SamplingParams
    return params(n=1, temperature=1.0, top_p=1.0, ignore_eos=ignore_eos, max_tokens=output_tokens)
