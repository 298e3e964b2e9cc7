"""What tokens cost with a variant at a load point, in money and energy: its runs together."""

from __future__ import annotations

from statistics import geometric_mean

from benchrun.api.metric_keys import COSTS, TOKENS_PER_JOULE
from benchrun.judge.sweep.measured import Side
from benchrun.measure.cells import rounded


def costs(side: Side, cell: str) -> dict[str, float | None]:
    """Those that every run of the side has at this cell. The geometric mean, as of the throughput that they follow from."""
    rows = [row for _, row in side.at(cell)]
    values = {
        key: [cost for row in rows if (cost := row.metrics.get(key)) is not None] for key in (*COSTS, TOKENS_PER_JOULE)
    }
    return {key: rounded(geometric_mean(found)) for key, found in values.items() if found and len(found) == len(rows)}
