"""Whether repeats of one measurement agree, and how far they scatter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchrun_client.contract import StageRecord

from benchrun.measure.cells import LATENCIES, mean_ms, rounded, totals
from benchrun.measure.percentiles import variance_inflation
from benchrun.measure.significance import regularized_beta


@dataclass(frozen=True, slots=True)
class Spread:
    """How repeats differ. None: it can't be said."""

    cv_percent: float | None
    """Standard deviation of the repeats' means, sample formula, in percent of their mean; needs two repeats."""
    p_value: float | None
    """How likely the noise within repeats alone sets them this far apart; needs two values in some repeat."""


def between_groups(groups: Sequence[Sequence[float]]) -> Spread:
    """Compare repeats, each given as its batch means in order of time. Repeats without values don't count.

    An F-test; the noise within repeats is raised by what the resemblance of neighbouring batches hides of it.
    """
    filled = [group for group in groups if group]
    means = [math.fsum(group) / len(group) for group in filled]
    return Spread(cv_percent=_cv_percent(means), p_value=_p_value(filled, means))


def fisher_p_value(f: float, between: float, within: float) -> float:
    """The probability of a value above `f` with these degrees of freedom."""
    return 1.0 if f <= 0 else regularized_beta(within / 2, between / 2, within / (within + between * f))


def _cv_percent(means: Sequence[float]) -> float | None:
    if len(means) < 2:
        return None
    mean = math.fsum(means) / len(means)
    deviation = math.sqrt(math.fsum((m - mean) ** 2 for m in means) / (len(means) - 1))
    return 100 * deviation / abs(mean) if mean else None


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


# ---- repeat noise -----------------------------------------------------------------------------------------------------
# How far the repeats of a cell scatter: the noise within one server.

_RATES = ("request_throughput", "output_throughput", "total_token_throughput")


def repeat_cv_percent(records: Sequence[StageRecord]) -> dict[str, float]:
    """Coefficient of variation, sample formula, by figure: throughputs and mean latencies of single repeats. A figure that
    fewer than two repeats have is left out."""
    each = [_figures(record) for record in records] if len(records) > 1 else []
    by_figure = {name: [figures[name] for figures in each] for name in (each[0] if each else ())}
    found = {name: rounded(_cv_percent_of_values(values)) for name, values in by_figure.items()}
    return {name: value for name, value in found.items() if value is not None}


def _figures(record: StageRecord) -> Mapping[str, float | None]:
    whole = totals([record])
    means = {f"mean_{latency}_ms": mean_ms(record, latency) for latency in LATENCIES}
    return {**{name: whole[name] for name in _RATES}, **means}


def _cv_percent_of_values(values: Sequence[float | None]) -> float | None:
    return between_groups([[value] for value in values if value is not None]).cv_percent
