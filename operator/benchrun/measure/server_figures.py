"""Computes the figures that `benchrun.api.server_figures` declares: of a sample from series, of a role from samples and counters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from benchrun_client.contract import ServerEdge

from benchrun.api import ROLE_FIGURES, SAMPLE_FIGURES, OfSamples, Percent, Rise, RoleFigures, Sample
from benchrun.measure import counters
from benchrun.measure.cells import rounded
from benchrun.measure.optional_numbers import is_believable, known, ratio, sum_of_all, sum_of_known

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


def role_figures(role: str, samples: Sequence[Sample], stages: Stages, *, expected: float) -> RoleFigures:
    """From the samples of all stages together and the edges of each; `expected` is how many samples were due. Not rounded."""
    coverage = min(100.0, 100 * len(samples) / expected) if expected > 0 else None
    sources = {name: figure.source for name, figure in ROLE_FIGURES.items() if figure.source is not None}
    values = {name: _value(source, samples, stages) for name, source in sources.items()}
    return RoleFigures(role=role, samples=len(samples), coverage_percent=coverage, **values)


def rounded_figures(figures: RoleFigures) -> RoleFigures:
    """As in a status: counts exact, all others with five significant digits."""
    names = (name for name, figure in ROLE_FIGURES.items() if not isinstance(figure.source, Rise))
    return figures.model_copy(update={name: rounded(getattr(figures, name)) for name in names})


def _value(source: OfSamples | Rise | Percent, samples: Sequence[Sample], stages: Stages) -> float | None:
    if isinstance(source, OfSamples):
        values = known(getattr(sample, source.figure) for sample in samples)
        return _COMBINE[source.by]([source.scale * value for value in values]) if values else None
    if isinstance(source, Percent):
        return ratio(sum_of_all(_rises(stages, source.part)), sum_of_all(_rises(stages, source.whole)), scale=100)
    if source.where is not None and not any(_rises(stages, source.where)):
        return None
    if len(source.counters) > 1:
        return sum_of_known(rise for counter in source.counters for rise in _rises(stages, counter))
    return sum_of_all(_rises(stages, source.counters[0]))


def _rises(stages: Stages, counter: str) -> list[float | None]:
    return [counters.rise(stage, counter) for stage in stages]
