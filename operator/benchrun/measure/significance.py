"""Statistical tests of differences, order, trends and repeats, and the power of a comparison.

The tests are Student's and Welch's, Hochberg's correction, tests of the order and the trend of
series, and an F-test of repeats.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, combinations, pairwise
from statistics import NormalDist, fmean, median

from benchrun_client.contract import (
    POWER as POWER,
    StageRecord,
    regularized_beta,
    student_p_value,
    student_quantile as student_quantile,
)

from benchrun.measure.batches import batch_means, variance_inflation
from benchrun.measure.request_figures import LATENCIES, known, mean_ms, rounded

CONFIDENCE = 0.95


def fisher_p_value(f: float, between: float, within: float) -> float:
    """Return the probability that an F value with these degrees of freedom exceeds `f`."""
    return (
        1.0
        if f <= 0
        else regularized_beta(
            within / 2, between / 2, within / (within + between * f)
        )
    )


# A value here is one *fresh server's* figure: values of one server share its luck, and an interval
# from them says nothing about the next server.


@dataclass(frozen=True, slots=True)
class Contrast:
    """A mean, or a difference of means, with its standard error.

    From these follow its p-value, and its interval at any confidence.
    """

    estimate: float
    squared_error: (
        float  # For a mean: the variance of the values divided by their number.
    )
    degrees_of_freedom: float  # For a mean: the number of values less one.

    @property
    def p_value(self) -> float:
        """Return the two-sided probability of so large an estimate when the true value is 0."""
        if self.squared_error == 0:
            return 1.0 if self.estimate == 0 else 0.0
        return student_p_value(
            self.estimate / math.sqrt(self.squared_error), self.degrees_of_freedom
        )

    def exceeds(self, limit: float) -> float:
        """Return the one-sided probability of so large an estimate if the true value is `limit`."""
        if self.squared_error == 0:
            return 0.0 if self.estimate > limit else 1.0
        t = (self.estimate - limit) / math.sqrt(self.squared_error)
        tail = student_p_value(t, self.degrees_of_freedom) / 2
        return tail if t > 0 else 1.0 - tail

    def reach(self, confidence: float) -> float:
        """Return half the width of the confidence interval.

        It is 0 if the values of each side are all equal.
        """
        if self.squared_error == 0:
            return 0.0
        return student_quantile(confidence, self.degrees_of_freedom) * math.sqrt(
            self.squared_error
        )


def mean_of(values: Sequence[float]) -> Contrast:
    """Return the mean of two values or more, with its standard error."""
    mean = math.fsum(values) / len(values)
    variance = math.fsum((value - mean) ** 2 for value in values) / (
        len(values) - 1
    )
    return Contrast(mean, variance / len(values), len(values) - 1)


def welch(first: Contrast, second: Contrast) -> Contrast:
    """Return the difference `second` minus `first` of two means whose variances may differ (Welch).

    Each is a mean of two or more values.
    """
    estimate = second.estimate - first.estimate
    squared_error = first.squared_error + second.squared_error
    if squared_error == 0:
        return Contrast(
            estimate, 0.0, first.degrees_of_freedom + second.degrees_of_freedom
        )
    # Shares, not squares of tiny errors, which could vanish.
    share_1 = first.squared_error / squared_error
    share_2 = second.squared_error / squared_error
    freedom = 1 / (
        share_1**2 / first.degrees_of_freedom
        + share_2**2 / second.degrees_of_freedom
    )
    return Contrast(estimate, squared_error, freedom)


def log_ratio_percent(log_ratio: float) -> float:
    """Convert the logarithm of a ratio to a change in percent.

    Return infinity for a change too large for a float.
    """
    return 100 * math.expm1(log_ratio) if log_ratio < 700 else math.inf


def hochberg_levels(p_values: Sequence[float], *, error: float) -> list[float]:
    """Return the level at which Hochberg's procedure tests each question, in the order given.

    The probability of any false "yes" is at most `error`. A question is answered "yes" if its
    p-value is at most its level. From the largest p-value down, the first is tested at `error`, the
    second at half of it, the third at a third, and so on; after the first "yes" all smaller
    p-values are "yes" too. Figures of one measurement move together: if all of them changed, each
    is tested at `error` (Holm's procedure would test the first of five at a fifth of it). Y.
    Hochberg, Biometrika 75 (1988); it holds for independent and for positively dependent questions
    (S. K. Sarkar, Annals of Statistics 26, 1998).
    """
    descending = sorted(p_values, reverse=True)
    agreed = next(
        (
            place
            for place, p in enumerate(descending, start=1)
            if p <= error / place
        ),
        len(p_values) + 1,
    )
    yes = error / agreed
    # Everything larger was a "no" at a level of its own; at the strictest of them, equals have the
    # same level.
    no = error / max(agreed - 1, 1)
    threshold = descending[agreed - 1] if agreed <= len(p_values) else -1.0
    return [yes if p <= threshold else no for p in p_values]


# The test of Mann and Kendall: whether series rise or fall. Rising and falling pairs are counted
# within each series and summed, so series of different levels can stand together. Exact: the
# distribution of the sum is worked out, not approximated.


def surplus(values: Sequence[float]) -> int:
    """Return the number of rising pairs of values in a series minus the number of falling pairs.

    `values` are in order of time.
    """
    return sum((b > a) - (b < a) for a, b in combinations(values, 2))


def order_p_value(
    series: Sequence[Sequence[float]], *, inflation: float = 1.0
) -> float:
    """Return the probability that values in random order rise or fall as clearly as these series.

    The statistic is the difference between the numbers of rising and falling pairs of values. Equal
    values make the test conservative. `inflation` is how many times larger the variance is than for
    independent values.
    """
    shrunk = math.ceil(abs(sum(map(surplus, series))) / math.sqrt(inflation) - 1e-9)
    return _order_p_value(tuple(map(len, series)), shrunk)


@lru_cache(maxsize=256)
def _order_p_value(lengths: tuple[int, ...], surplus: int) -> float:
    """Return the share of all orders in which such series rise or fall as clearly.

    `lengths` are the lengths of the series. `surplus` is the number of rising pairs of values minus
    the number of falling pairs.
    """
    if surplus <= 0:
        return 1.0
    pairs = sum(length * (length - 1) // 2 for length in lengths)
    return min(1.0, 2 * sum(_falling_pairs(lengths)[: (pairs - surplus) // 2 + 1]))


def _falling_pairs(lengths: Sequence[int]) -> list[float]:
    """Return the probabilities of 0, 1, 2 ... falling pairs in random orders of series.

    With the n values before it in its series, a value makes 0 to n falling pairs. Each number is
    equally likely, whatever the other values make.
    """
    chances = [1.0]
    for before in (n for length in lengths for n in range(1, length)):
        sums = [0.0, *accumulate([*chances, *[0.0] * before])]
        chances = [
            (sums[i + 1] - sums[max(0, i - before)]) / (before + 1)
            for i in range(len(chances) + before)
        ]
    return chances


# Trend: two things look like a trend and are not: neighbours that resemble each other, and a few
# large values. The test of Mann and Kendall looks at the order of values alone, and its count is
# shrunk by the correlation of neighbours. That is too careful where a queue grows without end: a
# sum of random steps is correlated all along. So a second test finds whether the steps from one
# batch to the next have a direction, which those of a queue that keeps its level never have. Either
# may find the trend; the p-value pays for testing twice.

MIN_BATCHES = 10
"""Least number of batches: with fewer, correlation of neighbours looks the same as a trend."""


@dataclass(frozen=True, slots=True)
class Trend:
    """The direction and size of a series' change, and whether chance explains it."""

    relative_change: float
    """Change from the beginning to the end of the series, as a share of its mean: 0.5 is a rise by
    half the mean."""
    p_value: float
    """Two-sided probability that a series without trend seems to move so steadily."""


def trend(values: Sequence[float]) -> Trend | None:
    """Return the trend of values in order of time; None below `MIN_BATCHES` values.

    The mean of the values must not be negative.
    """
    means = batch_means(values)
    if len(means) < MIN_BATCHES:
        return None
    slope = theil_sen_slope(means)
    level = math.fsum(means) / len(means)
    residuals = [
        mean - level - slope * (i - (len(means) - 1) / 2)
        for i, mean in enumerate(means)
    ]
    ordered = order_p_value(
        [means], inflation=variance_inflation([residuals], fitted=2)
    )
    directed = mean_of([b - a for a, b in pairwise(means)]).p_value
    return Trend(
        slope * len(means) / level if level else 0.0,
        min(1.0, 2 * min(ordered, directed)),
    )


def at_equal_load(values: Sequence[float], loads: Sequence[float]) -> list[float]:
    """Correct values, in order of time, for their loads: return them as at the mean load.

    The effect of load is a slope: how the difference between two successive values depends on the
    difference between their loads; at least 0. Slow trends do not influence it, because values and
    loads may drift together without being cause and effect. If the correction would exceed the mean
    value, as with a long queue, the slope is noise and the values are returned unchanged.
    """
    steps = [
        (load - before, value - was)
        for (before, was), (load, value) in pairwise(
            zip(loads, values, strict=True)
        )
    ]
    squares = math.fsum(load * load for load, _ in steps)
    slope = (
        max(0.0, math.fsum(load * value for load, value in steps) / squares)
        if squares
        else 0.0
    )
    mean = math.fsum(loads) / max(1, len(loads))
    if slope * (max(loads, default=0.0) - mean) >= math.fsum(values) / max(
        1, len(values)
    ):
        return list(values)
    return [
        value - slope * (load - mean)
        for value, load in zip(values, loads, strict=True)
    ]


def theil_sen_slope(values: Sequence[float]) -> float:
    """Return the median of the slopes between any two values; 0 for fewer than two values.

    A slope is the change from one value to the next. A few large values hardly affect the median.
    """
    slopes = [
        (b - a) / (j - i) for (i, a), (j, b) in combinations(enumerate(values), 2)
    ]
    return median(slopes) if slopes else 0.0


# Whether repeats of one measurement agree, and how far they scatter.


def cv_percent(means: Sequence[float]) -> float | None:
    """Return the coefficient of variation of the repeats' means in percent.

    It is the sample standard deviation divided by the mean. Return None for fewer than two means,
    or if their mean is 0.
    """
    if len(means) < 2:
        return None
    mean = mean_of(means)
    return (
        100 * math.sqrt(mean.squared_error * len(means)) / abs(mean.estimate)
        if mean.estimate
        else None
    )


def groups_p_value(repeats: Sequence[Sequence[float]]) -> float | None:
    """Return the probability that the noise within repeats alone makes them differ this much.

    Each repeat is given as its batch means in order of time; repeats without values do not count.
    The test is an F-test. The correlation of neighbouring batches hides a part of the noise within
    repeats, so the test raises that noise and lowers its degrees of freedom. Return None with fewer
    than two repeats, or if no repeat has two values.
    """
    groups = [group for group in repeats if group]
    means = [fmean(group) for group in groups]
    count = sum(map(len, groups))
    between = len(groups) - 1
    within = count - len(groups)
    if between < 1 or within < 1:
        return None
    grand = math.fsum(value for group in groups for value in group) / count
    residuals = [
        [value - mean for value in group]
        for group, mean in zip(groups, means, strict=True)
    ]
    explained = (
        math.fsum(
            len(group) * (mean - grand) ** 2
            for group, mean in zip(groups, means, strict=True)
        )
        / between
    )
    noise = math.fsum(r * r for of_group in residuals for r in of_group) / within
    inflation = variance_inflation(residuals, fitted=1)
    if noise == 0:
        return 1.0 if explained == 0 else 0.0
    return fisher_p_value(
        explained / noise / inflation, between, within / inflation
    )


def repeat_cv_percent(
    records: Sequence[StageRecord],
    throughputs: Sequence[Mapping[str, float | None]],
) -> dict[str, float]:
    """Return the coefficient of variation over a load point's repeats, in percent, by figure.

    It is given for these throughputs and for the mean latencies, and shows the noise within one
    server. A figure that fewer than two repeats have is left out.
    """
    repeats = [
        {**of_stage}
        | {f"mean_{latency}_ms": mean_ms(record, latency) for latency in LATENCIES}
        for record, of_stage in zip(records, throughputs, strict=True)
    ]
    found = {
        name: rounded(cv_percent(known(each[name] for each in repeats)))
        for name in (repeats or [{}])[0]
    }
    return {name: cv for name, cv in found.items() if cv is not None}


# Power of a comparison: the smallest change that it finds with 80 % probability, before and after
# the measurement.

ASSUMED_CV_PERCENT = 1.5
"""Coefficient of variation in percent of a figure between fresh servers of one configuration,
assumed if there is no measurement yet."""
_SHARES = 24
_SCATTERS = 64  # Number of points of the integrals: twice as many move the result by less than 1 %.


@lru_cache(maxsize=256)
def detectable_shift(first: int, second: int, *, error: float) -> float:
    """Return the true difference that a two-sided test at `error` finds with probability `POWER`.

    The unit is the standard error of the difference. `first` and `second` are the numbers of values
    on each side, two or more; the sides have the same variance and are tested by Welch's test. If
    `second` is 0, `first` is the number of differences of pairs, tested by Student's test. The test
    divides by an estimated standard error (noncentral t: N. L. Johnson, B. L. Welch, Biometrika 31,
    1940). Its degrees of freedom follow from the sides' shares of the noise (B. L. Welch,
    Biometrika 34, 1947). Both the estimate and the shares are integrated over. The result errs by
    less than 2 points of probability.
    """
    thresholds = (
        _thresholds(first, second, error)
        if second
        else ((1.0, student_quantile(1 - error, first - 1)),)
    )
    scatters = _scatters(first + second - 2 if second else first - 1)
    cdf = NormalDist().cdf

    def found(shift: float) -> float:
        return math.fsum(
            w * v * cdf(shift - t * scatter)
            for w, t in thresholds
            for v, scatter in scatters
        )

    low = 0.0
    high = 4.0
    while found(high) < POWER:
        low = high
        high = 2 * high
    while high - low > 1e-4 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if found(middle) < POWER else (low, middle)
    return high


def _thresholds(
    first: int, second: int, error: float
) -> tuple[tuple[float, float], ...]:
    """Return pairs of weight and critical value, to integrate over the sides' shares of the noise.

    The first side's share of the squared error is beta distributed. The pairs are evenly spaced in
    the angle whose squared sine is that share.
    """
    logs = []
    thresholds = []
    for place in range(_SHARES):
        angle = math.pi / 2 * (place + 0.5) / _SHARES
        sine = math.sin(angle)
        cosine = math.cos(angle)
        freedom = 1 / (sine**4 / (first - 1) + cosine**4 / (second - 1))
        logs.append((first - 2) * math.log(sine) + (second - 2) * math.log(cosine))
        thresholds.append(student_quantile(1 - error, freedom))
    return tuple(zip(_normalised(logs), thresholds, strict=True))


def _scatters(freedom: int) -> tuple[tuple[float, float], ...]:
    """Return pairs of weight and ratio; the ratio is the estimated to the true standard error."""
    reach = 6 / math.sqrt(2 * freedom)
    low = max(0.0, 1 - reach)
    high = 1 + reach
    points = [
        low + (high - low) * (place + 0.5) / _SCATTERS for place in range(_SCATTERS)
    ]
    weights = _normalised(
        [(freedom - 1) * math.log(x) - freedom * x * x / 2 for x in points]
    )
    return tuple(zip(weights, points, strict=True))


def _normalised(logs: list[float]) -> list[float]:
    """Return weights that add up to 1, from their logarithms up to a common constant."""
    weights = [math.exp(each - max(logs)) for each in logs]
    total = math.fsum(weights)
    return [weight / total for weight in weights]


MIN_BLOCKS = 5
"""Least number of blocks for a comparison in pairs. With fewer, half of the degrees of freedom
would be lost, which costs more than blocks usually explain. Welch's test is used instead; it is
conservative, since an effect of a block on both sides counts as noise."""


def detectable_percent(
    values: int,
    questions: int,
    *,
    in_blocks: bool = False,
    cv_percent: float = ASSUMED_CV_PERCENT,
) -> float:
    """Return the smallest rise of one figure, in percent, that is found with probability `POWER`.

    All of `questions` figures are tested together. `values` is the number of values on each side,
    two or more. `in_blocks` says that values are compared in pairs if there are at least
    `MIN_BLOCKS`. `cv_percent` is the coefficient of variation of the values of one side.
    """
    error = (1 - CONFIDENCE) / max(1, questions)
    standard_error = math.sqrt(2 * math.log1p((cv_percent / 100) ** 2) / values)
    second = 0 if in_blocks and values >= MIN_BLOCKS else values
    return log_ratio_percent(
        detectable_shift(values, second, error=error) * standard_error
    )


SERVERS = "fresh servers"  # Unit of `power_sentence` for a sweep: one server per block and variant.


def power_sentence(values: int, questions: int, *, unit: str) -> str:
    """Describe, before anything is measured, the smallest change that a comparison can find.

    Each side has `values` values, and `questions` figures are tested together.

    `unit` is what each value is measured on, in the plural: "repeats", or `SERVERS`.
    """
    if not questions:
        return "the detectable change is unknown for searched loads and percentiles"
    if values < 2:
        return "one value a side does not show the noise: no change can be found"
    what = f"{values} {unit} a side and {questions} {'figure' if questions == 1 else 'figures'}"
    least = percent_text(
        detectable_percent(values, questions, in_blocks=unit == SERVERS)
    )
    found = f"{what} detect a change of {least} in one figure with {100 * POWER:g} % probability"
    return f"{found}, if it varies by {ASSUMED_CV_PERCENT:g} % (CV; assumed)"


def percent_text(percent: float) -> str:
    """Format a detectable change: "3.2 %", or "more than 100 %" without the meaningless number."""
    return f"{percent:.2g} %" if percent < 100 else "more than 100 %"


def detected_text(percent: float) -> str:
    """Return a sentence with the change that a comparison detects at the measured noise."""
    return (
        f"at the measured noise, a change of {percent_text(percent)} in one figure is detected "
        "with 80 % probability"
    )
