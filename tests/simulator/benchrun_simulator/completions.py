"""One generation from request to last byte: planned tokens in, events or one JSON document out."""

import json
import os
import time
from dataclasses import dataclass
from itertools import count
from typing import TextIO

from benchrun_simulator.answers import DONE, EVENT_STREAM, Answer, Naming
from benchrun_simulator.engine import Engine
from benchrun_simulator.engine_metrics import Served
from benchrun_simulator.faults import FaultPlan
from benchrun_simulator.generation import Generation, internal_error
from benchrun_simulator.http_protocol import Exchange
from benchrun_simulator.scheduler import Sequence
from benchrun_simulator.settings import Settings
from benchrun_simulator.tokens import OutputText

ENGINE_DEAD = "EngineCore encountered an issue. See stack trace (above) for the root cause."


class Completions:
    """Serves generations of both kinds."""

    def __init__(
        self,
        *,
        settings: Settings,
        engine: Engine,
        output_text: OutputText,
        request_log: TextIO | None,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._output_text = output_text
        self._request_log = request_log
        self._faults = FaultPlan(settings.faults)
        self._numbers = count(1)

    def serve(self, exchange: Exchange, generation: Generation) -> None:
        """Start one generation; the answer follows as its tokens fall due."""
        if self._faults.next_request_fails():
            raise internal_error(ENGINE_DEAD)
        tokens, reason = self._planned(generation)
        number = next(self._numbers)
        naming = Naming(
            request_id=f"{'chatcmpl' if generation.chat else 'cmpl'}-{number:016x}",
            created=int(time.time()),
            model=self._settings.served_names[0],
        )
        sequence = Sequence(
            prompt=generation.prompt,
            output=self._output_text.plan(generation.prompt, tokens),
            arrived_at=exchange.request.arrived_at,
            salt=generation.salt,
        )
        reply = _Reply(
            completions=self,
            exchange=exchange,
            generation=generation,
            answer=Answer(generation, naming),
            request_id=naming.request_id,
            reason=reason,
        )
        exchange.on_disconnect = lambda: self._engine.abort(sequence)
        self._engine.run(sequence, max_tokens=generation.max_tokens, reason=reason, on_token=reply.token)

    def usage(self, sequence: Sequence) -> dict[str, object]:
        """The usage block for what has been generated so far."""
        prompt, generated = len(sequence.prompt), sequence.generated
        usage: dict[str, object] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + generated,
            "completion_tokens": generated,
        }
        if self._settings.prompt_tokens_details:
            usage["prompt_tokens_details"] = {"cached_tokens": sequence.cached_tokens}
        return usage

    def event_text(self, sequence: Sequence, *, reason: str) -> bytes:
        """The newest token's text as JSON; the end-of-sequence token has none."""
        if sequence.finished and reason == "stop":
            return b'""'
        return self._output_text.json_of[sequence.output[sequence.generated - 1]]

    def whole_text(self, sequence: Sequence, *, reason: str) -> str:
        """All the text of a finished sequence."""
        return self._output_text.text(sequence.output[:-1] if reason == "stop" else sequence.output)

    def cut_short_if_due(self, exchange: Exchange, sequence: Sequence) -> None:
        """End the stream before its time, where the faults say so."""
        faults = self._settings.faults
        if sequence.generated == faults.truncate_after_tokens:
            self._engine.abort(sequence)
            exchange.close_stream(b"data: " + internal_error("Internal server error").body + b"\n\n" + DONE)
        elif sequence.generated == faults.reset_after_tokens:
            self._engine.abort(sequence)
            exchange.reset()

    def log(self, served: Served, *, request_id: str) -> None:
        """Write down a finished request, before its last byte leaves: who saw the end finds the line."""
        if self._request_log is not None:
            self._request_log.write(json.dumps(_timings(served, request_id)) + "\n")

    def ended(self) -> None:
        """Count a request that has been answered; die if that was the plan."""
        if self._faults.last_request_served():
            os._exit(1)

    def _planned(self, generation: Generation) -> tuple[int, str]:
        stop = self._settings.faults.early_stop_after_tokens
        if stop is None or generation.ignore_eos or stop > generation.max_tokens:
            return generation.max_tokens, "length"
        return stop, "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reply:
    """Turns the tokens of one sequence into the bytes of its answer."""

    completions: Completions
    exchange: Exchange
    generation: Generation
    answer: Answer
    request_id: str
    reason: str

    def token(self, served: Served) -> None:
        sequence = served.sequence
        if sequence.finished:
            self.completions.log(served, request_id=self.request_id)
        if self.generation.stream:
            self._stream(sequence)
        elif sequence.finished:
            text = self.completions.whole_text(sequence, reason=self.reason)
            usage = self.completions.usage(sequence)
            self.exchange.respond(200, self.answer.whole(text, reason=self.reason, usage=usage))
        if sequence.finished:
            self.completions.ended()

    def _stream(self, sequence: Sequence) -> None:
        exchange, answer = self.exchange, self.answer
        text = self.completions.event_text(sequence, reason=self.reason)
        if sequence.generated == 1:
            exchange.open_stream(EVENT_STREAM)
            if role := answer.first_event():
                exchange.send(role)
        if sequence.finished:
            usage = self.completions.usage(sequence) if self.generation.include_usage else None
            exchange.close_stream(answer.last_events(text, reason=self.reason, usage=usage))
        else:
            exchange.send(answer.token_event(text))
            self.completions.cut_short_if_due(exchange, sequence)


def _timings(served: Served, request_id: str) -> dict[str, object]:
    """True instants on CLOCK_MONOTONIC, seconds: comparable with `time.perf_counter()` on the same node."""
    sequence = served.sequence
    return {
        "request_id": request_id,
        "arrived_at": sequence.arrived_at,
        "scheduled_at": sequence.scheduled_at,
        "first_token_at": served.first_token_at,
        "last_token_at": served.last_token_at,
        "prompt_tokens": len(sequence.prompt),
        "cached_tokens": sequence.cached_tokens,
        "output_tokens": sequence.generated,
        "preemptions": sequence.preemptions,
    }
