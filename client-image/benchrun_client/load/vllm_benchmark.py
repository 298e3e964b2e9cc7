"""The load engine: vLLM's own benchmark client, driven in one process for all stages.

People compare its figures, so the code that measures is not replaced. Two functions of
`vllm.benchmarks.serve` are called: `add_cli_args(parser)` and `main_async(args)`. These module
globals, which `main_async` looks up when it is called, are replaced:

    get_samples          returns prompts that were made before
    get_tokenizer        returns the tokenizer that was loaded before
    wait_for_endpoint    does nothing; it would send the first prompt once more before the stage
                         (which the oldest versions always do)
    aiohttp              opens sessions with benchrun's options; a streamed answer is read event by
                         event (`event_stream`)
    fetch_..._metrics    read metrics within benchrun's bounds, all from one copy of the text
    ASYNC_REQUEST_FUNCS  wrapped, to note when a request was sent and when its answer was complete,
                         to let users begin one by one (`UserRamp`), and to let them think
                         (`Thinking`)
    get_request          wrapped, to hand out each request when it is due (by `arrivals_of` or the
                         trace), to note that instant even if the loop wakes up late, to begin
                         together with other shards, and to hand out the turns of sessions when
                         those before are answered (`SessionSchedule`)

Because prompts are ready, no random number is drawn before the arrival times: these equal the times
of `vllm bench serve` with that seed.
"""

import argparse
import asyncio
import contextlib
import importlib.metadata
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, NoReturn, Protocol, Self

from benchrun_client.access import Access
from benchrun_client.contract import (
    GREEDY,
    NO_FIELDS,
    WHOLE_ANSWERS,
    Api,
    Load,
    LoadEngineVersion,
    RequestFields,
    SamplingParams,
    asked_body,
)
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.failures import RunFailure
from benchrun_client.http_session import proxies_set
from benchrun_client.light_imports import vllm_benchmark
from benchrun_client.load.closed_loop import Thinking, UserRamp, think_seconds
from benchrun_client.load.event_stream import StreamNotes
from benchrun_client.load.session_schedule import SessionSchedule
from benchrun_client.load.streaming_session import STREAM_NOTES
from benchrun_client.load.vllm_patches import (
    CONNECTS,
    PatchedAiohttp,
    SharedMetrics,
    always_ready,
)
from benchrun_client.server.first_request import PATHS
from benchrun_client.server.readiness import Servers
from benchrun_client.shards.load_split import Shard, Share, arrivals_of
from benchrun_client.stage_record import Instants, Thought

BACKENDS: dict[Api, str] = {
    "Completions": "openai",
    "Chat": "openai-chat",
    "Embeddings": "openai-embeddings",
}
LATENCIES = "ttft,tpot,itl,e2el"
# `get_request` of vLLM, or its replacement.
GetRequest = Callable[..., AsyncIterator[Any]]
METRICS_READERS = ("fetch_spec_decode_metrics", "fetch_diffusion_metrics")


class Begun(NamedTuple):
    """The instant and the user gap that all shards have agreed on."""

    at: float  # Instant at which the stage begins (`time.perf_counter`).
    user_gap_seconds: float | None
    """Time between the starts of two successive users; None: the shortest gap."""


@dataclass(frozen=True, slots=True)
class Divided:
    """One shard's part of a load that several shards send."""

    shard: Shard
    share: Share
    begin: Callable[[], Awaitable[Begun]]
    """Wait until all shards are ready for the first request; return when and how they begin."""


@dataclass(frozen=True, slots=True)
class EngineCall:
    """The prompts and settings of one call of the engine."""

    samples: Sequence[PromptRequest]  # The samples of all shards.
    seed: int
    load: Load
    api: Api
    ignore_eos: bool
    divided: Divided | None = None
    on_send: Callable[[], None] = lambda: None
    """Called right before the first request, so it must be quick; `on_answer` is called after each
    request."""
    on_answer: Callable[[], None] = lambda: None
    sampling: SamplingParams = GREEDY
    fields: RequestFields = NO_FIELDS
    user_gap_seconds: float | None = None
    """Time between the starts of two successive users, if one process sends; None: the shortest
    gap (`smallest_gap_seconds`)."""

    @property
    def has_tokens(self) -> bool:
        """Return whether answers have tokens."""
        return self.api not in WHOLE_ANSWERS

    @property
    def own(self) -> Self:
        """Return the part of the call that this process sends, if shards divide it."""
        if self.divided is None:
            return self
        share = self.divided.share
        return replace(
            self, samples=[self.samples[i] for i in share.requests], load=share.load
        )


