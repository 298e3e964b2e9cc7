"""How a stage went, told by its own requests: what several rules want to know, each worked out once, when first asked for."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

from benchrun_client.contract import StageRecord

from benchrun.judge.asked import Asked
from benchrun.measure.batches import batch_means
from benchrun.measure.cells import duration_seconds
from benchrun.measure.inflight import InFlight, in_flight
from benchrun.measure.steady import NoPlateau, Plateau, plateau

THROUGHPUT_PARTS = 20
MIN_THROUGHPUT_PARTS = 6
"""Four parts are left of six: fewer tell nothing of their noise."""
REQUESTS_A_PART = 5


@dataclass(frozen=True)
class StageShape:
    """A stage as its requests made it. Failed requests are in the flight and in nothing else."""

    record: StageRecord
    asked: Asked

    @cached_property
    def flight(self) -> InFlight:
        """Requests under way, from their sending on."""
        return in_flight(self.record.requests)

    @cached_property
    def demand(self) -> InFlight:
        """Requests under way or held back by the client's cap."""
        return in_flight(self.record.requests, with_client_queue=True) if self.asked.capped else self.flight

    @cached_property
    def plateau(self) -> Plateau | NoPlateau:
        """Where the load stands as asked."""
        if self.asked.follows_trace:
            return NoPlateau.FOLLOWS_TRACE
        if self.asked.whole_batches:
            return NoPlateau.WHOLE_BATCHES
        return plateau(
            self.record.requests,
            self.flight,
            request_rate=math.inf if self.asked.rate is None else self.asked.rate,
            max_concurrency=self.asked.concurrency,
        )

    @cached_property
    def mean_in_flight(self) -> float:
        """Over the whole stage, by Little's law; 0 where nothing was answered."""
        duration = duration_seconds(self.record)
        return sum(self.e2el_us) / 1e6 / duration if duration > 0 else 0.0

    @cached_property
    def answered(self) -> Sequence[int]:
        """Positions in the record's columns of the requests that were answered."""
        return list(compress(range(len(self.record.requests.ok)), self.record.requests.ok))

    @cached_property
    def ttft_us(self) -> Sequence[int]:
        """Of answered requests, in order of sending."""
        return list(map(self.record.requests.ttft_us.__getitem__, self.answered))

    @cached_property
    def e2el_us(self) -> Sequence[int]:
        """Of answered requests, in order of sending."""
        return list(map(self.record.requests.e2el_us.__getitem__, self.answered))

    @cached_property
    def tpot_us(self) -> Sequence[float]:
        """Of requests answered with more than one token, in order of sending."""
        rows = zip(self.e2el_us, self.ttft_us, self._tokens, strict=True)
        return [(e2el - ttft) / (tokens - 1) for e2el, ttft, tokens in rows if tokens > 1]

    @cached_property
    def batches(self) -> Mapping[str, Sequence[float]]:
        """The figures in which repeats are compared, each as means of batches in order of time; without values, none."""
        latencies = {"meanTtftMs": self.ttft_us, "meanTpotMs": self.tpot_us, "meanE2elMs": self.e2el_us}
        batches = {figure: [mean / 1000 for mean in batch_means(values)] for figure, values in latencies.items()}
        return {**batches, "outputTokensPerSecond": self._throughput_batches()}

    def _throughput_batches(self) -> list[float]:
        """Output tokens a second in equal parts of the stage, a request's tokens counted at its end.

        Without the first part, in which most answers are still to come, and the last, in which they run out.
        """
        parts = min(THROUGHPUT_PARTS, len(self.answered) // REQUESTS_A_PART)
        length = duration_seconds(self.record) / max(1, parts)
        if parts < MIN_THROUGHPUT_PARTS or length <= 0:
            return []
        tokens = [0] * (parts + 1)
        starts = map(self.record.requests.start_us.__getitem__, self.answered)
        for start, e2el, count in zip(starts, self.e2el_us, self._tokens, strict=True):
            tokens[min(parts, int((start + e2el) / 1e6 / length))] += count
        return [count / length for count in tokens[1 : parts - 1]]

    @cached_property
    def _tokens(self) -> Sequence[int]:
        return list(map(self.record.requests.output_tokens.__getitem__, self.answered))
