"""The costs of servers and tokens, by the prices in the spec."""

from collections.abc import Mapping, Sequence
from itertools import compress

from benchrun_client.contract import StageRecord

from benchrun.api import (
    OUTPUT_COST,
    TOTAL_COST,
    Cost,
    CostStatus,
    ServerStatus,
    total_gpus,
)
from benchrun.measure import counters
from benchrun.measure.request_figures import (
    counts_tokens,
    has_whole_answers,
    ratio,
    rounded,
)

#     cost per million tokens = price of a second / million tokens a second
#
# By the row's throughput: of the plateau, else of the whole stages, first request to last answer.
# Tokens are those of requests that succeeded. Start-up, warm-up and pauses between stages are left
# out: it is the cost of the servers under this load.


def cost_status(
    cost: Cost | None, servers: Sequence[ServerStatus]
) -> CostStatus | None:
    """Return what these servers cost an hour, or the prices of tokens if the spec names those.

    None if the spec names no price.
    """
    if cost is None:
        return None
    gpus = total_gpus(servers)
    if (tokens := cost.per_million_tokens) is not None:
        prices = f"{tokens.input} input, {tokens.cached_input} cached, {tokens.output} output"
        return CostStatus(currency=cost.currency, per_million_tokens=prices)
    by_gpu = rounded(float(cost.per_gpu_hour or 0) * gpus) if gpus else None
    return CostStatus(
        currency=cost.currency,
        per_hour=by_gpu if cost.per_hour is None else float(cost.per_hour),
    )


def time_costs(
    rates: Mapping[str, float | None], cost: CostStatus | None
) -> dict[str, float | None]:
    """Return the costs of a million tokens at these throughputs, by their keys in `metrics`.

    A cost is None if it is not known. Empty if the spec has no price of time.
    """
    if cost is None or cost.per_million_tokens is not None:
        return {}
    keys = {OUTPUT_COST: "output_throughput", TOTAL_COST: "total_token_throughput"}
    a_second = None if cost.per_hour is None else cost.per_hour / 3600
    return {
        name: rounded(ratio(a_second, rates.get(key), 1e6))
        for name, key in keys.items()
    }


def token_costs(
    records: Sequence[StageRecord], cost: Cost | None
) -> dict[str, float | None]:
    """Return the mean cost of these stages' tokens, by the prices of tokens.

        (uncached x input + cached x cachedInput + output tokens x output) / tokens

    Prices and costs are per million tokens. Only successful requests count. In each stage, the
    cached share of the prompt tokens is the share of looked-up tokens that the servers found in the
    cache; it is 0 if the cache is off. The cost is None if that share or the output tokens are not
    known. Empty if the spec has no prices of tokens.
    """
    prices = cost.per_million_tokens if cost is not None else None
    if prices is None:
        return {}
    prompts = 0.0
    cached = 0.0
    outputs = 0.0
    for record in records:
        columns = record.requests
        lookups = counters.prefix_lookups(counters.prefilling(record.servers))
        if lookups is None:
            return {OUTPUT_COST: None, TOTAL_COST: None}
        looked_up, *found = lookups
        share = min(1.0, max(0.0, ratio(sum(found), looked_up) or 0.0))
        tokens = sum(compress(columns.input_tokens, columns.ok))
        prompts = prompts + tokens
        cached = cached + share * tokens
        if not counts_tokens(record) and not has_whole_answers([record]):
            return {OUTPUT_COST: None, TOTAL_COST: None}
        outputs += sum(compress(columns.output_tokens, columns.ok))
    price = (prompts - cached) * float(prices.input) + cached * float(
        prices.cached_input
    )
    price += outputs * float(prices.output)
    whole = {OUTPUT_COST: outputs, TOTAL_COST: prompts + outputs}
    return {key: rounded(ratio(price, tokens)) for key, tokens in whole.items()}
