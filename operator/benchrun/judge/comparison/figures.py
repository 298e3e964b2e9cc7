"""A figure of one side with its noise, as a mean of logarithms: a change is a ratio, the same either way round.

The unit is a fresh server: with several runs a side, each run's figure is one value. With one run a side all there is are
its repeats, which share that server's luck.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from benchrun.api.comparison import ComparedMetric
from benchrun.api.metric_keys import KEYS
from benchrun.api.status import Result
from benchrun.judge.comparison.runs import MeasuredRun
from benchrun.measure.cells import SIGNIFICANT_DIGITS
from benchrun.measure.student import Mean, mean_of

HIGHER_IS_BETTER: frozenset[ComparedMetric] = frozenset(
    {"OutputThroughput", "RequestThroughput", "TotalTokenThroughput"}
)

ROUNDING_ERROR = (10.0 ** (1 - SIGNIFICANT_DIGITS)) ** 2 / 12
"""Squared error of a logarithm, at most, from the rounding of results. Values that agree to their last digit are not exact."""
ONE_REPEAT = "one repeat: no idea of the noise"
NO_CV = "the results do not say how the repeats scatter"


@dataclass(frozen=True, slots=True)
class Figure:
    """One side's value."""

    value: float | None
    """Geometric mean over the runs; None where one has none."""
    log_mean: Mean | None = None
    """None: the noise is not known."""
    problem: str | None = None
    """Why one of them is None."""


def figure_of(metric: ComparedMetric, cell: str, side: Sequence[MeasuredRun]) -> Figure:
    """The figure at a cell that every run of the side has."""
    key, values = KEYS[metric], []
    rows = [row for run in side if (row := run.row(cell)) is not None]
    for run, row in zip(side, rows, strict=True):
        value = row.metrics.get(key)
        if value is None or not 0 < value < math.inf:
            return Figure(None, problem=f"{run.name} has no {key}")
        values.append(math.log(value))
    if len(values) > 1:
        return Figure(math.exp(math.fsum(values) / len(values)), _as_exact_as_written(mean_of(values)))
    return _of_repeats(rows[0], key)


def _of_repeats(row: Result, key: str) -> Figure:
    value, cv = row.metrics[key] or 0.0, row.repeat_cv_percent.get(key)
    if row.repeats < 2:
        return Figure(value, problem=ONE_REPEAT)
    if cv is None:
        return Figure(value, problem=NO_CV)
    variance = math.log1p((cv / 100) ** 2)
    return Figure(value, _as_exact_as_written(Mean(math.log(value), variance / row.repeats, row.repeats)))


def _as_exact_as_written(mean: Mean) -> Mean:
    return Mean(mean.value, max(mean.squared_error, ROUNDING_ERROR), mean.count)
