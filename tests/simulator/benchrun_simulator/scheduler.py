"""Continuous batching as a pure event queue: which sequence gets its next token when.

It has no clock, no input and no output: the caller gives the time. Instants are seconds on the
caller's clock and follow from arrivals and `Pace` alone, so a late caller never makes the schedule
drift.

    submit -> waiting (FIFO) -> running, at most `max_sequences`, while KV blocks and the prefill
    budget last running: prefill, then token after token; blocks are taken as the sequence grows;
    when none is left the sequence admitted last is preempted: it goes to the head of the queue and
    is prefilled again, as in vLLM
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

from benchrun_simulator.pace import Pace
from benchrun_simulator.prefill_budget import PrefillBudget
from benchrun_simulator.prefix_cache import KvCache, Lease, block_hashes, chain_hash
from benchrun_simulator.sequence import Sequence


@dataclass(slots=True)
class Totals:
    """Counters since the start, in tokens but for the preemptions."""

    prefix_queries: int = 0
    prefix_hits: int = 0
    external_queries: int = 0
    external_hits: int = 0
    preemptions: int = 0


class Scheduler:
    """A scheduler that decides, for all sequences of one server, when each token appears."""

    def __init__(
        self,
        *,
        pace: Pace,
        cache: KvCache,
        max_sequences: int,
        prefill_budget: PrefillBudget | None = None,
        preempted_request: int | None = None,
        jitter: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._pace = pace
        self._cache = cache
        self._max_sequences = max_sequences
        # None: prefills don't slow each other
        self._prefill_budget = prefill_budget
        # after its first token, though there are blocks
        self._preempted_request = preempted_request
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
        """Queue a sequence; it is admitted at once if there is room."""
        if self._cache.prefix_caching:
            block_size = self._cache.block_size
            sequence.hashes = block_hashes(
                sequence.prompt, block_size=block_size, salt=sequence.salt
            )
        self._pace.arrived(sequence, now=now)
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
        """Return when the next token appears; None if nothing runs."""
        while self._events and self._events[0][2] != self._events[0][3].ticket:
            heappop(self._events)
        return self._events[0][0] if self._events else None

    def advance(self, now: float) -> Iterator[tuple[Sequence, float]]:
        """Yield, in order of time, each sequence that gets a token up to `now`, and the instant.

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
                if self._prefill_budget is not None and self._prefill_budget.end(
                    sequence
                ):
                    self._admit(due)
            yield sequence, due

    def _admit(self, now: float) -> None:
        while (
            self._waiting
            and len(self._running) < self._max_sequences
            and self._may_prefill(self._waiting[0])
        ):
            sequence = self._waiting[0]
            lease = self._cache.admit(sequence.hashes, tokens=sequence.tokens)
            if lease is None:
                return  # first come, first served: no sequence overtakes a large prompt
            self._waiting.popleft()
            self._start(sequence, lease, now)

    def _may_prefill(self, sequence: Sequence) -> bool:
        if self._prefill_budget is None:
            return True
        cached = self._cache.cached_tokens(sequence.hashes, tokens=sequence.tokens)
        return self._prefill_budget.has_room(
            sequence.tokens - max(cached, sequence.elsewhere_tokens)
        )

    def _start(self, sequence: Sequence, lease: Lease, now: float) -> None:
        if stall := self._pace.stall(sequence):
            self._stand_still(stall)
        sequence.lease = lease
        self._running[sequence] = None
        if sequence.scheduled_at is None:
            sequence.scheduled_at = now
            sequence.cached_tokens = lease.cached_tokens
            if self._cache.prefix_caching:
                self.totals.prefix_queries += sequence.tokens
                self.totals.prefix_hits += lease.cached_tokens
            sequence.fetched_tokens = max(
                sequence.elsewhere_tokens - lease.cached_tokens, 0
            )
            self.totals.external_queries += sequence.tokens - lease.cached_tokens
            self.totals.external_hits += sequence.fetched_tokens
        self._expect(sequence, self._prefilled_at(sequence, now + stall))

    def _prefilled_at(self, sequence: Sequence, now: float) -> float:
        computed = sequence.tokens - max(
            sequence.lease.cached_tokens, sequence.elsewhere_tokens
        )
        latency = self._pace.latency(sequence, now=now)
        work = self._pace.prefill(sequence, computed=computed, now=now)
        if self._prefill_budget is None:
            return now + latency + work
        return latency + self._prefill_budget.begin(
            sequence, computed=computed, work_seconds=work, now=now
        )

    def _stand_still(self, seconds: float) -> None:
        for sequence in self._running:
            sequence.ticket += 1
            self._expect(sequence, sequence.next_token_at + seconds)

    def _continue(self, sequence: Sequence) -> None:
        if sequence.number == self._preempted_request and not sequence.preemptions:
            self._preempt(sequence)
            self._admit(sequence.next_token_at)
            return
        while not self._cache.grow(sequence.lease, tokens=sequence.tokens):
            victim = next(reversed(self._running))
            self._preempt(victim)
            if victim is sequence:
                return
        block_size = self._cache.block_size
        if self._cache.prefix_caching and sequence.tokens % block_size == 0:
            self._name_last_block(sequence)
        last = sequence.next_token_at
        self._expect(
            sequence,
            last + self._pace.token(sequence, running=len(self._running), now=last),
        )

    def _name_last_block(self, sequence: Sequence) -> None:
        start = sequence.tokens - self._cache.block_size
        generated_from = max(start - len(sequence.prompt), 0)
        block = (
            sequence.prompt[start:]
            + sequence.output[generated_from : sequence.generated]
        )
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
        if self._prefill_budget is not None:
            self._prefill_budget.end(sequence)

    def _expect(self, sequence: Sequence, due: float) -> None:
        sequence.next_token_at = due
        entry = (due + self._jitter(), next(self._order), sequence.ticket, sequence)
        heappush(self._events, entry)
