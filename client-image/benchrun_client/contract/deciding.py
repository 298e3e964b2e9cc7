"""How much a load point has to send until a percentile is certain, or keeps its limit. Pure.

What `certainty` asks for is counted: requests beyond a percentile, rounds of all requests in
flight, repeats. Whether a limit is kept follows from the noise, as it was measured: batches and
clusters become more with the requests, the scatter of repeats shrinks with their number, and
Student's factor with both. The percentile is taken to be as measured, nearer to its limit where
noise hides how far it is, and what is told decides with a probability of `POWER`.
docs/measurement.md has it in plain words, docs/truth.md says how far the told numbers are off.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from benchrun_client.contract import certainty, percentiles, probability
from benchrun_client.contract.certainty import LatencySample

MAX_REPEATS = 100  # As many as a spec may have.
MAX_LONGER = 10_000.0
"""A stage that had to be so many times as long is not told: no number is near enough."""
LEAST_COUNT = certainty.MIN_BATCHES * certainty.MIN_BATCH_REQUESTS
"""Fewest requests whose scatter gives an interval."""
LEAST_LONGER = 1.1
"""Where as many requests as there are would be enough as a rule, and were not."""
LOST_ROUNDS = 4.0
"""Rounds outside of the steady part: its beginning waits for the ramp and for a round or two, and
it ends two rounds before the last request is sent."""
CLOSED_ROUNDS = 8.0
"""Fewest rounds of users in a whole stage that has a steady part: half of the sending time."""
OPEN_ROUNDS = 13.5
"""Fewest rounds in a whole stage at a rate that has a steady part: seven tenths of the sending."""
OPEN_STEADY = 0.9
"""Largest share of a stage at a rate that can be its steady part."""
SPARE = 1.15
"""The number of requests in flight of an open loop differs from stage to stage, and with it the
rounds: so many times as many requests have enough of them in most stages."""
MOST_FARTHER = 1.3
"""How many times as far from the limit a measured percentile counts at most as the true one."""
SURE_ERRORS = 3.0
"""Standard errors from the limit from which on a measured distance is the true one's median."""
HIDING_CLUSTERS = (2.5, 4.0)
"""Up to how many busy times the batches hide most of the scatter, and from how many on none."""
MOST_HIDDEN = 1.3
"""Scatter of a percentile that two busy times decide, by that of its batches: 1.2 to 1.4 for the
p95 of M/M/1 and of continuous batching, from 100 to 400 requests."""
REPEATS_OF_BATCHES = 4.0
"""How many repeats the scatter of the batches is worth, where both say how far repeats differ."""


class Needed(NamedTuple):
    """What each stage of a load point, and how many stages, would be enough."""

    longer: float
    """How many times as many requests that count; at least 1."""
    repeats: int
    """Stages in all; at least as many as there are."""


def needed_to_bound(sample: LatencySample, percent: float) -> Needed | None:
    """Return what makes a percentile (0 to 100) reliable, as `certainty.is_bounded` has it.

    Return None if it is, if no values were measured, or if more requests would not help: failed
    ones are in the way.
    """
    count = percentiles.least_count(percent)
    if not sample.count or count is None or certainty.is_bounded(sample, percent):
        return None
    repeats = (
        max(sample.repeats, certainty.MIN_REPEATS)
        if sample.is_burst
        else sample.repeats
    )
    is_tail = percent > certainty.TAIL_PERCENT
    rounds = certainty.MIN_TAIL_ROUNDS if is_tail else certainty.MIN_ROUNDS
    in_all = certainty.FULL_CLUSTERS if is_tail and sample.is_open else 0
    longer = max(
        _longer_for_rounds(sample, max(float(rounds), in_all / repeats)),
        _longer_for_count(sample, max(count, LEAST_COUNT), repeats),
    )
    return _more_than_there_is(sample, longer, repeats)


def requests_to_bound(percent: float, *, users: int | None, a_stage: int) -> int:
    """Return the least requests of a stage of which so many are steady, before it is measured.

    Users need rounds too, of all their requests in flight; of a rate these are not known.
    """
    if users is None:
        return math.ceil(a_stage / OPEN_STEADY)
    is_tail = percent > certainty.TAIL_PERCENT
    rounds = certainty.MIN_TAIL_ROUNDS if is_tail else certainty.MIN_ROUNDS
    of_users = max(CLOSED_ROUNDS, rounds + LOST_ROUNDS) * users
    return math.ceil(max(a_stage + LOST_ROUNDS * users, of_users))


