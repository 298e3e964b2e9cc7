"""A small HTTP server for vLLM's engine, and how the engine is given a load.

GET  /health, /version, /v1/models, /metrics    as vLLM's API server answers them
POST /load                                      an `OfflineLoad`; empty lines while it is generated,
                                                then an `OfflineAnswer`
"""

import asyncio
import importlib
import queue
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import chain, pairwise
from typing import Annotated, Any, Self

from aiohttp import web
from pydantic import Field, ValidationError, model_validator

from benchrun_client.contract import (
    GREEDY,
    MAX_REQUESTS_A_STAGE,
    MAX_TEMPLATE_CHARACTERS,
    Api,
    Message,
    SamplingParams,
)
from benchrun_client.failures import first_line
from benchrun_client.http_session import listen

MAX_LOAD_BYTES = 1024 * 1024 * 1024  # Largest load: 50,000 prompts of 4,000 tokens.
HEARTBEAT_SECONDS = 5.0
LOAD_PATH = "/load"
Seconds = Annotated[float, Field(ge=0)]


class OfflineLoad(Message):
    """The body of POST /load: every prompt of a stage."""

    prompts: tuple[str, ...] = Field(min_length=1, max_length=MAX_REQUESTS_A_STAGE)
    output_tokens: tuple[Annotated[int, Field(ge=1)], ...]
    """Number of tokens to generate for each prompt."""
    batch_size: int | None = Field(default=None, ge=1)
    """Prompts in each call, one call after the other; None: all in one call."""
    api: Api = "Completions"  # Chat puts each prompt into a chat template.
    chat_template: str | None = Field(None, max_length=MAX_TEMPLATE_CHARACTERS)
    """Template that replaces the model's own; None: the model's own."""
    ignore_eos: bool = True
    sampling: SamplingParams = GREEDY

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        if len(self.prompts) != len(self.output_tokens):
            raise ValueError(
                f"prompts and output_tokens must be equally long, got {len(self.prompts)} and "
                f"{len(self.output_tokens)}"
            )
        return self


class OfflineTimes(Message):
    """The times of a load in seconds, one entry a prompt; instants count from the first call."""

    sent: tuple[Seconds, ...]  # Instant at which the engine accepted the request.
    ttft: tuple[Seconds, ...]
    e2el: tuple[Seconds, ...]
    output_tokens: tuple[Annotated[int, Field(ge=0)], ...]
    call_seconds: tuple[Seconds, ...]  # Time of each call.
    took_seconds: Seconds  # Time of all calls, with the pauses between them.


class OfflineAnswer(Message):
    """The last line of the answer, with exactly one field set.

    The lines before it are empty, and keep the connection alive.
    """

    times: OfflineTimes | None = None
    error: str | None = None  # Reason why the engine refused the load.


class EngineServer:
    """An HTTP server for the engine.

    Loads go through a queue to the thread that owns the engine, one at a time.
    """

    def __init__(
        self,
        *,
        version: str,
        model: str,
        context_tokens: int,
        metrics: Callable[[], bytes],
    ) -> None:
        self._version = version
        self._model = model
        self._context_tokens = context_tokens
        self._metrics = metrics
        self.jobs: queue.Queue[tuple[OfflineLoad, Future[OfflineAnswer]]] = (
            queue.Queue()
        )

    async def start(self, *, address: str, port: int) -> int:
        app = web.Application(client_max_size=MAX_LOAD_BYTES)
        gets = (
            web.get(path, self._answer_get)
            for path in ("/health", "/version", "/v1/models", "/metrics")
        )
        app.add_routes([*gets, web.post(LOAD_PATH, self._answer_load)])
        return (await listen(app, address=address, port=port))[1]

    async def _answer_get(self, request: web.Request) -> web.Response:
        match request.path:
            case "/version":
                return web.json_response({"version": self._version})
            case "/v1/models":
                model = {
                    "id": self._model,
                    "object": "model",
                    "max_model_len": self._context_tokens,
                }
                return web.json_response({"object": "list", "data": [model]})
            case "/metrics":
                return web.Response(
                    body=self._metrics(),
                    headers={"Content-Type": "text/plain; version=0.0.4"},
                )
        return web.Response()

    async def _answer_load(self, request: web.Request) -> web.StreamResponse:
        try:
            load = OfflineLoad.model_validate_json(await request.read())
        except ValidationError as error:
            return web.Response(status=400, text=f"{first_line(error)}\n")
        done: Future[OfflineAnswer] = Future()
        self.jobs.put((load, done))
        answer = asyncio.wrap_future(done)
        response = web.StreamResponse(
            headers={"Content-Type": "application/x-ndjson"}
        )
        await response.prepare(request)
        while not (await asyncio.wait([answer], timeout=HEARTBEAT_SECONDS))[0]:
            await response.write(b"\n")
        await response.write(answer.result().model_dump_json().encode() + b"\n")
        await response.write_eof()
        return response