class LoadEngine(Protocol):
    """An engine that sends one load after the other."""

    name: LoadEngineVersion
    instants: Instants
    """Instants of the current or last load, even if it was cut short. They are kept here because
    not every version of vLLM returns them."""

    async def run(self, call: EngineCall, servers: Servers) -> dict[str, Any]:
        """Send one load and return the engine's own result when every request has ended.

        Failed requests are in the result, not raised.
        """


class VllmEngine:
    """vLLM's benchmark: imported once, and used for every load of a run."""

    def __init__(
        self,
        *,
        tokenizer: Any,
        model: str,
        percentiles: Sequence[str],
        access: Access,
    ) -> None:
        self._access = access
        self._serve = vllm_benchmark()
        self._parser = _Parser()
        self._serve.add_cli_args(self._parser)
        self._model = model
        self._latencies: list[float] = []  # Seconds until each whole answer.
        self._percentiles = percentiles
        self.instants = Instants()
        self._sessions = PatchedAiohttp(
            self._serve.aiohttp, access=access, trust_env=proxies_set()
        )
        self.name = LoadEngineVersion(
            name="vllm",
            version=importlib.metadata.version("vllm"),
            trust_env=proxies_set(),
        )
        self._exchange_globals(tokenizer)

    async def run(self, call: EngineCall, servers: Servers) -> dict[str, Any]:
        self.instants = Instants(connects=[])
        self._call = call
        self._latencies = []
        self._body = asked_body(call.api, call.sampling, call.fields)
        self._models = self._asked_models(call)
        # Requests take turns over the servers; each shard begins with another.
        first = (
            0
            if call.divided is None
            else call.divided.shard.number % len(servers.urls)
        )
        self._urls = [
            url + PATHS[call.api]
            for url in (*servers.urls[first:], *servers.urls[:first])
        ]
        load = call.load
        speed = load.trace_speed
        self._due_after = (
            []
            if speed is None
            else [(s.at_seconds or 0.0) / speed for s in call.samples]
        )
        self._is_paced = load.rate is not None
        users = min(load.cap or 0, len(call.samples)) if load.closed_loop else 0
        self._ramp = UserRamp(
            users,
            gap_seconds=call.user_gap_seconds,
            own=call.divided.share.users
            if call.divided is not None and users
            else None,
        )
        seconds = think_seconds(
            load.think_time, seed=call.seed, requests=len(call.samples)
        )
        if call.divided is not None and seconds:
            seconds = [
                seconds[position] for position in call.divided.share.requests
            ]
        self._thinking = Thinking(seconds)
        own = call.own
        samples = [
            self._serve.SampleRequest(s.sent, s.input_tokens, s.output_tokens)
            for s in own.samples
        ]
        self._schedule = schedule_of(call)
        self._serve.get_samples = lambda *_, **__: samples
        try:
            # The figures come back as values; what is printed is for terminals.
            with contextlib.redirect_stdout(io.StringIO()):
                result: dict[str, Any] = await self._serve.main_async(
                    self._arguments(own, servers.urls[0])
                )
        finally:
            await self._sessions.close()
        return result if call.has_tokens else result | self._whole_answers()

    def _whole_answers(self) -> dict[str, Any]:
        """Return what vLLM does not tell of answers that come as a whole.

        An answer is all there when its first byte is; it has no tokens.
        """
        answers = len(self._latencies)
        return {
            "ttfts": self._latencies,
            "itls": [[] for _ in range(answers)],
            "output_lens": [0] * answers,
        }

    def _asked_models(self, call: EngineCall) -> Sequence[str]:
        """Return the model, or adapter, that each request of this process is for."""
        if call.load.sessions_at_once is not None:
            places = [each.place for each in call.samples if each.place is not None]
            return call.fields.models_of_sessions(
                self._model, places, seed=call.seed
            )
        models = call.fields.models(self._model, len(call.samples), seed=call.seed)
        if call.divided is None:
            return models
        return [models[position] for position in call.divided.share.requests]

    def _arguments(self, call: EngineCall, url: str) -> argparse.Namespace:
        flags = [
            *("--backend", BACKENDS[call.api]),
            *("--base-url", url),
            *("--endpoint", PATHS[call.api]),
            *("--model", self._model),
            # The name of a text dataset: for its own random ones vLLM would send each prompt
            # through /tokenize once more.
            *("--dataset-name", "sharegpt"),
            *("--num-prompts", str(len(call.samples))),
            *("--seed", str(call.seed)),
            *("--request-rate", call.load.request_rate),
            *("--burstiness", call.load.burstiness_text),
            *("--percentile-metrics", LATENCIES),
            *("--metric-percentiles", ",".join(self._percentiles)),
            *("--ready-check-timeout-sec", "0"),
            "--save-detailed",
            "--disable-tqdm",
        ]
        if call.load.cap is not None:
            flags += ["--max-concurrency", str(call.load.cap)]
        if call.ignore_eos and call.has_tokens:
            flags.append("--ignore-eos")
        arguments = self._parser.parse_args(flags)
        if hasattr(arguments, "endpoint_type"):
            # 0.10 reads the backend from its old name.
            arguments.endpoint_type = arguments.backend
        return arguments

    def _exchange_globals(self, tokenizer: Any) -> None:
        serve = self._serve
        serve.aiohttp = self._sessions
        serve.get_tokenizer = lambda *_, **__: tokenizer
        serve.wait_for_endpoint = always_ready
        serve.get_request = self._noting_due(serve.get_request)
        metrics = SharedMetrics()
        # Newer versions than the oldest read the metrics around every load.
        for number, name in enumerate(
            name for name in METRICS_READERS if hasattr(serve, name)
        ):
            setattr(
                serve,
                name,
                metrics.bounded(getattr(serve, name), first=number == 0),
            )
        functions = serve.ASYNC_REQUEST_FUNCS
        functions.update(
            {
                backend: self._noting_answers(functions[backend])
                for backend in BACKENDS.values()
                # The oldest versions lack that of embeddings, and refuse its name.
                if backend in functions
            }
        )

    def _noting_due(self, get_request: GetRequest) -> GetRequest:
        async def noted(*args: Any, **kwargs: Any) -> AsyncIterator[Any]:
            if self._schedule is not None:
                async for request in self._of_sessions(
                    self._schedule, get_request, *args, **kwargs
                ):
                    yield request
                return
            if self._call.divided is not None or self._is_paced:
                async for request in self._at_instants(
                    get_request, *args, **kwargs
                ):
                    yield request
                return
            start = time.perf_counter()
            async for request in get_request(*args, **kwargs):
                # Without a rate vLLM hands out all at once: the trace holds each back.
                number = len(self.instants.due)
                await self._hold(
                    start + self._due_after[number]
                    if self._due_after
                    else time.perf_counter()
                )
                yield request

        return noted

    async def _of_sessions(
        self,
        schedule: SessionSchedule,
        get_request: GetRequest,
        own: list[Any],
        *args: Any,
        **kwargs: Any,
    ) -> AsyncIterator[Any]:
        """Yield the turns of sessions when they are due.

        The list of requests is put into the order of sending, and what was lost is taken out:
        vLLM matches it with the answers.
        """
        # Without a rate vLLM hands out all at once.
        whole = [each async for each in get_request(own, *args, **kwargs)]
        requests = list(own)
        async for due in schedule.turns():
            self.instants.due.append(due.at)
            yield whole[due.position]
        self.instants.order = schedule.order
        own[:] = [requests[position] for position in schedule.order]

    async def _hold(self, due: float) -> None:
        """Wait until a request is due, and note that instant even if the loop wakes up later."""
        if (wait := due - time.perf_counter()) > 0:
            await asyncio.sleep(wait)
        self.instants.due.append(due)

    async def _at_instants(
        self, get_request: GetRequest, own: Sequence[Any], *args: Any, **kwargs: Any
    ) -> AsyncIterator[Any]:
        """Yield each request of this process when it is due.

        The instants are computed for the requests of all shards, so that they do not depend on the
        division.
        """
        requests = len(self._call.samples)
        divided = self._call.divided
        instants, beside = await arrivals_of(
            self._serve, get_request, *args, requests=requests, **kwargs
        )
        instants = self._due_after or instants
        if divided is None:
            start = time.perf_counter()
            positions = list(range(requests))
        else:
            start, gap_seconds = await divided.begin()
            self._ramp.agree(start, requests=requests, gap_seconds=gap_seconds)
            positions = list(divided.share.requests)
        for request, position in zip(own, positions, strict=True):
            await self._hold(start + instants[position])
            yield request, beside[position]

    def _position(self, number: int) -> int:
        """Return the position, among this process's requests, of the one sent as this number."""
        return number if self._schedule is None else self._schedule.order[number]

    def _noting_answers(
        self, send: Callable[..., Awaitable[Any]]
    ) -> Callable[..., Awaitable[Any]]:
        async def noted(request_func_input: Any, *args: Any, **kwargs: Any) -> Any:
            instants = self.instants
            thinking = self._thinking
            # Requests come in order: vLLM's semaphore is first come, first served.
            number = len(instants.sent)
            instants.sent.append(0.0)
            instants.answered.append(0.0)
            instants.ok.append(False)
            instants.ended.append(False)
            instants.closed.append(False)
            instants.first_chunks.append(0.0)
            instants.stopped.append(False)
            self._latencies.append(0.0)
            thinking.enter()
            due = await self._ramp.turn()
            if due is not None:
                instants.due[number] = due
            if number == 0:
                self._call.on_send()
            # Requests take turns over the servers; a connection pool alone would favour the server
            # that answers first.
            request_func_input.api_url = self._urls[number % len(self._urls)]
            # Some versions have no argument for part of it, and defaults that differ; each sends
            # what is here, over its own.
            request_func_input.extra_body = self._body
            model = self._models[self._position(number)]
            request_func_input.model = model
            request_func_input.model_name = model
            CONNECTS.set(instants.connects)
            notes = StreamNotes()
            STREAM_NOTES.set(notes)
            instants.sent[number] = time.perf_counter()
            output = await send(request_func_input, *args, **kwargs)
            instants.answered[number] = time.perf_counter()
            instants.ok[number] = bool(output.success)
            self._latencies[number] = output.latency
            # Nothing but the usage chunk sets it, in all versions from 0.10 on; its own count vLLM
            # makes later, elsewhere.
            counted = (
                output.output_tokens if self._call.has_tokens else output.prompt_len
            )
            instants.ended[number] = bool(counted)
            instants.closed[number] = notes.is_closed
            instants.first_chunks[number] = notes.first_chunk_at or 0.0
            if (thought := thought_of(notes, output.output_tokens)) is not None:
                instants.thoughts[number] = thought
            instants.stopped[number] = notes.finish_reason == STOPPED
            instants.reconnected += notes.reconnects
            if notes.cached is not None:
                instants.cached[number] = notes.cached
            if notes.problem is not None:
                output.error = notes.problem
            if not output.success:
                output.error = self._access.hide(output.error)
            if self._schedule is not None:
                self._schedule.answered(number, ok=instants.ok[number])
            self._call.on_answer()
            await thinking.after(number)
            return output

        return noted


