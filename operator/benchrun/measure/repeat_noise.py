"""How far the repeats of a cell scatter: the noise within one server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchrun_client.contract import StageRecord

from benchrun.measure.cells import LATENCIES, mean_ms, rounded, totals
from benchrun.measure.repeats import between_groups

_RATES = ("request_throughput", "output_throughput", "total_token_throughput")


def repeat_cv_percent(records: Sequence[StageRecord]) -> dict[str, float]:
    """Coefficient of variation, sample formula, by figure: throughputs and mean latencies of single repeats. A figure that
    fewer than two repeats have is left out."""
    each = [_figures(record) for record in records] if len(records) > 1 else []
    by_figure = {name: [figures[name] for figures in each] for name in (each[0] if each else ())}
    found = {name: rounded(_cv_percent(values)) for name, values in by_figure.items()}
    return {name: value for name, value in found.items() if value is not None}


def _figures(record: StageRecord) -> Mapping[str, float | None]:
    whole = totals([record])
    means = {f"mean_{latency}_ms": mean_ms(record, latency) for latency in LATENCIES}
    return {**{name: whole[name] for name in _RATES}, **means}


def _cv_percent(values: Sequence[float | None]) -> float | None:
    return between_groups([[value] for value in values if value is not None]).cv_percent
