"""Computes the figures that `benchrun.api.server_figures` declares: of a sample from series, of a role from samples and counters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from benchrun_client.contract import ServerEdge

from benchrun.api import ROLE_FIGURES, SAMPLE_FIGURES, SUMMED, Figure, RoleFigures, Sample
from benchrun.measure import counters
from benchrun.measure.cells import is_believable, known, ratio, rounded, sum_of_all, sum_of_known

Stages = Sequence[Sequence[ServerEdge]]
"""The edges of one role, stage by stage."""
_COMBINE: Mapping[str, Callable[[Sequence[float]], float]] = {"sum": math.fsum, "mean": fmean, "max": max}


def combined(values: Mapping[str, Sequence[float]], series: Mapping[str, Sequence[str]]) -> dict[str, float | None]:
    """Figures of a sample from the values of each series. `series`: names by figure, of which the first that is there counts."""
    found = {}
    for name, names in series.items():
        of_figure, combine = next((values[each] for each in names if values.get(each)), None), SAMPLE_FIGURES[name]
        value = None if of_figure is None else combine.scale * _COMBINE[combine.by](of_figure)
        believed = value if value is not None and is_believable(value) else None
        found[name] = round(believed, combine.decimals) if believed is not None and combine.decimals else believed
    return found


def role_figures(
    role: str, samples: Sequence[Sample], stages: Stages, *, together: Sequence[Sample], expected: float
) -> RoleFigures:
    """From the samples of single servers in all stages, the same `together`, summed over the servers, and the edges of each stage;
    `expected` is how many samples were due. Not rounded."""
    coverage = min(100.0, 100 * len(samples) / expected) if expected > 0 else None
    measured = {name: figure for name, figure in ROLE_FIGURES.items() if figure.sample or figure.counters}
    values = {
        name: _value(figure, together if figure.sample in SUMMED else samples, stages)
        for name, figure in measured.items()
    }
    return RoleFigures(role=role, samples=len(samples), coverage_percent=coverage, **values)


def rounded_figures(figures: RoleFigures) -> RoleFigures:
    """As in a status: counts exact, all others with five significant digits."""
    names = (name for name, figure in ROLE_FIGURES.items() if not figure.counters or figure.percent_of)
    return figures.model_copy(update={name: rounded(getattr(figures, name)) for name in names})


def _value(figure: Figure, samples: Sequence[Sample], stages: Stages) -> float | None:
    if figure.sample:
        values = known(getattr(sample, figure.sample) for sample in samples)
        return _COMBINE[figure.by]([figure.scale * value for value in values]) if values else None
    if figure.where and not any(_rises(stages, figure.where)):
        return None
    if len(figure.counters) > 1:
        return sum_of_known(rise for counter in figure.counters for rise in _rises(stages, counter))
    risen = sum_of_all(_rises(stages, figure.counters[0]))
    return ratio(risen, sum_of_all(_rises(stages, figure.percent_of)), scale=100) if figure.percent_of else risen


def _rises(stages: Stages, counter: str) -> list[float | None]:
    return [counters.rise(stage, counter) for stage in stages]