def needed_to_decide(
    sample: LatencySample,
    percent: float,
    limit: float,
    *,
    error: float = probability.ERROR,
    one_stretch: bool = True,
) -> Needed | None:
    """Return what decides whether a percentile (0 to 100) is at most `limit`.

    For the arguments see `certainty.decided`, which must have answered Inconclusive. Return None if
    the number is not known: the percentile is a failed request, or so close to its limit that no
    number is enough. Where nothing shows the noise yet, it is the least that shows it.
    """
    value = sample.bounds(percent, error).value if sample.count else math.inf
    if math.isinf(value) or limit <= 0:
        return None
    distance = abs(math.log(limit / max(value, 1.0)))
    is_near = one_stretch and distance <= math.log(certainty.NEAR)
    least = certainty.MIN_REPEATS if is_near or sample.is_burst else 1
    repeats = max(sample.repeats, least)
    longer = max(
        _longer_for_rounds(sample, certainty.MIN_ROUNDS / repeats),
        _longer_for_count(sample, LEAST_COUNT, repeats),
    )
    noise = _noise(sample, percent, error, is_above=value <= limit)
    if noise is None:
        return _more_than_there_is(sample, longer, repeats)
    likely = likely_distance(distance, noise.now)
    return _enough(noise, likely, longer, repeats)


def likely_distance(distance: float, error: float) -> float:
    """Return the distance of which the measured one is the median, given its standard error.

    Where noise is as large as the distance, most measurements are farther from the limit than the
    truth is, on one side or the other. What is told grows by no more than `MOST_FARTHER` squared
    for that: of a distance well below the noise nothing is known.
    """
    least = distance / MOST_FARTHER
    if distance >= SURE_ERRORS * error:
        return distance
    low, high = 0.0, distance / error
    measured = high
    normal = NormalDist()
    while high - low > 1e-3:
        middle = (low + high) / 2
        nearer = normal.cdf(measured - middle) - normal.cdf(-measured - middle)
        low, high = (middle, high) if nearer > 0.5 else (low, middle)
    return max(least, low * error)


def _more_than_there_is(
    sample: LatencySample, longer: float, repeats: int
) -> Needed | None:
    return (
        Needed(longer, repeats) if longer > 1 or repeats > sample.repeats else None
    )


def _longer_for_rounds(sample: LatencySample, rounds: float) -> float:
    """Return how many times as long stages have so many rounds each in their steady part."""
    if sample.is_burst:
        return 1.0
    if not sample.is_steady:
        least = OPEN_ROUNDS if sample.is_open else CLOSED_ROUNDS
        rounds = max(least, rounds + LOST_ROUNDS)
    spare = SPARE if sample.is_open and sample.least_rounds < rounds else 1.0
    return max(1.0, spare * rounds / max(sample.least_rounds, 0.1))


def _longer_for_count(sample: LatencySample, count: int, repeats: int) -> float:
    """Return how many times as long stages have so many values in their steady parts together."""
    share = sample.count / max(1, sample.repeats)
    lost = 0.0
    if not sample.is_steady and not sample.is_burst:
        lost = LOST_ROUNDS / max(sample.least_rounds, 0.1)
    return max(1.0, count / repeats / share + lost)