class NoTimesKept(Exception):
    """The engine generated the answers, but recorded no times of requests."""


def generated(llm: Any, load: OfflineLoad) -> OfflineTimes:
    """Let the engine answer every prompt, and return the times.

    `llm` is a `vllm.LLM` that records statistics. Raises NoTimesKept, and any error of vLLM.
    """
    size = load.batch_size or len(load.prompts)
    bounds = [*range(0, len(load.prompts), size), len(load.prompts)]
    begun = time.perf_counter()
    calls = [
        _call(llm, load, first, end, begun=begun) for first, end in pairwise(bounds)
    ]
    took = time.perf_counter() - begun
    joined = {
        name: tuple(chain.from_iterable(getattr(call, name) for call in calls))
        for name in ("sent", "ttft", "e2el", "output_tokens", "call_seconds")
    }
    return OfflineTimes(**joined, took_seconds=took)


def _call(
    llm: Any, load: OfflineLoad, first: int, end: int, *, begun: float
) -> OfflineTimes:
    fixed = {"n": 1, "ignore_eos": load.ignore_eos, **load.sampling.body()}
    sampling = importlib.import_module("vllm").SamplingParams
    params = [
        sampling(**fixed, max_tokens=tokens)
        for tokens in load.output_tokens[first:end]
    ]
    prompts = load.prompts[first:end]
    start = time.perf_counter()
    wall = time.time()
    if load.api == "Chat":
        messages = [[{"role": "user", "content": prompt}] for prompt in prompts]
        outputs = llm.chat(
            messages, params, use_tqdm=False, chat_template=load.chat_template
        )
    else:
        outputs = llm.generate(list(prompts), params, use_tqdm=False)
    took = time.perf_counter() - start
    return times_of(
        outputs,
        called_at=start - begun,
        wall=wall,
        took=took,
        as_batch=load.batch_size is not None,
    )


def times_of(
    outputs: Sequence[Any],
    *,
    called_at: float,
    wall: float,
    took: float,
    as_batch: bool,
) -> OfflineTimes:
    """Return the times of one call's requests; `outputs` are vLLM's, one a prompt, in order.

    `called_at` is the instant of the call in seconds after the first call. `wall` is the same
    instant in Unix time, in which vLLM notes arrivals. `took` is the length of the call in seconds.
    With `as_batch` every request begins and ends with the call, as for a caller that waits for the
    whole batch. Raises NoTimesKept.
    """
    stats = [output.metrics for output in outputs]
    if any(each is None for each in stats):
        raise NoTimesKept(
            "this version of vLLM gives no times of requests without its API server (0.11 and "
            "later do), "
            "or --disable-log-stats is among the arguments"
        )
    arrivals = [min(max(each.arrival_time - wall, 0.0), took) for each in stats]
    first_tokens = [max(each.first_token_latency, 0.0) for each in stats]
    decodes = [max(each.last_token_ts - each.first_token_ts, 0.0) for each in stats]
    if as_batch:
        sent = [called_at] * len(stats)
        e2el = [took] * len(stats)
        ttft = [
            min(wait + first, took)
            for wait, first in zip(arrivals, first_tokens, strict=True)
        ]
    else:
        sent = [called_at + wait for wait in arrivals]
        ttft = first_tokens
        e2el = [
            first + decode
            for first, decode in zip(first_tokens, decodes, strict=True)
        ]
    return OfflineTimes(
        sent=tuple(sent),
        ttft=tuple(ttft),
        e2el=tuple(e2el),
        output_tokens=tuple(
            sum(len(each.token_ids) for each in output.outputs)
            for output in outputs
        ),
        call_seconds=(took,),
        took_seconds=took,
    )
