"""What a million tokens cost, as columns of tables: only where a price was named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from benchrun.api.cost import CostStatus
from benchrun.api.metric_keys import OUTPUT_COST, TOTAL_COST
from benchrun.report.columns import Column
from benchrun.report.rows import figure


class HasMetrics(Protocol):
    """A row of a run or of a sweep."""

    @property
    def metrics(self) -> Mapping[str, float | None]:
        """Figures by their name."""
        ...


T = TypeVar("T", bound=HasMetrics)


def cost_header(currency: str | None) -> str:
    """Of the column of a million output tokens: those that `tok/s` counts."""
    return f"{currency or 'cost'}/Mtok"


def cost_columns(currency: str | None) -> tuple[Column[T], ...]:
    """Of a million output tokens, and of a million of all where the table is wide."""
    total = f"{currency or 'cost'}/total Mtok"
    return (
        Column(cost_header(currency), _reader(OUTPUT_COST), optional=True),
        Column(total, _reader(TOTAL_COST), wide=True, optional=True),
    )


def price_told(cost: CostStatus) -> str:
    """`4.98 USD an hour`."""
    if cost.per_hour is None:
        return "not known: the price is that of a GPU, and no server holds one"
    return f"{figure(cost.per_hour, digits=5)} {cost.currency} an hour"


def _reader(key: str) -> Callable[[HasMetrics], str]:
    return lambda row: figure(row.metrics.get(key))
