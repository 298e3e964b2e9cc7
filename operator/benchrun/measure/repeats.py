"""Whether repeats of one measurement agree, and how far they scatter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchrun_client.contract import StageRecord

from benchrun.measure.cells import LATENCIES, known, mean_ms, rounded
from benchrun.measure.percentiles import variance_inflation
from benchrun.measure.significance import fisher_p_value, mean_of


@dataclass(frozen=True, slots=True)
class Spread:
    """How repeats differ. None: not known."""

    cv_percent: float | None
    """Standard deviation of the repeats' means, sample formula, in percent of their mean; needs two repeats."""
    p_value: float | None
    """How likely the noise within repeats alone sets them this far apart; needs two values in some repeat."""


def between_groups(groups: Sequence[Sequence[float]]) -> Spread:
    """Compare repeats, each given as its batch means in order of time. Repeats without values don't count.

    An F-test; the noise within repeats is raised by what the resemblance of neighbouring batches hides of it.
    """
    filled = [group for group in groups if group]
    means = [fmean(group) for group in filled]
    return Spread(cv_percent=_cv_percent(means), p_value=_p_value(filled, means))


def _cv_percent(means: Sequence[float]) -> float | None:
    if len(means) < 2:
        return None
    mean = mean_of(means)
    return 100 * math.sqrt(mean.squared_error * mean.count) / abs(mean.value) if mean.value else None


def _p_value(groups: Sequence[Sequence[float]], means: Sequence[float]) -> float | None:
    count = sum(map(len, groups))
    between, within = len(groups) - 1, count - len(groups)
    if between < 1 or within < 1:
        return None
    grand = math.fsum(value for group in groups for value in group) / count
    residuals = [[value - mean for value in group] for group, mean in zip(groups, means, strict=True)]
    explained = math.fsum(len(group) * (mean - grand) ** 2 for group, mean in zip(groups, means, strict=True)) / between
    noise = math.fsum(r * r for of_group in residuals for r in of_group) / within
    noise *= variance_inflation(residuals, fitted=1)
    if noise == 0:
        return 1.0 if explained == 0 else 0.0
    return fisher_p_value(explained / noise, between, within)


def repeat_cv_percent(
    records: Sequence[StageRecord], throughputs: Sequence[Mapping[str, float | None]]
) -> dict[str, float]:
    """How far the repeats of a cell scatter, the noise within one server: the coefficient of variation, sample formula, of
    these throughputs and mean latencies by name. A figure that fewer than two repeats have is left out."""
    repeats = [
        {**of_stage} | {f"mean_{latency}_ms": mean_ms(record, latency) for latency in LATENCIES}
        for record, of_stage in zip(records, throughputs, strict=True)
    ]
    found = {name: rounded(_cv_percent(known(each[name] for each in repeats))) for name in (repeats or [{}])[0]}
    return {name: cv for name, cv in found.items() if cv is not None}
