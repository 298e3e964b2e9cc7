"""The probabilities by which client and operator decide whether a percentile keeps its limit."""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

ERROR = 0.025  # Largest probability that one side of an interval, or an outcome, is wrong.
POWER = 0.80
"""Probability with which what is told to be enough decides: requests, repeats or servers."""
MAX_DEGREES_OF_FREEDOM = 1e6
"""More degrees of freedom count as this number: that changes a p-value by less than a millionth."""
_TINY = 1e-300
_CONVERGED = 1e-15
_MAX_TERMS = 10_000
"""Terms of the continued fraction: enough for parameters up to a million. The number needed grows
with the square root of the larger parameter."""


def regularized_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function at `x`.

    It is the probability that a Beta(a, b) variable is below `x`. The relative error is below 1e-9
    for parameters up to 500,000.
    """
    if not 0 < x < 1:
        return float(x >= 1)
    log_front = (
        math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
        + a * math.log(x)
        + b * math.log1p(-x)
    )
    # The fraction converges fast below the mean; above it, the other tail is taken.
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _fraction(b, a, 1.0 - x) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    # No term may be zero. One that begins with 1 is zero or at least 1e-16, never a little above 0.
    numerator = 1.0
    denominator = 1.0 / (1.0 - (a + b) * x / (a + 1) or _TINY)
    value = denominator
    for m in range(1, _MAX_TERMS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        step = 1.0
        for coefficient in (even, odd):
            denominator = 1.0 / (1.0 + coefficient * denominator or _TINY)
            numerator = 1.0 + coefficient / numerator or _TINY
            step = denominator * numerator
            value *= step
        if abs(step - 1.0) < _CONVERGED:
            break
    return value


def student_p_value(t: float, degrees_of_freedom: float) -> float:
    """Return the two-sided p-value: the probability of a value further from 0 than `t`."""
    if math.isinf(t):
        return 0.0
    square = t * t
    freedom = min(degrees_of_freedom, MAX_DEGREES_OF_FREEDOM)
    if square < freedom:
        # From the nearer end: a share close to 1 has lost its digits.
        return 1.0 - regularized_beta(0.5, freedom / 2, square / (freedom + square))
    return regularized_beta(freedom / 2, 0.5, freedom / (freedom + square))


@lru_cache(maxsize=1024)
def student_quantile(confidence: float, degrees_of_freedom: float) -> float:
    """Return the `t` for which a share `confidence` of all values lies between -t and t.

    `confidence` lies between 0 and 1, exclusive. The result is 2.776 for 0.95 and 4 degrees of
    freedom.
    """
    error = 1.0 - confidence
    t = 0.0
    freedom = degrees_of_freedom
    log_peak = (
        math.lgamma((freedom + 1) / 2)
        - math.lgamma(freedom / 2)
        - 0.5 * math.log(math.pi * freedom)
    )
    while True:
        # Newton's method from below: the p-value falls ever more slowly, so that no step goes too
        # far.
        log_density = log_peak - (freedom + 1) / 2 * math.log1p(t * t / freedom)
        step = (student_p_value(t, freedom) - error) / (2 * math.exp(log_density))
        if step <= 1e-14 * t:
            return t
        t += step


MAX_CORRELATION = 0.95
"""With a larger correlation, a series of some twenty values holds almost no information, and no
correction helps."""


def variance_inflation(series: Sequence[Sequence[float]], *, fitted: int) -> float:
    """Return how much larger the variance of a mean is than for independent values; at least 1.

    It follows from the correlation of neighbours in the residuals of several series. Fitting makes
    residuals seem less correlated; `fitted` is the number of parameters (1 for a mean, 2 for a
    line) for which that is corrected.
    """
    squares = math.fsum(r * r for residuals in series for r in residuals)
    length = sum(map(len, series)) / max(1, len(series))
    if squares <= 0 or length <= 2 * fitted + 1:
        return 1.0
    products = math.fsum(
        a * b for residuals in series for a, b in pairwise(residuals)
    )
    correlation = (length * products / squares + fitted) / (length - 2 * fitted)
    kept = min(max(correlation, 0.0), MAX_CORRELATION)
    return (1 + kept) / (1 - kept)


def is_rare(
    share: float, observations: float, expected: float, error: float
) -> bool:
    """Return whether a share is too small to be the expected share by chance.

    That is so if the probability of so small a share is at most `error` (Clopper-Pearson).
    """
    found = share * observations
    return (
        share < expected
        and regularized_beta(found + 1, observations - found, expected) >= 1 - error
    )