@dataclass(frozen=True, slots=True)
class _Noise:
    """The noise of a measured percentile, as logarithms, on the side of its limit."""

    error: float
    """Largest probability that this side is wrong."""
    of_all: float  # Standard error of the percentile, by the batches of all stages.
    of_one: float  # Standard deviation from repeat to repeat.
    batches: int
    clusters: float
    repeats: int
    is_same: (
        bool  # All repeats were sent the same prompts: more of them add nothing.
    )

    @property
    def now(self) -> float:
        """Return the standard error of the percentile as it was measured."""
        if self.repeats < certainty.MIN_REPEATS:
            return self.of_all
        return max(self.of_all, self.of_one / math.sqrt(self.repeats))

    def reach(self, longer: float, repeats: int) -> float:
        """Return how far from its limit a percentile has to be measured, to be decided so often."""
        growth = longer * (1.0 if self.is_same else repeats / self.repeats)
        batches = max(
            self.batches, min(certainty.BATCHES, int(self.batches * growth))
        )
        error = self.of_all / math.sqrt(growth)
        half = self._student(batches) * error
        half *= certainty.widening(self.clusters * growth)
        if repeats >= certainty.MIN_REPEATS:
            by_repeats = self.of_one / math.sqrt(longer * repeats)
            half = max(half, self._student(repeats) * by_repeats)
            error = max(error, by_repeats)
        return half + NormalDist().inv_cdf(probability.POWER) * error

    def _student(self, values: int) -> float:
        return probability.student_quantile(1 - 2 * self.error, max(1, values - 1))


def _noise(
    sample: LatencySample, percent: float, error: float, *, is_above: bool
) -> _Noise | None:
    """Return the noise of a percentile; None if it is not known.

    `is_above`: the limit lies above the percentile.
    """
    by_batches, by_repeats = sample.widths(percent, error)
    width = by_batches[is_above] if by_batches is not None else 0.0
    repeats = sample.repeats
    if (by_batches is None and by_repeats is None) or not math.isfinite(width):
        return None
    if by_repeats is not None and not math.isfinite(by_repeats):
        return None
    # Without a steady part the scatter is that of the ramp.
    if sample.rounds < certainty.MIN_ROUNDS or not sample.is_steady:
        return None
    found = sample.independence(percent)
    clusters = found.above if is_above else found.below
    batches = max(2, found.batches)
    student = probability.student_quantile(1 - 2 * error, batches - 1)
    of_all = width / student / certainty.widening(clusters)
    of_all *= hidden_scatter(min(found.above, found.below))
    of_one = of_all * math.sqrt(repeats)
    if by_repeats is not None:
        freedom = repeats - 1
        seen = (
            by_repeats
            * math.sqrt(repeats)
            / probability.student_quantile(1 - 2 * error, freedom)
        )
        weight = REPEATS_OF_BATCHES if by_batches is not None else 0.0
        of_one = math.sqrt(
            (weight * of_one**2 + freedom * seen**2) / (weight + freedom)
        )
    return _Noise(
        error=error,
        of_all=of_all * math.sqrt(sample.copies),
        of_one=of_one * math.sqrt(sample.copies),
        batches=batches,
        clusters=clusters,
        repeats=repeats,
        is_same=sample.copies > 1,
    )


def hidden_scatter(clusters: float) -> float:
    """Return how many times as far a percentile scatters as the batches show.

    Where few busy (or quiet) times decide it, most batches have none of them.
    """
    few, enough = HIDING_CLUSTERS
    share = (enough - clusters) / (enough - few)
    return 1 + (MOST_HIDDEN - 1) * min(1.0, max(0.0, share))


def _enough(
    noise: _Noise, distance: float, longer: float, repeats: int
) -> Needed | None:
    """Return the least that decides at this distance, and is more than there is.

    That is more repeats; or longer stages where a single one is enough, where repeats are copies,
    or where no number of repeats is enough.
    """
    if repeats >= certainty.MIN_REPEATS and not noise.is_same:
        most = max(MAX_REPEATS, repeats)
        if noise.reach(longer, most) <= distance:
            least = repeats + (longer == 1 and repeats == noise.repeats)
            found = _least_whole(
                lambda each: noise.reach(longer, each) <= distance, least, most
            )
            return Needed(longer, found)
        repeats = most
    high = longer * MAX_LONGER
    if noise.reach(high, repeats) > distance:
        return None
    low = max(longer, LEAST_LONGER) if repeats == noise.repeats else longer
    if noise.reach(low, repeats) <= distance:
        return Needed(low, repeats)
    while high / low > 1.01:
        middle = math.sqrt(low * high)
        if noise.reach(middle, repeats) <= distance:
            high = middle
        else:
            low = middle
    return Needed(high, repeats)


def _least_whole(is_enough: Callable[[int], bool], low: int, high: int) -> int:
    """Return the least number from `low` on that is enough; `high` is the greatest to be told."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low
