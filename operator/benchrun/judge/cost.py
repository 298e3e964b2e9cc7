"""What a million tokens cost at a load point.

    cost per million tokens = price of an hour x hours / million tokens

The hours are the row's `duration`, first request to last answer of every repeat, and the tokens are those of requests that
succeeded. Start-up, warm-up and pauses between stages are not in it: it is what the servers cost under this load, day in,
day out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchrun.api.cost import Cost, CostStatus
from benchrun.api.metric_keys import OUTPUT_COST, TOTAL_COST
from benchrun.api.status import Result, ServerStatus
from benchrun.judge.per_gpu import gpus_of
from benchrun.measure.cells import rounded

_SECONDS_AN_HOUR = 3600
_MILLION = 1e6


def cost_status(cost: Cost | None, servers: Sequence[ServerStatus]) -> CostStatus | None:
    """What these servers cost an hour, by the price in the spec. None: it names none."""
    return None if cost is None else CostStatus(currency=cost.currency, per_hour=_per_hour(cost, servers))


def priced(row: Result, cost: CostStatus | None) -> Result:
    """The row with its costs; as it was without a price."""
    return row if cost is None else row.model_copy(update={"metrics": row.metrics | costs(row.metrics, cost)})


def costs(metrics: Mapping[str, float | None], cost: CostStatus | None) -> dict[str, float | None]:
    """Those of these figures, each None where it can't be told; nothing without a price."""
    if cost is None:
        return {}
    output = metrics.get("total_output_tokens")
    total = None if output is None else output + (metrics.get("total_input_tokens") or 0)
    spent = _spent(cost.per_hour, metrics.get("duration"))
    return {OUTPUT_COST: _per_million(spent, output), TOTAL_COST: _per_million(spent, total)}


def _per_hour(cost: Cost, servers: Sequence[ServerStatus]) -> float | None:
    if cost.per_hour is not None:
        return float(cost.per_hour)
    gpus = gpus_of(servers)
    return rounded(float(cost.per_gpu_hour or 0) * gpus) if gpus else None


def _spent(per_hour: float | None, seconds: float | None) -> float | None:
    return None if per_hour is None or seconds is None else per_hour * seconds / _SECONDS_AN_HOUR


def _per_million(spent: float | None, tokens: float | None) -> float | None:
    return rounded(spent / (tokens / _MILLION)) if spent is not None and tokens else None
