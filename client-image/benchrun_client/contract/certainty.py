"""Whether a percentile keeps its limit for certain, and its confidence interval, where requests
share a queue. Pure.

A stage is cut into parts that are almost independent: cycles of its queue (M. A. Crane and D. L.
Iglehart, 1975) or batches of two rounds of all requests in flight. The scatter of shares from part
to part (W. G. Cochran, 1977) over that of independent values is the inflation; values over
inflation are the independent observations of the binomial test. docs/measurement.md has the steps,
what is required of a stage, and the errors."""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, compress, pairwise
from operator import mul
from statistics import fmean, pvariance
from typing import Literal, NamedTuple, Self

from benchrun_client.contract import percentiles, probability
from benchrun_client.contract.record import GapCounts, GapSlices

Outcome = Literal["Met", "Missed", "Inconclusive"]
# Fewer, counted by their squared lengths: shorter than about ten relaxation times of the queue.
MIN_CYCLES = 30
MIN_BATCHES = 8
MAX_BATCHES = 20
ROUNDS_A_BATCH = 2  # Of all requests in flight: answers to one round are alike.
HARDLY = 0.03
"""Share of the variance of a latency that the number of requests in the system may explain, where
it hardly depends on it."""
DOUBT = 1.5  # Standard errors that are added to the correlation for that.
CYCLE_WEIGHT, BATCH_WEIGHT = 6.0, 8.0
"""Where a stage happens to miss the busy times, its parts scatter too little. So the inflation is
at least what the share that the number in the system explains makes of it, times this: the
constants that keep the error below 5 % in simulated queues (docs/measurement.md)."""
CYCLE_DOUBT = 0.4
"""Over the number of cycles: what is added to the share that the number in the system explains,
where it explains more than chance mostly does: a stage that happens to be quiet shows too little of
it. Simulated like the weights."""
MIDDLE_WEIGHT = 0.15
"""Of the inflation at the median of a closed loop, which the one further out is not below: few
values there, in one or two clusters, do not show how alike they are. Simulated like the weights."""
WORTH_A_PART = 3.0
"""So many parts are worth one observation at least, however their shares scatter: few values above
a limit, in few parts, do not show it, and their upper end of uncertainty is beyond every bound."""
VARIANCE_ERROR = 0.05  # How often the inflation is larger than what is taken for it.
LIKE_INDEPENDENT = 0.9
"""Share of all samples of independent values whose parts scatter less than the ones that are taken
as independent."""
MIN_REPEATS = 5
"""From here on repeats, which have their own seeds, are parts themselves where they differ more
than their parts do, and where all requests are sent at once."""
EXCEEDANCES = 12  # Fewer values beyond a threshold do not show how they scatter.


class Certainty(NamedTuple):
    """What is certain of one percentile and its limit."""

    outcome: Outcome
    independent: float  # Independent observations it rests on; 0 where that is not known.


@dataclass(frozen=True, slots=True)
class StageParts:
    """A stage, cut into parts: positions in `order` at which parts begin, from 0 to the number of
    requests."""

    order: Sequence[int]  # Of the requests, by the instants at which they began.
    seen: Sequence[
        int
    ]  # Requests in the system when each began, in that order; empty for a closed loop or a burst.
    cycles: Sequence[int]  # Cycles of the queue; empty for a closed loop or a burst.
    batches: Sequence[int]  # Of time; a burst is one.


def effective_cycles(stages: Sequence[StageParts]) -> float:
    """The number of cycles in these stages, counted by their squared lengths: one long one is not
    worth many."""
    lengths = [b - a for stage in stages for a, b in pairwise(stage.cycles)]
    return sum(lengths) ** 2 / sum(map(mul, lengths, lengths)) if lengths else 0.0


