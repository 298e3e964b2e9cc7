"""Change, interval and word of every figure, all questions of a comparison corrected together.

Hochberg's procedure keeps the chance of any false Better or Worse in the whole comparison at 5 %. Each interval is taken at the
level at which Hochberg puts that question, so that it leaves 0 out exactly where the word says that something changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api.comparison import Change, ComparedMetric, Word
from benchrun.judge.comparison.figures import HIGHER_IS_BETTER, Figure
from benchrun.measure.cells import rounded
from benchrun.measure.hochberg import hochberg_levels
from benchrun.measure.student import CONFIDENCE, Contrast, log_ratio_percent, welch

PERCENT_DIGITS = 4
MOST_PERCENT = 999_900.0
"""An interval's end beyond this is written as this: with so few values it has no end."""


@dataclass(frozen=True, slots=True)
class Question:
    """Did this figure change?"""

    metric: ComparedMetric
    baseline: Figure
    candidate: Figure

    def contrast(self) -> Contrast | None:
        """Candidate minus baseline, in logarithms; None where one side's noise is not known."""
        if self.baseline.log_mean is None or self.candidate.log_mean is None:
            return None
        return welch(self.baseline.log_mean, self.candidate.log_mean)


def answers(questions: Sequence[Question]) -> list[Change]:
    """One change for each, in the order given."""
    contrasts = [question.contrast() for question in questions]
    p_values = [contrast.p_value for contrast in contrasts if contrast is not None]
    levels = iter(zip(p_values, hochberg_levels(p_values, error=1 - CONFIDENCE), strict=True))
    return [
        _unanswered(question) if contrast is None else _answer(question, contrast, *next(levels))
        for question, contrast in zip(questions, contrasts, strict=True)
    ]


def _answer(question: Question, contrast: Contrast, p_value: float, level: float) -> Change:
    reach = contrast.reach(1 - level)
    return Change(
        metric=question.metric,
        baseline=rounded(question.baseline.value),
        value=rounded(question.candidate.value),
        change_percent=_percent(contrast.estimate),
        low_percent=_percent(contrast.estimate - reach),
        high_percent=_percent(contrast.estimate + reach),
        word=_word(question.metric, contrast.estimate) if p_value <= level else "NoDetectableDifference",
    )


def _unanswered(question: Question) -> Change:
    """A figure is missing, or nothing tells how large the noise is: then the change is a number, and no more."""
    before, after = question.baseline, question.candidate
    change = None
    if before.value is not None and after.value is not None:
        change = float(f"{100 * (after.value / before.value - 1):.{PERCENT_DIGITS}g}")
    return Change(
        metric=question.metric,
        baseline=rounded(before.value),
        value=rounded(after.value),
        change_percent=change,
        word="NotComparable" if change is None else "Unknown",
        reason=before.problem or after.problem,
    )


def _word(metric: ComparedMetric, log_ratio: float) -> Word:
    return "Better" if (log_ratio > 0) == (metric in HIGHER_IS_BETTER) else "Worse"


def _percent(log_ratio: float) -> float:
    return float(f"{min(log_ratio_percent(log_ratio), MOST_PERCENT):.{PERCENT_DIGITS}g}")
