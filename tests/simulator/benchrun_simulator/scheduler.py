"""Continuous batching as a pure event queue: which sequence gets its next token when.

No clock and no input or output in here: the caller says what time it is. Instants are seconds on the caller's
clock and follow from arrivals and `Timing` alone, so a late caller never makes the schedule drift.

    submit -> waiting (FIFO) -> running, at most `max_sequences` and while KV blocks last
    running: prefill, then one token every `per_token_seconds`; blocks are taken as the sequence grows;
    when none is left the sequence admitted last is preempted: it goes to the head of the queue and is
    prefilled again, as in vLLM
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count

from benchrun_simulator.prefix_cache import KvCache, Lease, block_hashes, chain_hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long the imitated engine takes. No sequence slows another down."""

    first_token_seconds: float
    """From admission to the first token, for an empty prompt."""
    prefill_seconds_per_token: float
    """Added for every prompt token that is not in the prefix cache."""
    per_token_seconds: float
    """Between two tokens of a sequence."""


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """One prompt and the tokens it will get."""

    prompt: list[int]
    output: list[int]
    """The tokens to generate, at least one; known beforehand, revealed in time."""
    arrived_at: float
    salt: str = ""
    generated: int = 0
    scheduled_at: float | None = None
    """First admission; later ones, after a preemption, do not move it."""
    cached_tokens: int = 0
    """Prefix-cache hit at the first admission."""
    preemptions: int = 0
    hashes: list[bytes] = field(default_factory=list)
    lease: Lease = field(default_factory=Lease)
    next_token_at: float = 0.0
    ticket: int = 0
    """Which entry in the event queue counts; entries with an older number are void."""

    @property
    def tokens(self) -> int:
        return len(self.prompt) + self.generated

    @property
    def finished(self) -> bool:
        return self.generated == len(self.output)


@dataclass(slots=True)
class Totals:
    """Counters since the start, in tokens but for the preemptions."""

    prefix_queries: int = 0
    prefix_hits: int = 0
    preemptions: int = 0


class Scheduler:
    """Decides, for all sequences of one server, when each token appears."""

    def __init__(
        self,
        *,
        timing: Timing,
        cache: KvCache,
        max_sequences: int,
        jitter: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._timing = timing
        self._cache = cache
        self._max_sequences = max_sequences
        self._jitter = jitter  # seconds added to one token's instant; the following ones are not moved
        self._waiting: deque[Sequence] = deque()
        self._running: dict[Sequence, None] = {}  # in the order of admission
        self._events: list[tuple[float, int, int, Sequence]] = []
        self._order = count()
        self.totals = Totals()

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def submit(self, sequence: Sequence, *, now: float) -> None:
        """Queue a sequence; it is admitted at once when there is room."""
        if self._cache.prefix_caching:
            block_size = self._cache.block_size
            sequence.hashes = block_hashes(sequence.prompt, block_size=block_size, salt=sequence.salt)
        self._waiting.append(sequence)
        self._admit(now)

    def abort(self, sequence: Sequence, *, now: float) -> None:
        """Drop a sequence wherever it is; unknown or finished ones are ignored."""
        if sequence in self._running:
            self._leave(sequence)
            self._admit(now)
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
            self._admit(now)

    def next_due(self) -> float | None:
        """When the next token appears; None when nothing runs."""
        while self._events and self._events[0][2] != self._events[0][3].ticket:
            heappop(self._events)
        return self._events[0][0] if self._events else None

    def advance(self, now: float) -> Iterator[tuple[Sequence, float]]:
        """Yield, in order of time, each sequence that gets a token up to `now`, and the token's instant.

        The caller may submit and abort while it iterates.
        """
        while (due := self.next_due()) is not None and due <= now:
            sequence = heappop(self._events)[3]
            sequence.generated += 1
            if sequence.finished:
                self._leave(sequence)
                self._admit(due)
            else:
                self._continue(sequence)
            yield sequence, due

    def _admit(self, now: float) -> None:
        while self._waiting and len(self._running) < self._max_sequences:
            sequence = self._waiting[0]
            lease = self._cache.admit(sequence.hashes, tokens=sequence.tokens)
            if lease is None:
                return  # first come, first served: nobody overtakes a large prompt
            self._waiting.popleft()
            self._start(sequence, lease, now)

    def _start(self, sequence: Sequence, lease: Lease, now: float) -> None:
        sequence.lease = lease
        self._running[sequence] = None
        if sequence.scheduled_at is None:
            sequence.scheduled_at = now
            sequence.cached_tokens = lease.cached_tokens
            if self._cache.prefix_caching:
                self.totals.prefix_queries += sequence.tokens
                self.totals.prefix_hits += lease.cached_tokens
        computed = sequence.tokens - lease.cached_tokens
        prefill = self._timing.first_token_seconds + computed * self._timing.prefill_seconds_per_token
        self._expect(sequence, now + prefill)

    def _continue(self, sequence: Sequence) -> None:
        while not self._cache.grow(sequence.lease, tokens=sequence.tokens):
            victim = next(reversed(self._running))
            self._preempt(victim)
            if victim is sequence:
                return
        block_size = self._cache.block_size
        if self._cache.prefix_caching and sequence.tokens % block_size == 0:
            self._name_last_block(sequence)
        self._expect(sequence, sequence.next_token_at + self._timing.per_token_seconds)

    def _name_last_block(self, sequence: Sequence) -> None:
        start = sequence.tokens - self._cache.block_size
        generated_from = max(start - len(sequence.prompt), 0)
        block = sequence.prompt[start:] + sequence.output[generated_from : sequence.generated]
        parent = sequence.hashes[-1] if sequence.hashes else sequence.salt.encode()
        sequence.hashes.append(chain_hash(parent, block))
        self._cache.seal(sequence.lease, sequence.hashes[-1])

    def _preempt(self, sequence: Sequence) -> None:
        self._leave(sequence)
        sequence.preemptions += 1
        self.totals.preemptions += 1
        self._waiting.appendleft(sequence)

    def _leave(self, sequence: Sequence) -> None:
        del self._running[sequence]
        sequence.ticket += 1
        self._cache.release(sequence.lease)

    def _expect(self, sequence: Sequence, due: float) -> None:
        sequence.next_token_at = due
        entry = (due + self._jitter(), next(self._order), sequence.ticket, sequence)
        heappush(self._events, entry)
