"""What it would take to decide a change that was not detected, or a gate.

The change and the noise are taken to be as measured; what is told decides with a probability of
`POWER`. With several runs a side the values are fresh servers, or runs at an endpoint; else they
are repeats.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import NormalDist, fmean
from typing import Literal, NamedTuple, Self

from benchrun_client.contract import MIN_REPEATS, POWER

from benchrun.api import (
    MIN_SERVERS_OF_PERCENTILES,
    TIME_TO_READY,
    BenchmarkRunStatus,
    Change,
    ComparedMetric,
    Price,
    total_gpus,
)
from benchrun.judge.comparison.comparability import Side
from benchrun.judge.comparison.figures import NO_CV
from benchrun.judge.comparison.hypotheses import Hypothesis
from benchrun.measure import ASSUMED_CV_PERCENT, Contrast, known, rounded
from benchrun.observe import untrusted_json as raw

MAX_VALUES = 1000
"""More values a side are not told: nobody would measure so many."""
MIN_SERVERS = 2  # Fewest that show how servers differ.


Kind = Literal["servers", "runs", "repeats"]
"""What a value is measured on: a fresh server, a run at an endpoint (one and the same server for
all), or a repeat."""


class Values(NamedTuple):
    """How many values a side would be enough, and what a value is measured on."""

    number: int
    of: Kind


@dataclass(frozen=True, slots=True)
class Noise:
    """The noise of a difference, as measured, and how it shrinks with the values a side."""

    estimate: float
    variance: float  # Of the difference, with a single value on each side.
    values: float  # That each side had.
    freedom: float

    @classmethod
    def of(cls, hypothesis: Hypothesis) -> Self | None:
        """Return the noise of a hypothesis; None if it is not known."""
        contrast = hypothesis.contrast()
        before = hypothesis.baseline.log_mean
        after = hypothesis.candidate.log_mean
        if contrast is None or before is None or after is None:
            return None
        first, second = (side.degrees_of_freedom + 1 for side in (before, after))
        variance = first * before.squared_error + second * after.squared_error
        if hypothesis.is_blocked():
            variance = first * contrast.squared_error
        return cls(
            contrast.estimate,
            variance,
            (first + second) / 2,
            contrast.degrees_of_freedom,
        )

    @classmethod
    def assumed(cls, hypothesis: Hypothesis) -> Self | None:
        """Return the usual noise between servers, around the change as it was measured.

        Return None if a side has no figure.
        """
        before = hypothesis.baseline.value
        after = hypothesis.candidate.value
        if before is None or after is None:
            return None
        variance = 2 * math.log1p((ASSUMED_CV_PERCENT / 100) ** 2)
        return cls(math.log(after / before), variance, values=2, freedom=2)

    def unlucky(self, values: int, *, toward: float) -> Contrast:
        """Return what so many values a side show, but for bad luck.

        The estimate is off toward `toward`, so far as it is in one of five cases.
        """
        squared_error = self.variance / values
        luck = NormalDist().inv_cdf(POWER) * math.sqrt(squared_error)
        away = toward - self.estimate
        # Whole degrees of freedom: Student's factor is then looked up, mostly.
        freedom = self.freedom * (values - 1) / max(1.0, self.values - 1)
        return Contrast(
            self.estimate + math.copysign(min(abs(away), luck), away),
            squared_error,
            max(1, math.floor(freedom)),
        )


def _fewest(is_enough: Callable[[int], bool], *, most: int) -> int | None:
    """Return the fewest values a side that are enough; None if that takes more than `most`."""
    low = 2
    high = 2
    while not is_enough(high):
        if high == most:
            return None
        low = high + 1
        high = min(2 * high, most)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if is_enough(middle) else (middle + 1, high)
    return low


def values_of_change(
    hypothesis: Hypothesis, change: Change, *, error: float, margin: float
) -> int | None:
    """Return how many values a side would decide an undecided change; None if not known.

    It is then Better or Worse, or Equivalent, whichever takes less. `error` is the error of one of
    all changes that are tested together, `margin` the least change that matters, as a logarithm.
    """
    if change.word not in ("NoDetectableDifference", "Unknown"):
        return None
    noise = Noise.of(hypothesis)
    if noise is None:
        return _least_values(hypothesis)
    far = math.copysign(math.inf, noise.estimate)

    def is_enough(values: int) -> bool:
        reach = noise.unlucky(values, toward=0.0).reach(1 - error)
        return (
            abs(noise.unlucky(values, toward=0.0).estimate) >= reach > 0
            or abs(noise.unlucky(values, toward=far).estimate) + reach <= margin
        )

    return _fewest(is_enough, most=MAX_VALUES)


def _least_values(hypothesis: Hypothesis) -> int | None:
    """Return the fewest values a side that show the noise; None if more would not show it."""
    if NO_CV in (hypothesis.baseline.problem, hypothesis.candidate.problem):
        return None
    return least_of(hypothesis.metric)


def least_of(metric: ComparedMetric) -> int:
    """Return the fewest values a side with which a figure is compared."""
    if metric == TIME_TO_READY:
        return MIN_SERVERS
    return MIN_SERVERS_OF_PERCENTILES if metric.startswith("P") else MIN_REPEATS


class Gated(NamedTuple):
    """A figure that must not be worse by more than its limit, as logarithms above 0."""

    noise: Noise  # Of how much worse it got.
    limit: float


def values_of_gate(gated: Sequence[Gated], *, error: float) -> int | None:
    """Return how many values a side would decide a gate; None if not known.

    It fails if a figure is beyond its limit, as measured; else all must be shown to be within.
    """
    beyond = [each for each in gated if each.noise.estimate > each.limit]
    if beyond:
        least = [
            _fewest(partial(_is_beyond, each, error / len(gated)), most=MAX_VALUES)
            for each in beyond
        ]
        return min((each for each in least if each is not None), default=None)
    every = [
        _fewest(partial(_is_within, each, error), most=MAX_VALUES) for each in gated
    ]
    enough = [each for each in every if each is not None]
    return max(enough, default=None) if len(enough) == len(every) else None


def _is_beyond(each: Gated, error: float, values: int) -> bool:
    found = each.noise.unlucky(values, toward=each.limit)
    return found.exceeds(each.limit) <= error


def _is_within(each: Gated, error: float, values: int) -> bool:
    found = each.noise.unlucky(values, toward=each.limit)
    return replace(found, estimate=-found.estimate).exceeds(-each.limit) <= error


def price_of(values: Values | None, before: Side, after: Side) -> Price | None:
    """Return the price of so many values on each side; None if their number is not known.

    A fresh server takes as long as those of its side did, start included. Runs at an endpoint, and
    repeats, take as long as theirs did, on a server that is there.
    """
    if values is None:
        return None
    took = [_Took.of(side, values.of) for side in (before, after)]
    seconds = [each.seconds for each in took]
    gpu_seconds = [each.gpu_seconds for each in took]
    return Price(
        repeats=values.number if values.of == "repeats" else None,
        servers=values.number if values.of == "servers" else None,
        runs=values.number if values.of == "runs" else None,
        minutes=_in_all(values.number / 60, seconds),
        gpu_seconds=_in_all(values.number, gpu_seconds),
    )


def _in_all(times: float, each: Sequence[float | None]) -> float | None:
    return rounded(times * sum(known(each))) if None not in each else None


class _Took(NamedTuple):
    """What one value of a side took; None: not known, or no GPU was held."""

    seconds: float | None
    gpu_seconds: float | None

    @classmethod
    def of(cls, side: Side, kind: Kind) -> "_Took":
        seconds = [_seconds(run.status, kind) for run in side]
        gpus = [total_gpus(run.status.servers) for run in side]
        if not seconds or None in seconds:
            return cls(None, None)
        held = [each * n for each, n in zip(known(seconds), gpus, strict=True)]
        return cls(fmean(known(seconds)), fmean(held) if all(gpus) else None)


def _seconds(status: BenchmarkRunStatus, kind: Kind) -> float | None:
    """Return how long a run held its servers, or measured, or how long one of its repeats took."""
    end = raw.instant(status.server_released_time)
    if kind == "servers":
        return raw.seconds_between(raw.instant(status.scheduled_time), end)
    # Nothing is released at an endpoint.
    end = end or raw.instant(status.completion_time)
    measured = raw.seconds_between(raw.instant(status.start_time), end)
    if kind == "runs":
        return measured
    repeats = max((row.repeats for row in status.results), default=0)
    return None if measured is None or not repeats else measured / repeats
