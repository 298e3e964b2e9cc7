"""The regression gate: whether a figure is shown to be worse by more than is allowed.

The gate has its own one-sided tests against the limit. The tests for the outcomes of changes
(Better, Worse) are against 0.

- Regressed: some figure is shown to be beyond the limit, by Hochberg's procedure over all gated
  figures. A change that equals the limit is called Regressed in at most 5 % of comparisons, however
  many figures are gated.
- NotRegressed: each figure is shown to be within the limit, at 5 %. No correction is needed,
  because all figures must be (intersection-union test, R. L. Berger, Technometrics 24, 1982).
- Underpowered: neither is shown, and some figure shows no change although the probability to find a
  change from 0 to the limit was below 80 %.
- Inconclusive: neither is shown, because the change is near the limit or could not be compared.

With one server a side the noise comes from repeats. Servers of the same definition differ more than
repeats, so the results become RegressedHere and NotRegressedHere: they hold only for these two
servers.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from benchrun.api import HIGHER_IS_BETTER, ComparedMetric, Gate, Price
from benchrun.judge.comparison.hypotheses import Hypothesis, family_error
from benchrun.judge.comparison.prices import Gated, Noise, least_of, values_of_gate
from benchrun.measure import percent_text, significance

ERROR = 1 - significance.CONFIDENCE
HERE: Mapping[Gate, Gate] = {
    "Regressed": "RegressedHere",
    "NotRegressed": "NotRegressedHere",
}
"""Text of each gate result if there is one server on each side."""
ONE_SERVER = "undecided, one server a side"
_ANSWERS: Mapping[Gate, str] = {
    "NotRegressed": "not regressed",
    "Regressed": "regressed",
    "NotRegressedHere": "not regressed on these two servers",
    "RegressedHere": "regressed on these two servers",
    "Underpowered": "undecided, underpowered",
    "Inconclusive": "undecided",
}


def answer(
    word: Gate,
    why: str,
    *,
    one_server_is_enough: bool,
    price: Price | None = None,
) -> str:
    """Return a sentence that begins with the gate's result: "regressed: MeanTTFT at ..."."""
    short = word == "NotRegressedHere" and not one_server_is_enough
    told = f"; about {price.in_words} would decide it" if price is not None else ""
    return f"{ONE_SERVER if short else _ANSWERS[word]}: {why}{told}"


def undecided_values(
    required: Sequence[tuple[str, Sequence[Hypothesis] | None]],
    *,
    max_regression_percent: float,
    is_assumed: bool = False,
) -> int | None:
    """Return how many values a side would decide a gate that is not decided; None if not known.

    For the arguments see `gate`. If the noise of a figure is unknown, it is the least that shows
    the noise; with `is_assumed` it is a usual one between servers.
    """
    asked = [
        each
        for _, hypotheses in required
        for each in hypotheses or ()
        if not each.of_arrivals
    ]
    missing = [each for each in asked if None in _values_of(each)]
    if (
        not asked
        or missing
        or any(hypotheses is None for _, hypotheses in required)
    ):
        return None
    least = max(least_of(each.metric) for each in asked)
    gated = []
    for hypothesis in asked:
        noise = Noise.assumed(hypothesis) if is_assumed else Noise.of(hypothesis)
        if noise is None:
            return least
        gated.append(_gated(hypothesis.metric, noise, max_regression_percent))
    count = values_of_gate(gated, error=ERROR)
    has_percentile = any(each.metric.startswith("P") for each in asked)
    return max(count, least) if count is not None and has_percentile else count


def _gated(
    metric: ComparedMetric, noise: Noise, max_regression_percent: float
) -> Gated:
    limit = _limit(metric, max_regression_percent)
    if metric in HIGHER_IS_BETTER:
        noise = replace(noise, estimate=-noise.estimate)
    return Gated(noise, limit)


def _limit(metric: ComparedMetric, max_regression_percent: float) -> float:
    """Return how much worse a figure may get, as a logarithm above 0."""
    share = max_regression_percent / 100
    if metric not in HIGHER_IS_BETTER:
        return math.log1p(share)
    # Nothing falls by more than 100 %.
    return -math.log1p(-share) if share < 1 else math.inf


def _values_of(hypothesis: Hypothesis) -> tuple[float | None, float | None]:
    return hypothesis.baseline.value, hypothesis.candidate.value


