"""Student's distribution, and Welch's interval for the difference of two means.

What makes a difference certain is how much single values scatter. A value here is one *fresh server's* figure: values of
one server share its luck, and an interval from them says nothing of the next server.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from benchrun.measure.beta import regularized_beta

CONFIDENCE = 0.95
MAX_DEGREES_OF_FREEDOM = 1e6
"""More are counted as this many: the two-sided p-value would change by less than a millionth."""


def student_p_value(t: float, degrees_of_freedom: float) -> float:
    """The probability of a value further from 0 than `t`, on either side."""
    if math.isinf(t):
        return 0.0
    square, freedom = t * t, min(degrees_of_freedom, MAX_DEGREES_OF_FREEDOM)
    if square < freedom:
        # Asked for the nearer end: a share close to 1 has lost its digits.
        return 1.0 - regularized_beta(0.5, freedom / 2, square / (freedom + square))
    return regularized_beta(freedom / 2, 0.5, freedom / (freedom + square))


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, degrees_of_freedom: float) -> float:
    """The `t` with `confidence` (0 to 1, exclusive) of the values between -t and t: 2.776 for 0.95 and 4."""
    error, t = 1.0 - confidence, 0.0
    while True:
        # Newton's method from below: the p-value falls ever more slowly, so that no step goes too far.
        step = (student_p_value(t, degrees_of_freedom) - error) / (2 * _density(t, degrees_of_freedom))
        if step <= 1e-14 * t:
            return t
        t += step


def _density(t: float, freedom: float) -> float:
    log_peak = math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2) - 0.5 * math.log(math.pi * freedom)
    return math.exp(log_peak - (freedom + 1) / 2 * math.log1p(t * t / freedom))


@dataclass(frozen=True, slots=True)
class Mean:
    """A mean, and how far it may be off."""

    value: float
    squared_error: float
    """Variance of the values over their number."""
    count: int


@dataclass(frozen=True, slots=True)
class Contrast:
    """A difference of two means, before it is said how sure to be of its interval."""

    estimate: float
    squared_error: float
    degrees_of_freedom: float

    @property
    def p_value(self) -> float:
        """Two-sided: the probability of so large a difference when there is none."""
        if self.squared_error == 0:
            return 1.0 if self.estimate == 0 else 0.0
        return student_p_value(self.estimate / math.sqrt(self.squared_error), self.degrees_of_freedom)

    def reach(self, confidence: float) -> float:
        """Half the width of the interval; 0 where no value differed from its own side's others."""
        if self.squared_error == 0:
            return 0.0
        return student_quantile(confidence, self.degrees_of_freedom) * math.sqrt(self.squared_error)


def mean_of(values: Sequence[float]) -> Mean:
    """The mean of two values or more."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Mean(mean, variance / len(values), len(values))


def welch(first: Mean, second: Mean) -> Contrast:
    """`second` minus `first`, whose scatter may differ; each the mean of two values or more."""
    estimate, squared_error = second.value - first.value, first.squared_error + second.squared_error
    if squared_error == 0:
        return Contrast(estimate, 0.0, float(first.count + second.count - 2))
    # Shares, not squares of tiny errors, which could vanish.
    share_1, share_2 = first.squared_error / squared_error, second.squared_error / squared_error
    freedom = 1 / (share_1**2 / (first.count - 1) + share_2**2 / (second.count - 1))
    return Contrast(estimate, squared_error, freedom)


def log_ratio_percent(log_ratio: float) -> float:
    """A logarithm of a ratio as a change in percent; beyond what a float holds it is without bound."""
    return 100 * math.expm1(log_ratio) if log_ratio < 700 else math.inf
