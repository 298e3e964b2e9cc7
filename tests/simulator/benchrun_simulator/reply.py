"""One answer while it is sent: tokens become chunks, chunks become bytes, each write is timed."""

from collections.abc import Callable
from dataclasses import dataclass, field

from benchrun_simulator.answers import DONE, EVENT_STREAM, Answer
from benchrun_simulator.engine_metrics import Served
from benchrun_simulator.generation import Generation, compact, internal_error
from benchrun_simulator.http_protocol import Exchange
from benchrun_simulator.sequence import Sequence
from benchrun_simulator.settings import Settings
from benchrun_simulator.tokens import OutputText


@dataclass(slots=True)
class Sent:
    """What has been written so far.

    Instants are taken right after the write, on the event loop's clock.
    """

    tokens: int = 0
    chunks: int = 0
    """Pieces with tokens in them."""
    first_at: float | None = None
    last_at: float | None = None
    gaps_us: list[int] = field(default_factory=list)
    """Between one piece with tokens in it and the next; microseconds."""

    def note(self, *, tokens: int, now: float) -> None:
        """Note a piece after which `tokens` tokens are written in all."""
        self.tokens = tokens
        self.chunks += 1
        if self.last_at is not None:
            self.gaps_us.append(round(1e6 * (now - self.last_at)))
        self.first_at = now if self.first_at is None else self.first_at
        self.last_at = now


@dataclass(slots=True, kw_only=True)
class Reply:
    """A writer of one sequence's tokens as they fall due."""

    settings: Settings
    exchange: Exchange
    generation: Generation
    answer: Answer
    output_text: OutputText
    reason: str
    transfer: dict[str, object] | None
    """Told with an answer in one piece: where its blocks are."""
    loses_end: bool
    """The last tokens, the usage and the end mark are not sent, and nothing says so."""
    clock: Callable[[], float]
    abort: Callable[[Sequence], None]
    finished: Callable[["Reply", Served], None]
    sent: Sent = field(default_factory=Sent)

    def token(self, served: Served) -> None:
        """Take one token; called once for each, in order."""
        sequence = served.sequence
        if self.generation.stream:
            self._stream(sequence)
        elif sequence.finished:
            text = self.output_text.text(self._worded(sequence.output))
            usage = self._usage(sequence)
            whole = self.answer.whole(
                text, reason=self.reason, usage=usage, transfer=self.transfer
            )
            self.exchange.respond(200, whole)
            self.sent.note(tokens=sequence.generated, now=self.clock())
        if sequence.finished:
            self.finished(self, served)

    def _stream(self, sequence: Sequence) -> None:
        if sequence.generated == 1:
            self.exchange.open_stream(EVENT_STREAM)
            if role := self.answer.first_event():
                self.exchange.send(role)
        if sequence.finished:
            self._close(sequence)
        elif self._chunk_is_due(sequence):
            self.exchange.send(
                self.answer.token_event(
                    self._text(self._unsent(sequence)),
                    reasoning=self._is_reasoning(),
                )
            )
            self.sent.note(tokens=sequence.generated, now=self.clock())
        if not sequence.finished:
            self._cut_short_if_due(sequence)

    def _chunk_is_due(self, sequence: Sequence) -> bool:
        if self.loses_end and sequence.generated > _tokens_before_the_end(
            len(sequence.output)
        ):
            return False
        sent = self.sent.tokens
        return (
            sent == 0 or sequence.generated - sent >= self.settings.stream_interval
        )

    def _close(self, sequence: Sequence) -> None:
        if self.loses_end:
            self.exchange.close_stream()
            return
        text = self._text(self._worded(self._unsent(sequence)))
        usage = self._usage(sequence) if self.generation.include_usage else None
        self.exchange.close_stream(
            self.answer.last_events(
                text,
                reason=self.reason,
                usage=usage,
                reasoning=self._is_reasoning(),
            )
        )
        self.sent.note(tokens=sequence.generated, now=self.clock())

    def _is_reasoning(self) -> bool:
        """Return whether the next piece is reasoning."""
        return self.sent.tokens < self.generation.reasoning_tokens

    def _text(self, tokens: list[int]) -> bytes:
        """Return the text of the next piece as JSON: words, or the document that was asked for."""
        document = self.generation.document
        if document is None or self._is_reasoning() or not tokens:
            return self.output_text.json(tokens)
        return compact(document)

    def _unsent(self, sequence: Sequence) -> list[int]:
        return sequence.output[self.sent.tokens : sequence.generated]

    def _worded(self, tokens: list[int]) -> list[int]:
        """Return all tokens but the end-of-sequence token, which has no text."""
        return tokens[:-1] if self.reason == "stop" else tokens

    def _cut_short_if_due(self, sequence: Sequence) -> None:
        faults = self.settings.faults
        if sequence.generated == faults.truncate_after_tokens:
            self.abort(sequence)
            self.exchange.close_stream(
                b"data: "
                + internal_error("Internal server error").body
                + b"\n\n"
                + DONE
            )
        elif sequence.generated == faults.reset_after_tokens:
            self.abort(sequence)
            self.exchange.reset()

    def _usage(self, sequence: Sequence) -> dict[str, object]:
        factor = self.settings.faults.usage_percent / 100
        prompt = round(len(sequence.prompt) * factor)
        generated = round(sequence.generated * factor)
        usage: dict[str, object] = {
            "prompt_tokens": prompt,
            "total_tokens": prompt + generated,
            "completion_tokens": generated,
        }
        reasoning = min(self.generation.reasoning_tokens, sequence.generated)
        if reasoning and self.settings.engine == "VLLM":
            usage["completion_tokens_details"] = {"reasoning_tokens": reasoning}
        if self.settings.prompt_tokens_details:
            usage["prompt_tokens_details"] = {
                "cached_tokens": sequence.cached_tokens + sequence.fetched_tokens
            }
        return usage


def _tokens_before_the_end(tokens: int) -> int:
    """Return how many tokens arrive of an answer that loses its end: nine tenths, and never all."""
    return tokens - max(tokens // 10, 1)