class _Loss(NamedTuple):
    """How much worse a figure got, as a logarithm; above 0 is worse."""

    load_point: str
    hypothesis: Hypothesis
    contrast: significance.Contrast
    limit: float

    def bound(self, *, is_lower: bool, error: float) -> str:
        """Return the lower or upper bound of the loss at a one-sided `error`, as text."""
        reach = self.contrast.reach(1 - 2 * error)
        loss = self.contrast.estimate + (-reach if is_lower else reach)
        sign = -1 if self.hypothesis.metric in HIGHER_IS_BETTER else 1
        percent = sign * significance.log_ratio_percent(sign * loss)
        return f"{self.name} is {'at least' if is_lower else 'at most'} {percent:.3g} % worse"

    @property
    def name(self) -> str:
        """Return the metric and its load point in words."""
        return f"{self.hypothesis.metric} at {self.load_point}"


def gate(
    required: Sequence[tuple[str, Sequence[Hypothesis] | None]],
    *,
    max_regression_percent: float,
) -> tuple[Gate, str]:
    """Decide the gate; return its result, and a sentence on the figure that decided it.

    `required` has the load points that must be within the limit, with their hypotheses, or None for
    a load point that could not be compared. A throughput is not tested if the arrivals set it.
    """
    asked = [
        (load_point, hypothesis)
        for load_point, hypotheses in required
        for hypothesis in hypotheses or ()
        if not hypothesis.of_arrivals
    ]
    losses = [
        loss
        for load_point, each in asked
        if (loss := _loss(load_point, each, max_regression_percent)) is not None
    ]
    p_values = [loss.contrast.exceeds(loss.limit) for loss in losses]
    levels = significance.hochberg_levels(p_values, error=ERROR)
    beyond = [
        (p_value, level, loss)
        for p_value, level, loss in zip(p_values, levels, losses, strict=True)
        if p_value <= level
    ]
    if beyond:
        _, level, loss = min(beyond, key=lambda found: found[0])
        return (
            "Regressed",
            f"{loss.bound(is_lower=True, error=level)}, {max_regression_percent:g} % is allowed",
        )
    all_compared = bool(asked) and all(
        hypotheses is not None for _, hypotheses in required
    )
    if (
        all_compared
        and len(losses) == len(asked)
        and all(_is_within(loss) for loss in losses)
    ):
        worst = max(
            losses,
            key=lambda loss: (
                loss.contrast.estimate
                + loss.contrast.reach(1 - 2 * ERROR)
                - loss.limit
            ),
        )
        return (
            "NotRegressed",
            f"{worst.bound(is_lower=False, error=ERROR)}, and every other figure less than that",
        )
    if all_compared and (weak := _too_weak(asked, losses)) is not None:
        return (
            "Underpowered",
            f"noise can hide a change of {max_regression_percent:g} %: {weak}",
        )
    return (
        "Inconclusive",
        f"not certain that every figure is within {max_regression_percent:g} %",
    )


def _is_within(loss: _Loss) -> bool:
    return _turned(loss.contrast).exceeds(-loss.limit) <= ERROR


def _turned(contrast: significance.Contrast) -> significance.Contrast:
    return replace(contrast, estimate=-contrast.estimate)


def _loss(
    load_point: str, hypothesis: Hypothesis, max_regression_percent: float
) -> _Loss | None:
    """Return the loss of a figure and its limit, or None if the noise is not known."""
    contrast = hypothesis.contrast()
    if contrast is None:
        return None
    limit = _limit(hypothesis.metric, max_regression_percent)
    if hypothesis.metric in HIGHER_IS_BETTER:
        contrast = _turned(contrast)
    return _Loss(load_point, hypothesis, contrast, limit)


def _too_weak(
    asked: Sequence[tuple[str, Hypothesis]], losses: Sequence[_Loss]
) -> str | None:
    """Return text on the noisiest figure whose comparison is too weak to decide, or None.

    Such a figure shows neither a change nor that it is within the limit, and the probability to
    find a change from 0 to the limit was below 80 %. If the noise of a figure is unknown, the text
    says so. Return None if no figure is too weak, or if a figure is missing.
    """
    if any(None in _values_of(hypothesis) for _, hypothesis in asked):
        return None
    if len(losses) < len(asked):
        return "the noise of a figure is unknown: measure more repeats, or more servers a side"
    error = family_error([hypothesis for _, hypothesis in asked])
    open_ones = [
        loss
        for loss in losses
        if not _is_within(loss) and loss.contrast.p_value > error
    ]
    found = [
        (loss.hypothesis.detectable(error=error) or 0.0, loss) for loss in open_ones
    ]
    least, loss = max(
        found, key=lambda each: each[0] - each[1].limit, default=(0.0, None)
    )
    if loss is None or least <= loss.limit:
        return None
    return (
        f"{loss.name} detects a change of {percent_text(significance.log_ratio_percent(least))} "
        "(80 % probability)"
    )