def stage_parts(
    begins: Sequence[float],
    ends: Sequence[float],
    *,
    users: int | None = None,
    at_once: bool = False,
) -> StageParts:
    """Cut a stage with at least one request. Instants are in any unit; those of open loops from
    when a request was due. `users`: how many a closed loop has; None: an open loop, a trace, or
    `at_once`: a burst."""
    order = sorted(range(len(begins)), key=begins.__getitem__)
    if at_once:
        return StageParts(order, (), (), [0, len(order)])
    if users is not None:
        return StageParts(order, (), (), _batches(len(order), float(users)))
    ended = sorted(ends)
    seen = [place - bisect_left(ended, begins[i]) for place, i in enumerate(order)]
    middle = sorted(seen)[len(seen) // 2]
    # Above the median, or to it: it may be the most there ever were, or the least.
    rises = max((_rises(seen, level) for level in (middle, middle - 1)), key=len)
    return StageParts(order, seen, [0, *rises, len(seen)], _batches(len(seen), fmean(seen)))


def _rises(seen: Sequence[int], level: int) -> list[int]:
    return [place for place, (a, b) in enumerate(pairwise(seen), start=1) if a <= level < b]


def _batches(requests: int, in_flight: float) -> list[int]:
    """Batches of two rounds, twenty at most."""
    count = max(1, min(MAX_BATCHES, int(requests / max(in_flight, 1.0) / ROUNDS_A_BATCH)))
    return [requests * i // count for i in range(count + 1)]


def _kept(known: dict[float, float], at: float, work_out: Callable[[float], float]) -> float:
    """What was worked out before. A cache of a method would hold its object in a cycle: samples are
    large."""
    if at not in known:
        known[at] = work_out(at)
    return known[at]


class LatencySample(ABC):
    """The values of one latency in the stages of a load point; those of failed requests are
    infinite."""

    def __init__(self, stages: Sequence[StageParts], sizes: Sequence[Sequence[int]]) -> None:
        """`sizes`: how many values each part of each stage has."""
        self._sizes = list(chain.from_iterable(sizes))
        self._regenerates = effective_cycles(stages) >= MIN_CYCLES
        self._repeats = [0, *accumulate(map(len, sizes))]
        self._seen = [stage.seen for stage in stages]
        self._scattered_at: dict[float, float] = {}  # Several percentiles ask for the same limits.
        self.count = sum(self._sizes)
        # Stages for each that was sent what no other was: the others hold no chance of their own.
        self.copies = 1.0
        least = MIN_REPEATS if all(len(each) == 1 for each in sizes) else MIN_BATCHES
        self._enough = len(self._sizes) >= least
        self._is_open = any(stage.seen for stage in stages)
        self.parts = effective_cycles(stages) if self._is_open else float(len(self._sizes))
        self.parts_needed = MIN_CYCLES if self._is_open else least
        """How many cycles, batches or repeats there are, and how many make the stages long
        enough."""

    @abstractmethod
    def at_rank(self, rank: int) -> float:
        """The value at a rank, 1 for the smallest to `count` for the greatest."""

    @abstractmethod
    def above(self, limit: float) -> list[int]:
        """How many values of each part are above a limit."""

    def share_above(self, limit: float) -> float:
        """The share of all values that is above a limit."""
        return sum(self.above(limit)) / self.count

    @abstractmethod
    def explained_by_load(self, limits: Sequence[float]) -> float:
        """How much of the variance of being above these limits the number in the system explains: 0
        to 1, 1 if unknown."""

    def grows(self, error: float) -> bool:
        """Whether the queue grew from batch to batch in every stage: it has no steady state."""
        return bool(self._seen) and all(_grows(seen, error) for seen in self._seen)

    def inflation(self, percent: float, *limits: float) -> float | None:
        """How many values make one independent observation at the percentile and limits; None: too
        short stages."""
        if self.count < 2 or not self._enough:
            return None
        margin = min(0.5, EXCEEDANCES / self.count)
        share = min(max(percent / 100, margin), 1 - margin)
        places = [self.at_rank(max(1, math.floor(share * self.count))), *limits]
        explained = self.explained_by_load(places)
        if not self._regenerates and explained > HARDLY:
            return None
        # What the number in the system explains is known as often as it has cycles.
        weight = CYCLE_WEIGHT if self._regenerates else BATCH_WEIGHT
        by_load = 1 + weight * explained * self.count / max(1.0, self.parts)
        # Of a closed loop, whose number in the system says nothing, the values in the middle show
        # best how alike neighbours are.
        middle = () if self._is_open else (self.at_rank((self.count + 1) // 2),)
        alike = [
            MIDDLE_WEIGHT * _kept(self._scattered_at, place, self._scattered) for place in middle
        ]
        return self.copies * max(
            by_load,
            *alike,
            *(_kept(self._scattered_at, place, self._scattered) for place in places),
        )

    def _scattered(self, limit: float) -> float:
        hits = self.above(limit)
        of_parts = _Scatter.of(self._sizes, hits)
        # Values of one part can't be more alike than all the same: then each part is worth one
        # observation.
        by_parts = min(of_parts.inflation, WORTH_A_PART * self.count / max(1.0, self.parts))
        if len(self._repeats) <= MIN_REPEATS:
            return by_parts
        of_repeats = _Scatter.of(
            *([sum(each[a:b]) for a, b in pairwise(self._repeats)] for each in (self._sizes, hits))
        )
        unlike = (
            of_repeats.ratio * of_repeats.freedom
            > of_parts.inflation
            * probability.chi_square_quantile(1 - VARIANCE_ERROR, of_repeats.freedom)
        )
        return of_repeats.inflation if unlike else by_parts


class _Scatter(NamedTuple):
    """How the share of values above a threshold scatters between parts."""

    ratio: float  # Its variance over that of independent values.
    freedom: float  # Effective degrees of freedom of that.

    @classmethod
    def of(cls, sizes: Sequence[int], hits: Sequence[int]) -> Self:
        count, total, parts = sum(sizes), sum(hits), len(sizes)
        if not 0 < total < count or parts < 2:
            return cls(1.0, max(1.0, parts - 1.0))
        share = total / count
        squares = [(hit - share * size) ** 2 for hit, size in zip(hits, sizes, strict=True)]
        whole = math.fsum(squares)
        ratio = whole * parts / (parts - 1) / (count * share * (1 - share))
        fourth = math.fsum(map(mul, squares, squares))
        return cls(
            ratio, max(1.0, min(parts - 1.0, whole * whole / fourth)) if fourth else parts - 1.0
        )

    @property
    def inflation(self) -> float:
        """At the upper end of its uncertainty; 1 where independent values often scatter as much."""
        if self.ratio * self.freedom <= probability.chi_square_quantile(
            LIKE_INDEPENDENT, self.freedom
        ):
            return 1.0
        return max(
            1.0,
            self.ratio
            * self.freedom
            / probability.chi_square_quantile(VARIANCE_ERROR, self.freedom),
        )


def _grows(seen: Sequence[int], error: float) -> bool:
    if len(seen) <= MAX_BATCHES:
        return False
    steps = [
        b - a
        for a, b in pairwise(
            seen[(len(seen) - 1) * i // MAX_BATCHES] for i in range(MAX_BATCHES + 1)
        )
    ]
    mean, scatter = fmean(steps), math.sqrt(pvariance(steps) / (len(steps) - 1))
    return (
        mean > 0
        and probability.student_p_value(mean / scatter if scatter else math.inf, len(steps) - 1)
        <= 2 * error
    )


class RequestSample(LatencySample):
    """One value a request: TTFT, TPOT, E2EL."""

    def __init__(
        self, stages: Sequence[StageParts], values: Sequence[Sequence[float | None]]
    ) -> None:
        """`values`: one a request, in the order of the stage's requests; infinite for a failed one,
        None where it has none."""
        regenerates = effective_cycles(stages) >= MIN_CYCLES
        edges = [stage.cycles if regenerates else stage.batches for stage in stages]
        ordered = [[own[i] for i in stage.order] for stage, own in zip(stages, values, strict=True)]
        kept = [[0, *accumulate(value is not None for value in own)] for own in ordered]
        sizes = [
            [own[b] - own[a] for a, b in pairwise(at)] for own, at in zip(kept, edges, strict=True)
        ]
        super().__init__(stages, sizes)
        self._values = [value for own in ordered for value in own if value is not None]
        self._edges = [0, *accumulate(self._sizes)]
        self._explained_at: dict[float, float] = {}
        self._in_system = [
            seen
            for stage, own in zip(stages, ordered, strict=True)
            for seen, value in zip(stage.seen, own, strict=False)
            if value is not None
        ]

    @cached_property
    def _ascending(self) -> list[float]:
        return sorted(self._values)

    def at_rank(self, rank: int) -> float:
        return self._ascending[rank - 1]

    def above(self, limit: float) -> list[int]:
        through = list(accumulate(map(float(limit).__lt__, self._values), initial=0))
        return [through[b] - through[a] for a, b in pairwise(self._edges)]

    def explained_by_load(self, limits: Sequence[float]) -> float:
        if not self._in_system:
            return 0.0
        middle = self.at_rank((self.count + 1) // 2)
        return max(_kept(self._explained_at, limit, self._explained) for limit in (middle, *limits))

    @cached_property
    def _level(self) -> tuple[float, float]:
        """Mean and variance of the number in the system."""
        mean = fmean(self._in_system)
        return mean, sum((seen - mean) ** 2 for seen in self._in_system) / self.count

    def _explained(self, limit: float) -> float:
        """The squared correlation of being above a limit and the number in the system, and what a
        stage may have missed of it; in place of cycles at the upper end of its uncertainty."""
        above = list(compress(self._in_system, map(float(limit).__lt__, self._values)))
        share = len(above) / self.count
        mean, variance = self._level
        if variance == 0 or not 0 < share < 1:
            return 0.0
        correlation = abs(fmean(above) - mean) * math.sqrt(share / (1 - share) / variance)
        if self._regenerates:
            by_chance, square = 1 / self.count, correlation**2
            return (
                square + CYCLE_DOUBT / self.parts
                if square > 2 * by_chance
                else max(0.0, square - by_chance)
            )
        return (correlation + DOUBT / math.sqrt(self.count)) ** 2


class GapSample(LatencySample):
    """Gaps between tokens (ITL). All streams get a token in the same step of the engine, so the
    share of gaps above a limit in one slice of time is one observation. A failed request counts as
    many infinite gaps as an answered one has on average."""

    def __init__(
        self,
        stages: Sequence[StageParts],
        gaps: Sequence[tuple[GapCounts, GapSlices | None]],
        failed: Sequence[float],
    ) -> None:
        """`gaps`: of each stage, exactly counted and by time; `failed`: the failed requests of each
        over its answered ones."""
        counts = [sum(exact.count) for exact, _ in gaps]
        lost = sum(round(count * share) for count, share in zip(counts, failed, strict=True))
        self._slices = [
            (_slice_edges(stage, of), of)
            for stage, (_, of) in zip(stages, gaps, strict=True)
            if of is not None
        ]
        sizes = [[sum(of.gaps[a:b]) for a, b in pairwise(edges)] for edges, of in self._slices]
        super().__init__(stages, sizes)
        self._enough = self._enough and len(self._slices) == len(stages)
        steady = all(_reach(stage.seen) <= 1 for stage in stages if stage.seen)
        self._load_decides = not self._regenerates and not steady
        pairs = (zip(exact.us, exact.count, strict=True) for exact, _ in gaps)
        self._pool = percentiles.Distribution.of_counts(chain([(math.inf, lost)], *pairs))
        self.count = self._pool.count

    def at_rank(self, rank: int) -> float:
        return self._pool.at_rank(rank)

    def share_above(self, limit: float) -> float:
        place = bisect_right(self._pool.values, limit)
        return 1 - self._pool.through[place - 1] / self.count if place else 1.0

    def above(self, limit: float) -> list[int]:
        """How many values of each part are above the recorded edge that about as many values exceed
        as the limit."""
        share, found = self.share_above(limit), []
        for edges, of in self._slices:
            columns = [of.above[place :: len(of.edges_us)] for place in range(len(of.edges_us))]
            expected = share * sum(of.gaps)
            distances = [abs(sum(column) - expected) for column in columns]
            nearest = columns[distances.index(min(distances))]
            found += [sum(nearest[a:b]) for a, b in pairwise(edges)]
        return found

    def explained_by_load(self, limits: Sequence[float]) -> float:
        return float(self._load_decides)


def _reach(seen: Sequence[int]) -> int:
    """Between the most and the least in the system, without the twentieth at either end: the
    ramp."""
    ordered, margin = sorted(seen), len(seen) // 20
    return ordered[-1 - margin] - ordered[margin]


def _slice_edges(stage: StageParts, of: GapSlices) -> list[int]:
    """Slices put together until each is longer than a cycle of the queue, or a batch."""
    cycles = int(effective_cycles([stage]))
    count = max(1, min(len(of.gaps), cycles if cycles > MIN_BATCHES else len(stage.batches) - 1))
    return [len(of.gaps) * i // count for i in range(count + 1)]


def certainty(
    sample: LatencySample, percent: float, limit: float, *, error: float = probability.ERROR
) -> Certainty:
    """Whether a percentile (0 to 100) of what the sample is drawn from is at most `limit`, wrong
    with a probability of at most `error` on each side."""
    if sample.count == 0 or not 0 < percent < 100:
        return Certainty("Inconclusive", 0.0)
    allowed, share = 1 - percent / 100, sample.share_above(limit)
    if (inflation := sample.inflation(percent, limit)) is None:
        missed = share > allowed and (error * share >= allowed or sample.grows(error))
        return Certainty("Missed" if missed else "Inconclusive", min(sample.parts, sample.count))
    independent = min(sample.count / inflation, probability.MOST_INDEPENDENT)
    if probability.is_rare(share, independent, allowed, error):
        return Certainty("Met", independent)
    missed = probability.is_rare(1 - share, independent, 1 - allowed, error)
    return Certainty("Missed" if missed else "Inconclusive", independent)


def decided(
    sample: LatencySample, percent: float, limit: float, *, error: float = probability.ERROR
) -> tuple[Certainty, float]:
    """The same of a sample with values, and its own percentile, which the outcome does not
    contradict. It is infinite where so many requests failed; that alone is no proof that as many
    always do."""
    value = percentiles.interpolated(sample.at_rank, sample.count, percent)
    found = certainty(sample, percent, limit, error=error)
    return (
        found._replace(outcome="Inconclusive")
        if found.outcome == "Missed" and value <= limit
        else found
    ), value


class Interval(NamedTuple):
    low: float
    high: float
    independent: float  # Observations that it rests on.


def interval(
    sample: LatencySample, percent: float, *, error: float = probability.ERROR
) -> Interval | None:
    """The confidence interval of a percentile (0 to 100), each side wrong with at most `error`, or
    None."""
    found: Interval | None = None
    for _ in range(2):  # Values at the ends may be more alike than those in the middle.
        inflation = sample.inflation(percent, *(() if found is None else found[:2]))
        if inflation is None:
            return None
        ranks = percentiles.interval_ranks(sample.count, percent, inflation=inflation, error=error)
        if ranks is None:
            return None
        low, high = map(sample.at_rank, ranks)
        found = Interval(low, high, sample.count / inflation)
    return found if found is not None and math.isfinite(found.high) else None
