"""How certain a percentile is: its confidence interval, and whether it keeps a limit. Pure.

The requests of a stage are cut into batches in order of time. Each batch has its own percentile.
The scatter of their logarithms around the logarithm of the percentile of all requests gives the
interval (sectioning: S. Asmussen and P. W. Glynn, Stochastic Simulation, 2007). The batches alone
show too little scatter, so four corrections widen the interval: for batches that resemble their
neighbours, for a percentile that only a few busy times decide, for repeats that differ more than
their batches do, and for repeats that were sent the same prompts. docs/measurement.md explains the
method in plain words; docs/truth.md shows how often the interval is right.
"""

import math
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import accumulate, chain, pairwise
from operator import gt, lt
from statistics import fmean, pvariance
from typing import Literal, NamedTuple

from benchrun_client.contract import percentiles, probability
from benchrun_client.contract.record import GapCounts, GapSlices

Outcome = Literal["Met", "Missed", "Inconclusive"]
BATCHES = 16
"""Parts of all stages together whose scatter gives an interval; growth is looked for by as many."""
MIN_BATCH_REQUESTS = 5
MIN_BATCHES = 4
"""Fewest batches whose scatter gives an interval. That of two would hold too, but is so wide that
it says nothing."""
FULL_CLUSTERS = 40
"""Number of busy (or quiet) periods that is enough to use the batches' scatter unchanged. With
fewer, the interval is widened by the square root of this number divided by the actual one. If
requests arrive at a rate, reliable percentiles above `TAIL_PERCENT` need as many rounds of all
stages together: after twenty p95 of TTFT is 6 % too low, and only stages with little waiting get an
interval."""
MAX_STRETCH = 2.5
"""Largest factor by which so few periods widen an interval. Without it 400 requests to a slow queue
show three times the true percentile as Met in 90 % of stages, not in 94."""
MIN_ROUNDS = 3
"""Fewest rounds of all requests in flight in a stage: a shorter stage shows no steady load."""
TAIL_PERCENT = 90.0
MIN_TAIL_ROUNDS = 12
"""Fewest rounds in each stage for reliable percentiles above `TAIL_PERCENT`: the longest latencies
settle last. After ten rounds of 256 users p95 of TTFT is 12 % off, and p99 of E2EL 11 %."""
FAR = 2.0
"""A limit that differs from every value by at least this factor is Met or Missed without an
interval, however correlated the values are."""
MIN_FAR_REQUESTS = math.ceil(
    math.log(2 * probability.ERROR) / math.log(1 - 0.01 ** (1 / FAR))
)
"""Fewest requests with which a limit that is `FAR` is decided: 29. Of so many exponential values
one is above half of their p99 in 95 % of stages. With fewer, twice the greatest value is too often
below the true p99."""
NEAR = 1.5
"""A limit within this factor cannot be decided by one stretch of time: servers change their speed
over minutes. If the speed scatters by 15 % within five minutes, the median of eleven minutes of a
loaded server is a third off in one of twenty cases."""
MIN_REPEATS = 3
"""Fewest repeats whose scatter shows such changes of speed. Changes that take longer than all
repeats together do not show: docs/truth.md has the figures."""


@dataclass(frozen=True, slots=True)
class StageShape:
    """The counted requests of a stage, and how they depend on each other."""

    order: Sequence[int]
    """Positions of the requests, ordered by the instants at which they began."""
    clusters: Sequence[int]
    """Positions in `order` at which a cluster begins, from 0 to the length of `order`. A cluster is
    a cycle of an open loop's queue, or a round of a closed loop's users."""
    rounds: float
    """Requests divided by the number in flight; infinite for a load sent at once."""
    at_once: bool = False
    is_steady: bool = True
    """Whether these requests are the steady part; False: the stage has none, so that it can't show
    that a limit is kept."""
    is_open: bool = False  # Requests arrive at a rate, or as a trace has them.
    grows: bool = False
    """Whether the number of requests in the system grew throughout: the queue has no bound."""


