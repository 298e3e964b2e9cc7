"""One generation from request to last byte: accepted or refused, planned, run, logged."""

import asyncio
import json
import os
import time
from http import HTTPStatus
from itertools import count

from benchrun_simulator.answers import Answer, Naming
from benchrun_simulator.dialects import DIALECTS
from benchrun_simulator.engine import Engine
from benchrun_simulator.engine_metrics import Served
from benchrun_simulator.faults import FaultPlan
from benchrun_simulator.generation import (
    Embedding,
    Generation,
    compact,
    internal_error,
    too_many_requests,
)
from benchrun_simulator.http_protocol import Exchange
from benchrun_simulator.reply import Reply
from benchrun_simulator.request_log import RequestLog
from benchrun_simulator.restart import Lifetime
from benchrun_simulator.sequence import Sequence
from benchrun_simulator.settings import Settings
from benchrun_simulator.tokens import OutputText

DIMENSIONS = 64
"""Numbers of an embedding."""
ENGINE_DEAD = (
    "EngineCore encountered an issue. See stack trace (above) for the root cause."
)


class Completions:
    """A server of generations, completions and chats."""

    def __init__(
        self,
        *,
        settings: Settings,
        engine: Engine,
        output_text: OutputText,
        request_log: RequestLog | None,
        plan: FaultPlan,
        lifetime: Lifetime,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._output_text = output_text
        self._request_log = request_log
        self._plan = plan
        self._lifetime = lifetime
        self._loop = loop
        self._reasoning_key = DIALECTS[settings.engine].reasoning_key
        self._numbers = count(1)

    def serve(self, exchange: Exchange, generation: Generation) -> None:
        """Start one generation; the answer follows as its tokens fall due."""
        self._refuse_if_due()
        number = next(self._numbers)
        self._lifetime.request(number)
        tokens, reason = self._planned(generation)
        _spend(self._settings.frontend_seconds)
        sequence = Sequence(
            prompt=generation.prompt,
            output=self._output_text.plan(generation.prompt, tokens),
            arrived_at=self._loop.time()
            if self._settings.frontend_seconds
            else exchange.request.arrived_at,
            number=number,
            salt=generation.salt,
            elsewhere_tokens=self._elsewhere(generation),
        )
        request_id = exchange.request.headers.get("x-request-id", f"{number:016x}")
        reply = Reply(
            settings=self._settings,
            exchange=exchange,
            generation=generation,
            answer=Answer(
                generation,
                self._naming(generation, request_id),
                reasoning_key=self._reasoning_key,
            ),
            output_text=self._output_text,
            reason=reason,
            transfer=self._handed_over(generation, request_id),
            loses_end=generation.stream and self._plan.next_stream_loses_its_end(),
            clock=self._loop.time,
            abort=self._engine.abort,
            finished=lambda reply, served: self._finished(
                reply, served, request_id=request_id
            ),
        )
        exchange.on_disconnect = lambda: self._engine.abort(sequence)
        self._engine.run(
            sequence,
            max_tokens=generation.max_tokens,
            reason=reason,
            on_token=reply.token,
        )

    def embed(self, exchange: Exchange, embedding: Embedding) -> None:
        """Make embeddings; the answer follows when every text is computed, each by itself."""
        self._refuse_if_due()
        number = next(self._numbers)
        self._lifetime.request(number)
        _spend(self._settings.frontend_seconds)
        sequences = [
            Sequence(
                prompt=prompt,
                output=[0],
                arrived_at=exchange.request.arrived_at,
                number=number,
                pooled=True,
            )
            for prompt in embedding.prompts
        ]
        left = len(sequences)

        def answer(_: Served) -> None:
            nonlocal left
            left -= 1
            if left:
                return
            exchange.respond(200, self._embedding(embedding))
            if self._request_log is not None:
                self._request_log.add(
                    {
                        "number": number,
                        "model": embedding.model,
                        "arrived_at": exchange.request.arrived_at,
                        "last_sent_at": self._loop.time(),
                        "prompt_tokens": sum(map(len, embedding.prompts)),
                        "body": json.loads(exchange.request.body),
                    }
                )

        def leave() -> None:
            for sequence in sequences:
                self._engine.abort(sequence)

        exchange.on_disconnect = leave
        for sequence in sequences:
            self._engine.run(sequence, max_tokens=1, reason="stop", on_token=answer)

    def _embedding(self, embedding: Embedding) -> bytes:
        factor = self._settings.faults.usage_percent / 100
        tokens = round(sum(map(len, embedding.prompts)) * factor)
        return compact(
            {
                "id": "embd-0",
                "object": "list",
                "created": int(time.time()),
                "model": embedding.model,
                "data": [
                    {
                        "index": index,
                        "object": "embedding",
                        "embedding": [1 / (1 + each) for each in range(DIMENSIONS)],
                    }
                    for index in range(len(embedding.prompts))
                ],
                "usage": {
                    "prompt_tokens": tokens,
                    "total_tokens": tokens,
                    "completion_tokens": 0,
                    "prompt_tokens_details": None,
                },
            }
        )

    def _refuse_if_due(self) -> None:
        match self._plan.next_request_refused():
            case HTTPStatus.TOO_MANY_REQUESTS:
                raise too_many_requests()
            case HTTPStatus.INTERNAL_SERVER_ERROR:
                raise internal_error(ENGINE_DEAD)
        self._engine.check_admission()

    def _elsewhere(self, generation: Generation) -> int:
        transfer = self._settings.kv_transfer
        block_size = self._settings.block_size
        if transfer is None:
            return 0
        return transfer.prefilled_elsewhere(
            generation.prompt, generation.transfer, block_size=block_size
        )

    def _handed_over(
        self, generation: Generation, request_id: str
    ) -> dict[str, object] | None:
        transfer = self._settings.kv_transfer
        return (
            None
            if transfer is None
            else transfer.answer(generation.transfer, request_id=request_id)
        )

    def _naming(self, generation: Generation, request_id: str) -> Naming:
        return Naming(
            request_id=f"{'chatcmpl' if generation.chat else 'cmpl'}-{request_id}",
            created=int(time.time()),
            model=generation.model,
        )

    def _planned(self, generation: Generation) -> tuple[int, str]:
        """Return how many tokens this request gets, and why it ends there."""
        faults = self._settings.faults
        if generation.document is not None:
            # The document is one token, the end of the answer another.
            tokens = generation.reasoning_tokens + 2
            if tokens <= generation.max_tokens:
                return tokens, "stop"
        stops = []
        if faults.output_percent < 100:
            stops.append(
                max(round(generation.max_tokens * faults.output_percent / 100), 1)
            )
        if faults.early_stop_after_tokens is not None and (
            faults.ignore_ignore_eos or not generation.ignore_eos
        ):
            stops.append(faults.early_stop_after_tokens)
        if not stops or min(stops) > generation.max_tokens:
            return generation.max_tokens, "length"
        return min(stops), "stop"

    def _finished(self, reply: Reply, served: Served, *, request_id: str) -> None:
        if self._request_log is not None:
            self._request_log.add(
                _truth(reply, served.sequence, request_id=request_id)
            )
        if self._plan.last_request_served():
            if self._request_log is not None:
                self._request_log.flush()
            os._exit(1)


def _spend(seconds: float) -> None:
    """Keep the processor busy for so many seconds of CPU time."""
    end = time.thread_time() + seconds
    while seconds and time.thread_time() < end:
        pass


def _truth(
    reply: Reply, sequence: Sequence, *, request_id: str
) -> dict[str, object]:
    """Return the request log's entry for a finished request.

    Instants are seconds on CLOCK_MONOTONIC, comparable with `time.perf_counter()` on the same node.
    """
    sent = reply.sent
    return {
        "request_id": request_id,
        "number": sequence.number,
        "model": reply.generation.model,
        "arrived_at": reply.exchange.request.arrived_at,
        "scheduled_at": sequence.scheduled_at,
        "first_sent_at": sent.first_at,
        "last_sent_at": sent.last_at,
        "prompt_tokens": len(sequence.prompt),
        "cached_tokens": sequence.cached_tokens,
        "fetched_tokens": sequence.fetched_tokens,
        "output_tokens": sequence.generated,
        "sent_tokens": sent.tokens,
        "chunks": sent.chunks,
        "preemptions": sequence.preemptions,
        "gaps_us": sent.gaps_us,
    }
