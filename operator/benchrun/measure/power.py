"""Power of a comparison: the smallest change that it finds with 80 % probability, before and after the measurement."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

from benchrun.measure.significance import CONFIDENCE, log_ratio_percent, student_quantile

POWER = 0.80
ASSUMED_CV_PERCENT = 1.5
"""How much a figure varies between fresh servers of one configuration, assumed where nothing was measured yet."""
_SHARES, _SCATTERS = 24, 64  # Points of the integrals: twice as many move the result by less than 1 %.


@lru_cache(maxsize=256)
def detectable_shift(first: int, second: int, *, error: float) -> float:
    """The true difference, in its standard errors, that a two-sided test at `error` finds with probability `POWER`.

    `first` and `second`: values a side, two or more, of sides that scatter alike, tested by Welch; `second` 0: `first` differences
    of pairs, tested by Student. The test divides by an estimated standard error (noncentral t: N. L. Johnson, B. L. Welch,
    Biometrika 31, 1940), whose degrees of freedom follow from how the noise is shared between the sides (B. L. Welch, Biometrika
    34, 1947); both are integrated over. Error: below 2 points of probability.
    """
    thresholds = _thresholds(first, second, error) if second else ((1.0, student_quantile(1 - error, first - 1)),)
    scatters = _scatters(first + second - 2 if second else first - 1)
    cdf = NormalDist().cdf

    def found(shift: float) -> float:
        return math.fsum(w * v * cdf(shift - t * scatter) for w, t in thresholds for v, scatter in scatters)

    low, high = 0.0, 4.0
    while found(high) < POWER:
        low, high = high, 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) < POWER else (low, middle)
    return high


def _thresholds(first: int, second: int, error: float) -> tuple[tuple[float, float], ...]:
    """Weights and critical values: the first side's share of the squared error has a beta distribution, here by its angle."""
    logs, thresholds = [], []
    for place in range(_SHARES):
        angle = math.pi / 2 * (place + 0.5) / _SHARES
        sine, cosine = math.sin(angle), math.cos(angle)
        freedom = 1 / (sine**4 / (first - 1) + cosine**4 / (second - 1))
        logs.append((first - 2) * math.log(sine) + (second - 2) * math.log(cosine))
        thresholds.append(student_quantile(1 - error, freedom))
    return tuple(zip(_normalised(logs), thresholds, strict=True))


def _scatters(freedom: int) -> tuple[tuple[float, float], ...]:
    """Weights and ratios of the estimated standard error to the true one."""
    reach = 6 / math.sqrt(2 * freedom)
    low, high = max(0.0, 1 - reach), 1 + reach
    points = [low + (high - low) * (place + 0.5) / _SCATTERS for place in range(_SCATTERS)]
    weights = _normalised([(freedom - 1) * math.log(x) - freedom * x * x / 2 for x in points])
    return tuple(zip(weights, points, strict=True))


def _normalised(logs: list[float]) -> list[float]:
    """Weights that add up to 1, of their logarithms but for a constant."""
    weights = [math.exp(each - max(logs)) for each in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


def detectable_percent(values: int, questions: int, *, cv_percent: float = ASSUMED_CV_PERCENT) -> float:
    """The smallest change of one figure among so many `questions`, in percent upward, that is called Better or Worse with
    probability `POWER` when each side has so many values, two or more, that scatter by `cv_percent`."""
    error = (1 - CONFIDENCE) / max(1, questions)
    standard_error = math.sqrt(2 * math.log1p((cv_percent / 100) ** 2) / values)
    return log_ratio_percent(detectable_shift(values, values, error=error) * standard_error)


def power_sentence(values: int, questions: int, *, unit: str) -> str:
    """What a comparison can find, before it is measured. `unit`: what gives a value, in the plural: "repeats"."""
    if not questions:
        return "the detectable change is unknown for searched loads"
    if values < 2:
        return "one value a side does not show the noise: no change can be found"
    what = f"{values} {unit} a side and {questions} {'figure' if questions == 1 else 'figures'}"
    least = percent_text(detectable_percent(values, questions))
    found = f"{what} detect a change of {least} in one figure with {100 * POWER:g} % probability"
    return f"{found}, if it varies by {ASSUMED_CV_PERCENT:g} % (CV; assumed)"


def percent_text(percent: float) -> str:
    """A change that can be found: "3.2 %"; beyond 100 % its size means nothing."""
    return f"{percent:.2g} %" if percent < 100 else "more than 100 %"
