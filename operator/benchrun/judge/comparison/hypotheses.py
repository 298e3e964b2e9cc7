"""The hypotheses of a comparison: each says that one figure changed. All are tested together."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from benchrun.api import (
    DEFAULT_EQUIVALENCE_PERCENT,
    HIGHER_IS_BETTER,
    Change,
    ComparedMetric,
    Word,
)
from benchrun.judge.comparison.figures import ROUNDING_ERROR, NoisyFigure
from benchrun.measure import detectable_shift, mean_of, rounded, significance

# Words: Hochberg's procedure keeps the chance of any false Better or Worse in the whole comparison
# at 5 %. Intervals: each has 1 - 5 % / hypotheses (Bonferroni), so that all of them hold at once
# with 95 %. Hochberg finds more than they show: where the word has a direction and the interval
# reaches across 0, it is cut at 0. So no interval contradicts its word. Both statements hold at 95
# %, each by itself. Equivalent: the interval lies within the least change that matters, which is
# Schuirmann's two one-sided tests (Journal of Pharmacokinetics and Biopharmaceutics 15, 1987) at
# the interval's level.

PERCENT_DIGITS = 4
# An interval's end beyond this is written as this: with so few values it has no end.
MOST_PERCENT = 999_900.0


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """The hypothesis that a figure changed from the baseline to the candidate."""

    metric: ComparedMetric
    baseline: NoisyFigure
    candidate: NoisyFigure

    @property
    def of_arrivals(self) -> str | None:
        """Return why the throughputs can't be compared, or None if they can.

        They can't if the request rate of an open loop, not the server, sets both.
        """
        return self.baseline.of_arrivals and self.candidate.of_arrivals

    def contrast(self) -> significance.Contrast | None:
        """Return the difference of candidate and baseline, as logarithms, with its noise.

        Return None if the noise of a side is unknown, or if the request rate sets both figures.
        """
        if (
            self.of_arrivals
            or self.baseline.log_mean is None
            or self.candidate.log_mean is None
        ):
            return None
        if not self.is_blocked():
            return significance.welch(
                self.baseline.log_mean, self.candidate.log_mean
            )
        before = self.baseline.log_blocks
        pairs = mean_of(
            [
                value - before[block]
                for block, value in self.candidate.log_blocks.items()
            ]
        )
        return replace(
            pairs, squared_error=max(pairs.squared_error, 2 * ROUNDING_ERROR)
        )

    def detectable(self, *, error: float) -> float | None:
        """Return the least true change, as a logarithm, that a test finds with 80 % probability.

        `error` is the test's significance level. The noise is assumed to be as measured. Return
        None if the two sides can't be tested against each other.
        """
        contrast = self.contrast()
        before = self.baseline.log_mean
        after = self.candidate.log_mean
        if contrast is None or before is None or after is None:
            return None
        first, second = (
            round(side.degrees_of_freedom) + 1 for side in (before, after)
        )
        shift = detectable_shift(
            first, 0 if self.is_blocked() else second, error=error
        )
        return shift * math.sqrt(contrast.squared_error)

    def is_blocked(self) -> bool:
        """Return whether both sides have the same blocks, enough of them to compare in pairs."""
        blocks = self.baseline.log_blocks.keys()
        return (
            len(blocks) >= significance.MIN_BLOCKS
            and blocks == self.candidate.log_blocks.keys()
        )


def family_error(hypotheses: Sequence[Hypothesis]) -> float:
    """Return the significance level of one hypothesis, so that all together err by at most 5 %.

    This is Bonferroni's correction. Only hypotheses that can be tested count.
    """
    return (1 - significance.CONFIDENCE) / max(
        1, sum(hypothesis.contrast() is not None for hypothesis in hypotheses)
    )


def answers(
    hypotheses: Sequence[Hypothesis],
    *,
    equivalence_percent: float = float(DEFAULT_EQUIVALENCE_PERCENT),
) -> list[Change]:
    """Test the hypotheses together: return one change for each, in the order given.

    `equivalence_percent` is the smallest change that matters.
    """
    contrasts = [hypothesis.contrast() for hypothesis in hypotheses]
    p_values = [contrast.p_value for contrast in contrasts if contrast is not None]
    levels = significance.hochberg_levels(
        p_values, error=1 - significance.CONFIDENCE
    )
    changed = iter([p <= level for p, level in zip(p_values, levels, strict=True)])
    error = family_error(hypotheses)
    margin = math.log1p(equivalence_percent / 100)
    return [
        _unanswered(hypothesis)
        if contrast is None
        else _answer(
            hypothesis,
            contrast,
            is_changed=next(changed),
            error=error,
            margin=margin,
        )
        for hypothesis, contrast in zip(hypotheses, contrasts, strict=True)
    ]


def _answer(
    hypothesis: Hypothesis,
    contrast: significance.Contrast,
    *,
    is_changed: bool,
    error: float,
    margin: float,
) -> Change:
    estimate = contrast.estimate
    reach = contrast.reach(1 - error)
    low = estimate - reach
    high = estimate + reach
    word: Word = "NoDetectableDifference"
    if is_changed:
        low, high = (max(low, 0.0), high) if estimate > 0 else (low, min(high, 0.0))
        word = (
            "Better"
            if (estimate > 0) == (hypothesis.metric in HIGHER_IS_BETTER)
            else "Worse"
        )
    return Change(
        metric=hypothesis.metric,
        baseline=rounded(hypothesis.baseline.value),
        value=rounded(hypothesis.candidate.value),
        change_percent=_percent(estimate),
        low_percent=_percent(low),
        high_percent=_percent(high),
        word="Equivalent" if -margin <= low and high <= margin else word,
    )


def _unanswered(hypothesis: Hypothesis) -> Change:
    """Build the change of a hypothesis that can't be tested.

    It can't be tested if a figure is missing, if the request rate sets both figures, or if the
    noise is unknown. In the last case the change is a number without an interval.
    """
    before = hypothesis.baseline
    after = hypothesis.candidate
    change = None
    if (
        before.value is not None
        and after.value is not None
        and not hypothesis.of_arrivals
    ):
        change = float(
            f"{100 * (after.value / before.value - 1):.{PERCENT_DIGITS}g}"
        )
    return Change(
        metric=hypothesis.metric,
        baseline=rounded(before.value),
        value=rounded(after.value),
        change_percent=change,
        word="NotComparable" if change is None else "Unknown",
        reason=hypothesis.of_arrivals or before.problem or after.problem,
    )


def _percent(log_ratio: float) -> float:
    return float(
        f"{min(significance.log_ratio_percent(log_ratio), MOST_PERCENT):.{PERCENT_DIGITS}g}"
    )