def schedule_of(call: EngineCall) -> SessionSchedule | None:
    """Return when the turns of a load of sessions are due; None for any other load.

    Raises RunFailure `ClientError` for requests without sessions, or a load that shards divide.
    """
    if call.load.sessions_at_once is None:
        return None
    places = [each.place for each in call.samples if each.place is not None]
    if len(places) < len(call.samples) or call.divided is not None:
        raise RunFailure(
            "ClientError",
            "a load of sessions needs a dataset of sessions, and one process that sends it",
        )
    return SessionSchedule(places, sessions_at_once=call.load.sessions_at_once)


STOPPED = "stop"  # Finish reason of an answer that the model ended itself.
UNCOUNTED_TAGS = 4
"""Most tokens of an answer in no chunk: those that begin and end the reasoning, and the answer."""


def thought_of(notes: StreamNotes, output_tokens: int | None) -> Thought | None:
    """Return when an answer's reasoning came, and its tokens; None if it has no reasoning.

    The number of tokens is the server's count, unless that is above the number of all tokens.
    Without it, the chunks of reasoning are counted if the answer has as many chunks as tokens, or
    at most `UNCOUNTED_TAGS` fewer. Otherwise the number is None.
    """
    if notes.first_reasoning_at is None:
        return None
    output = output_tokens or 0
    tokens = notes.reasoning_tokens
    if tokens is not None and tokens > output:
        tokens = None
    hidden = output - notes.chunks
    if tokens is None and 0 <= hidden <= UNCOUNTED_TAGS:
        tokens = notes.reasoning_chunks
    return Thought(notes.first_reasoning_at, notes.first_answer_at, tokens)


class _Parser(argparse.ArgumentParser):
    """A parser that raises RunFailure instead of ending the process."""

    def error(self, message: str) -> NoReturn:
        raise RunFailure(
            "ClientError",
            f"this version of vLLM refuses the client's arguments: {message}",
        )