def stage_shape(
    begins: Sequence[float],
    ends: Sequence[float],
    *,
    users: int | None = None,
    at_once: bool = False,
    counted: Iterable[int] | None = None,
    is_steady: bool = True,
) -> StageShape:
    """Return which requests of a stage count, and how they depend on each other.

    `begins` and `ends` are instants in the same unit; requests of an open loop begin when they are
    due. `users` is the number of users of a closed loop; None means an open loop, a trace, or a
    load sent `at_once`. `counted` holds the positions of the requests that count; None means all.
    They are the steady part unless `is_steady` is False.
    """
    wanted = set(range(len(begins)) if counted is None else counted)
    every = sorted(range(len(begins)), key=begins.__getitem__)
    order = [position for position in every if position in wanted]
    if at_once or not order:
        return StageShape(
            order, [0, len(order)], math.inf if at_once else 0.0, at_once, is_steady
        )
    if users is not None:
        rounds = len(order) / users
        count = max(1, int(rounds))
        edges = [len(order) * i // count for i in range(count + 1)]
        return StageShape(order, edges, rounds, is_steady=is_steady)
    ended = sorted(ends)
    seen = [
        place - bisect_left(ended, begins[position])
        for place, position in enumerate(every)
        if position in wanted
    ]
    rounds = len(seen) / max(1.0, fmean(seen))
    cycles = _cycles(seen)
    grows = _grows(seen)
    return StageShape(
        order, cycles, rounds, is_steady=is_steady, is_open=True, grows=grows
    )


def _cycles(seen: Sequence[int]) -> list[int]:
    """Return the positions at which the number of requests in the system rises above its median.

    They cut the stage into regenerative cycles (M. A. Crane and D. L. Iglehart, 1975). The first
    position is 0, the last is the length.
    """
    middle = sorted(seen)[len(seen) // 2]
    # Above the median, or to it: it may be the most there ever were, or the least.
    rises = max((_rises(seen, level) for level in (middle, middle - 1)), key=len)
    return [0, *rises, len(seen)]


def _rises(seen: Sequence[int], level: int) -> list[int]:
    return [
        place
        for place, (a, b) in enumerate(pairwise(seen), start=1)
        if a <= level < b
    ]


def _grows(seen: Sequence[int]) -> bool:
    """Return whether the number of requests in the system grows throughout the second half.

    Student's t-test decides whether the changes from part to part have a direction. The changes of
    a queue that keeps its level have none.
    """
    # The first half may be the filling of an empty server.
    seen = seen[len(seen) // 2 :]
    if len(seen) < BATCHES * MIN_BATCH_REQUESTS:
        return False
    places = [(len(seen) - 1) * part // BATCHES for part in range(BATCHES + 1)]
    steps = [seen[b] - seen[a] for a, b in pairwise(places)]
    mean = fmean(steps)
    scatter = math.sqrt(pvariance(steps) / (len(steps) - 1))
    t = mean / scatter if scatter else math.inf
    freedom = len(steps) - 1
    return (
        mean > 0
        and probability.student_p_value(t, freedom) <= 2 * probability.ERROR
    )


class Interval(NamedTuple):
    """A 95 % confidence interval of a percentile, for this server in these minutes."""

    low: float
    high: float


class LimitOutcome(NamedTuple):
    """Outcome for one latency percentile that must keep a limit."""

    outcome: Outcome
    value: float
    """Value of the percentile; infinite if it falls among failed requests."""


class Independence(NamedTuple):
    """How much of a sample is independent: what its interval rests on."""

    batches: int
    """Batches whose scatter gives the interval."""
    below: float
    """Effective number of clusters that have a value below the percentile."""
    above: float


class LatencySample(ABC):
    """The values of one latency metric in all stages of a load point."""

    def __init__(self, stages: Sequence[StageShape]) -> None:
        self.stages = stages
        self.count = 0
        """Number of values, including those of failed requests."""
        self.copies = 1.0
        """Number of stages per distinct set of prompts. Stages with the same prompts are not
        independent of each other."""
        self._bounds: dict[tuple[float, float], _Bounds] = {}

    @property
    def rounds(self) -> float:
        """Return the sum of the stages' rounds (`StageShape.rounds`)."""
        return math.fsum(stage.rounds for stage in self.stages)

    @property
    def least_rounds(self) -> float:
        """Return the fewest rounds of any stage."""
        return min((stage.rounds for stage in self.stages), default=0.0)

    @property
    def is_steady(self) -> bool:
        """Return whether every stage has a steady part."""
        return all(stage.is_steady for stage in self.stages)

    @property
    def is_burst(self) -> bool:
        """Return whether every stage sent all its requests at once."""
        return all(stage.at_once for stage in self.stages)

    @property
    def is_open(self) -> bool:
        """Return whether requests of some stage arrived at a rate or as in a trace."""
        return any(stage.is_open for stage in self.stages)

    @property
    def repeats(self) -> int:
        """Return the number of stages."""
        return len(self.stages)

    @abstractmethod
    def percentile(self, percent: float) -> float:
        """Return a percentile (0 to 100) of all values; infinite if it is a failed request's."""

    @property
    @abstractmethod
    def range(self) -> tuple[float, float]:
        """Return the smallest and the greatest latency."""

    @abstractmethod
    def _half_widths(
        self, percent: float, error: float
    ) -> tuple[float, float] | None:
        """Return how far the interval reaches below and above, as differences of logarithms.

        The widths follow from the scatter of the batches; each side is wrong with a probability of
        at most `error`. None means that there are too few batches.
        """

    @abstractmethod
    def independence(self, percent: float) -> Independence:
        """Return what the interval of a percentile by batches rests on."""

    def widths(
        self, percent: float, error: float
    ) -> tuple[tuple[float, float] | None, float | None]:
        """Return the half-widths of the interval, as logarithms: by batches, and by repeats.

        None where too little was measured. Of a burst only the repeats count. A repeat in which no
        request has a value, as where few answers have reasoning, is none.
        """
        by_batches = None if self.is_burst else self._half_widths(percent, error)
        values = self._of_repeats(percent)
        if len(values) < MIN_REPEATS:
            return by_batches, None
        return by_batches, _scatter_of_repeats(
            values, self.percentile(percent), error
        )

    @abstractmethod
    def _of_repeats(self, percent: float) -> list[float]:
        """Return the percentile of each stage, in the order of the stages."""

    def bounds(self, percent: float, error: float) -> "_Bounds":
        """Return the percentile and the bounds of its interval.

        The bounds are 0 and infinity if too little was measured.
        """
        key = (percent, error)
        if key not in self._bounds:
            self._bounds[key] = self._find_bounds(percent, error)
        return self._bounds[key]

    def _find_bounds(self, percent: float, error: float) -> "_Bounds":
        value = self.percentile(percent)
        widths = self._widths_of_all(percent, error)
        if widths is None or self.rounds < MIN_ROUNDS:
            return _Bounds(0.0, value, math.inf)
        lower, higher = (width * math.sqrt(self.copies) for width in widths)
        return _Bounds(
            _scaled(self._as_answered(value), -lower), value, _scaled(value, higher)
        )

    def _widths_of_all(
        self, percent: float, error: float
    ) -> tuple[float, float] | None:
        """Return the half-widths by batches or by repeats, whichever are larger.

        For a burst only the repeats count, because its batches are parts of one queue. None means
        that too little was measured.
        """
        by_batches, by_repeats = self.widths(percent, error)
        if by_repeats is None:
            return by_batches
        if self.is_burst:
            by_batches = (0.0, 0.0)
        if by_batches is None:
            return None
        lower, higher = by_batches
        return max(lower, by_repeats), max(higher, by_repeats)

    def above(self, percent: float, limit: float, error: float) -> "Beyond":
        """Return whether more or fewer values certainly exceed `limit` than the percentile allows.

        This counts values, because if they have two levels, the percentile jumps from one to the
        other, and the scatter of its logarithm does not show that.
        """
        return Beyond(more=True, fewer=True)

    def _as_answered(self, value: float) -> float:
        """Return the value, or the longest answer if the value is infinite (a failed request)."""
        return value


class Beyond(NamedTuple):
    """Whether the share of values beyond a limit is certainly more, or less, than allowed."""

    more: bool
    fewer: bool


class _Bounds(NamedTuple):
    low: float
    value: float
    high: float


def _scaled(value: float, log_factor: float) -> float:
    """Return a value times a factor that is given by its logarithm."""
    if log_factor > 100 or math.isinf(value):
        return math.inf
    return value * math.exp(log_factor)


def _logarithm(value: float) -> float:
    """Return the natural logarithm; values below 1 microsecond count as 1."""
    return math.log(max(value, 1.0))


def _scatter_of_repeats(
    values: Sequence[float], value: float, error: float
) -> float:
    """Return the half-width of Student's interval that the scatter of the repeats gives.

    It is the logarithm of a factor. `values` has the percentile of each repeat, `value` is the
    percentile of all requests together; `error` is the chance of an error at either end.
    """
    if math.isinf(value) and all(map(math.isinf, values)):
        return -math.inf
    if math.isinf(value) or any(map(math.isinf, values)):
        return math.inf
    return _half_width(
        [_logarithm(each) for each in values], _logarithm(value), error
    )


def _half_width(values: Sequence[float], center: float, error: float) -> float:
    """Return the half-width of Student's interval from the scatter of values around a center."""
    squares = math.fsum((value - center) ** 2 for value in values)
    freedom = len(values) - 1
    return probability.student_quantile(1 - 2 * error, freedom) * math.sqrt(
        squares / freedom / len(values)
    )


def widening(clusters: float) -> float:
    """Return the factor by which an interval widens because there are so few clusters."""
    return min(MAX_STRETCH, max(1.0, math.sqrt(FULL_CLUSTERS / max(clusters, 1.0))))


def _effective(counts: Sequence[int]) -> float:
    """Return the effective number of clusters that have these counts.

    It is the squared sum divided by the sum of squares, so that one large cluster counts as one.
    """
    squares = sum(count * count for count in counts)
    return sum(counts) ** 2 / squares if squares else 0.0


class RequestSample(LatencySample):
    """One latency (TTFT, TPOT or E2EL) of every request in a sample."""

    def __init__(
        self, stages: Sequence[StageShape], values: Sequence[Sequence[float | None]]
    ) -> None:
        """Sort the values of each stage by time.

        `values` holds one entry per request, in the order of the record: infinity for a failed
        request, None for a request without a value.
        """
        super().__init__(stages)
        found = [
            [
                (place, value)
                for place, position in enumerate(stage.order)
                if (value := own[position]) is not None
            ]
            for stage, own in zip(stages, values, strict=True)
        ]
        self._values = [[value for _, value in own] for own in found]
        places = [[place for place, _ in own] for own in found]
        self._clusters = [
            [bisect_left(own, edge) for edge in stage.clusters]
            for stage, own in zip(stages, places, strict=True)
        ]
        self.count = sum(map(len, self._values))

    @cached_property
    def _ascending(self) -> list[float]:
        return sorted(chain.from_iterable(self._values))

    @cached_property
    def _longest(self) -> float:
        longest = max(
            (value for value in self._ascending if math.isfinite(value)),
            default=1.0,
        )
        return max(longest, 1.0)

    def _as_answered(self, value: float) -> float:
        return self._longest if math.isinf(value) else value

    @property
    def range(self) -> tuple[float, float]:
        return self._ascending[0], self._ascending[-1]

    def percentile(self, percent: float) -> float:
        return _interpolated(self._ascending, percent)

    @cached_property
    def _stages_ascending(self) -> list[list[float]]:
        return [sorted(own) for own in self._values if own]

    def _of_repeats(self, percent: float) -> list[float]:
        return [_interpolated(own, percent) for own in self._stages_ascending]

    @cached_property
    def _batches(self) -> list[list[list[float]]]:
        """Return the values of each stage cut into batches, each in ascending order."""
        a_stage = max(2, -(-BATCHES // max(1, self.repeats)))
        return [
            [
                sorted(part)
                for part in _parts(
                    own, min(a_stage, len(own) // MIN_BATCH_REQUESTS)
                )
            ]
            for own in self._values
        ]

    @cached_property
    def _alike(self) -> float:
        """Return the factor by which correlated neighbouring batches inflate a mean's variance."""
        levels = [
            [
                fmean([_logarithm(min(value, self._longest)) for value in part])
                for part in parts
            ]
            for parts in self._batches
        ]
        return probability.variance_inflation(
            [[level - fmean(own) for level in own] for own in levels if own],
            fitted=1,
        )

    def _half_widths(
        self, percent: float, error: float
    ) -> tuple[float, float] | None:
        batches = list(chain.from_iterable(self._batches))
        if len(batches) < MIN_BATCHES:
            return None
        value = self.percentile(percent)
        failed = self._hits(math.isinf, percent, error)
        if math.isinf(value) and failed.more:
            return -math.inf, math.inf
        # Failed requests are at least as long as the longest answer. Where the percentile may lie
        # among them, it has no upper end.
        longest = self._longest
        logs = [
            _logarithm(min(_interpolated(part, percent), longest))
            for part in batches
        ]
        width = _half_width(
            logs, _logarithm(min(value, longest)), error
        ) * math.sqrt(self._alike)
        below = self._clusters_with(partial(gt, value))
        above = self._clusters_with(partial(lt, value))
        return width * widening(below), width * widening(
            above
        ) if failed.fewer else math.inf

    def independence(self, percent: float) -> Independence:
        value = self.percentile(percent)
        return Independence(
            sum(map(len, self._batches)),
            self._clusters_with(partial(gt, value)),
            self._clusters_with(partial(lt, value)),
        )

    def above(self, percent: float, limit: float, error: float) -> Beyond:
        if self.is_burst:
            return super().above(percent, limit, error)
        return self._hits(partial(lt, limit), percent, error)

    def _hits(
        self, hit: Callable[[float], bool], percent: float, error: float
    ) -> Beyond:
        """Return whether the share of hits is certainly above, or below, what `percent` allows.

        A hit is a value for which `hit` is true. The allowed share is 1 - percent / 100. The
        scatter of the batches' shares gives the certainty.
        """
        allowed = 1 - percent / 100
        batches = list(chain.from_iterable(self._batches))
        shares = [sum(map(hit, part)) / len(part) for part in batches]
        if not any(shares):
            return Beyond(more=False, fewer=allowed > 0)
        share = fmean(shares)
        reach = _half_width(shares, share, error)
        stretch = widening(self._clusters_with(hit))
        # Few hits are few clusters, which says nothing against their being few.
        return Beyond(
            more=share - reach * stretch > allowed, fewer=share + reach < allowed
        )

    def _clusters_with(self, hit: Callable[[float], bool]) -> float:
        """Return the effective number of clusters that have a value for which `hit` is true."""
        found = 0.0
        for values, edges in zip(self._values, self._clusters, strict=True):
            through = list(accumulate(map(hit, values), initial=0))
            found += _effective(
                [through[b] - through[a] for a, b in pairwise(edges)]
            )
        return found


def _parts(values: Sequence[float], count: int) -> Iterator[Sequence[float]]:
    """Yield `count` parts of the values, equal in length to within one value."""
    for number in range(count):
        yield values[
            len(values) * number // count : len(values) * (number + 1) // count
        ]


def _interpolated(ascending: Sequence[float], percent: float) -> float:
    return percentiles.interpolated(
        lambda rank: ascending[rank - 1], len(ascending), percent
    )


class GapSample(LatencySample):
    """Gaps between tokens (ITL) of the counted part, and their shares by slices of time.

    The share of gaps above the percentile scatters from slice to slice; the interval of that share
    gives the interval of the percentile (R. S. Woodruff, 1952). All streams get a token in the same
    step of the engine, so the gaps of a slice count as one observation.
    """

    def __init__(
        self,
        stages: Sequence[StageShape],
        gaps: Sequence[tuple[GapCounts, GapSlices | None]],
        failed: Sequence[float],
    ) -> None:
        """Pool the gaps of all stages.

        `gaps` holds, for each stage, the exact counts and the counts by slices of time. `failed`
        holds each stage's ratio of failed to answered requests; infinite gaps are added in the
        same ratio.
        """
        super().__init__(stages)
        self._pools = [
            _gap_pool(exact, share)
            for (exact, _), share in zip(gaps, failed, strict=True)
        ]
        pairs = (_pairs(pool) for pool in self._pools)
        self._pool = percentiles.Distribution.of_counts(chain.from_iterable(pairs))
        self._slices = [of for _, of in gaps]
        self.count = self._pool.count

    @property
    def range(self) -> tuple[float, float]:
        return self._pool.values[0], self._pool.values[-1]

    def percentile(self, percent: float) -> float:
        return percentiles.interpolated(self._pool.at_rank, self.count, percent)

    def _of_repeats(self, percent: float) -> list[float]:
        return [
            percentiles.interpolated(pool.at_rank, pool.count, percent)
            for pool in self._pools
            if pool.count
        ]

    def _shares(self, percent: float) -> list[float]:
        return [
            share
            for of in self._slices
            if of
            for share in _shares_above(of, percent)
        ]

    def independence(self, percent: float) -> Independence:
        shares = self._shares(percent)
        hits = _clusters_of(shares)
        return Independence(len(shares), hits, hits)

    def _half_widths(
        self, percent: float, error: float
    ) -> tuple[float, float] | None:
        shares = self._shares(percent)
        if len(shares) < MIN_BATCHES or any(of is None for of in self._slices):
            return None
        value = self.percentile(percent)
        hits = _clusters_of(shares)
        reach = 100 * _half_width(shares, fmean(shares), error) * widening(hits)
        low = percent - reach
        high = percent + reach
        lowest, greatest = self.range
        lower = self.percentile(low) if low > 0 else lowest
        # Above all that was seen: as far beyond the greatest gap as that is beyond the percentile.
        higher = (
            self.percentile(high)
            if high < 100
            else greatest * greatest / max(value, 1.0)
        )
        if math.isinf(value):
            return math.inf, math.inf
        return (
            _logarithm(value) - _logarithm(lower),
            math.inf
            if math.isinf(higher)
            else _logarithm(higher) - _logarithm(value),
        )


def _clusters_of(shares: Sequence[float]) -> float:
    return _effective([round(share * 1e6) for share in shares])


def _gap_pool(exact: GapCounts, failed: float) -> percentiles.Distribution:
    lost = round(sum(exact.count) * failed)
    pairs = zip(exact.us, exact.count, strict=True)
    return percentiles.Distribution.of_counts(chain([(math.inf, lost)], pairs))


def _pairs(pool: percentiles.Distribution) -> Iterator[tuple[float, int]]:
    before = 0
    for value, through in zip(pool.values, pool.through, strict=True):
        yield value, through - before
        before = through


def _shares_above(of: GapSlices, percent: float) -> list[float]:
    """Return the share of gaps above the percentile, for each batch of slices.

    The edge nearest to the percentile is used in its place.
    """
    edges = len(of.edges_us)
    columns = [of.above[place::edges] for place in range(edges)]
    expected = (1 - percent / 100) * sum(of.gaps)
    distances = [abs(sum(column) - expected) for column in columns]
    nearest = columns[distances.index(min(distances))]
    count = min(BATCHES, len(of.gaps))
    parts = [
        (len(of.gaps) * i // count, len(of.gaps) * (i + 1) // count)
        for i in range(count)
    ]
    sums = [(sum(nearest[a:b]), sum(of.gaps[a:b])) for a, b in parts]
    return [above / gaps for above, gaps in sums if gaps]


def interval(
    sample: LatencySample, percent: float, *, error: float = probability.ERROR
) -> Interval | None:
    """Return the confidence interval of a percentile (0 to 100).

    Each side is wrong with a probability of at most `error`. None means that too little was
    measured for an interval.
    """
    if not sample.count or not 0 < percent < 100 or not sample.is_steady:
        return None
    found = sample.bounds(percent, error)
    return Interval(found.low, found.high) if math.isfinite(found.high) else None


def is_bounded(sample: LatencySample, percent: float) -> bool:
    """Return whether a percentile is reliable: it has an interval and enough values beyond it."""
    needed = percentiles.least_count(percent)
    is_enough = needed is not None and sample.count >= needed
    is_level = missing_rounds(sample, percent) is None
    return is_enough and is_level and interval(sample, percent) is not None


class Rounds(NamedTuple):
    """The rounds that were measured (`StageShape.rounds`), and how many a percentile needs."""

    seen: float
    needed: int


def missing_rounds(sample: LatencySample, percent: float) -> Rounds | None:
    """Return the measured and needed rounds if there are too few for a percentile, else None."""
    is_tail = percent > TAIL_PERCENT
    needed = MIN_TAIL_ROUNDS if is_tail else MIN_ROUNDS
    if sample.is_burst:
        return None
    if sample.least_rounds < needed:
        return Rounds(sample.least_rounds, needed)
    if is_tail and sample.is_open and sample.rounds < FULL_CLUSTERS:
        return Rounds(sample.rounds, FULL_CLUSTERS)
    return None


def decided(
    sample: LatencySample,
    percent: float,
    limit: float,
    *,
    error: float = probability.ERROR,
    one_stretch: bool = True,
) -> LimitOutcome:
    """Decide whether a percentile (0 to 100) is at most `limit`; the sample must have values.

    `one_stretch` says whether the stages lie in one stretch of time. If they do, and there are
    fewer than `MIN_REPEATS`, a limit close to the percentile (`NEAR`) is Inconclusive.
    """
    low, value, high = sample.bounds(percent, error)
    smallest, greatest = sample.range
    near = NEAR if one_stretch and sample.repeats < MIN_REPEATS else 1.0
    is_long = sample.count >= MIN_FAR_REQUESTS and sample.rounds >= MIN_ROUNDS
    if sample.is_steady:
        is_far = is_long and FAR * greatest <= limit
        is_below = high <= limit and value * near <= limit
        if is_far or (is_below and sample.above(percent, limit, error).fewer):
            return LimitOutcome("Met", value)
    is_far = is_long and smallest >= FAR * limit
    grows = all(stage.grows for stage in sample.stages) and value > limit
    is_above = low > limit and value > limit * near
    if is_far or grows or (is_above and sample.above(percent, limit, error).more):
        return LimitOutcome("Missed", value)
    return LimitOutcome("Inconclusive", value)
