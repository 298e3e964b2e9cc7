"""One row of the results: the figures of a load point, how sure they are, and what they cost."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from itertools import compress
from typing import NamedTuple

from benchrun_client.contract import StageRecord, interval, is_bounded

from benchrun import api, measure
from benchrun.judge.explain.explanations import figures_by_repeat, length_explanations
from benchrun.judge.explain.load_point_explanations import (
    Explanation,
    gauge_is_mean,
    running_by_counters,
)
from benchrun.judge.objectives import TRUSTED, inconclusive, objective_results, request_limits
from benchrun.judge.rules.all_rules import verdict_of_findings
from benchrun.judge.rules.rule import SEVERITIES, Code, LoadPointContext, StageFinding
from benchrun.judge.throughput import throughput_of, throughputs
from benchrun.measure.server_pressure import server_limits
from benchrun.names import ROLE_PREFILL, ROLE_PROXY, ROLE_SERVER
from benchrun.plan import objective_error, searched


class Intervals(NamedTuple):
    """The intervals of percentiles, by the keys of `metrics`, and those that are uncertain."""

    intervals: dict[str, list[float]]
    """Lower and upper end in milliseconds, with five significant digits."""
    uncertain: list[str]
    """Percentiles that were measured, but not long enough for an interval."""


def intervals(
    samples: measure.Samples, percentiles: Sequence[str], measured: Mapping[str, float | None]
) -> Intervals:
    """Return the interval of every percentile of every latency that was `measured`."""
    found = Intervals({}, [])
    for latency, sample in samples.items():
        for percentile in percentiles:
            key = f"p{measure.request_figures.percentile_word(percentile)}_{latency}_ms"
            if measured.get(key) is None:
                continue
            if not is_bounded(sample, float(percentile)):
                found.uncertain.append(key)
            if (bounds := interval(sample, float(percentile))) is None:
                continue
            ends = [measure.request_figures.rounded(end / 1000) for end in bounds]
            found.intervals[key] = [end for end in ends if end is not None]
    return found


def tokens_per_joule(
    gpus: measure.GpuFigures, roles: Sequence[api.RoleFigures]
) -> dict[str, float | None]:
    """Return the output tokens a joule, as an entry of `metrics`.

    Empty where no exporter was read. The value is None where the power of a role is not known: the
    tokens are the work of all.
    """
    read = any(
        role.gpu_power_mean_watts is not None or role.no_power_reason is not None for role in roles
    )
    return (
        {api.TOKENS_PER_JOULE: measure.request_figures.rounded(gpus.output_tokens_per_joule)}
        if read
        else {}
    )


def row(
    measured: api.Result, found: Sequence[StageFinding], explanation: Explanation | None
) -> api.Result:
    """Complete the row of a load point with what only the whole run shows.

    `found`: everything found at it. `explanation`: why requests waited; None where it is not known.
    """
    verdict = verdict_of_findings(found)
    update: dict[str, object] = {
        "verdict": verdict,
        "findings": _codes(found),
        "objectives": measured.objectives
        if verdict in TRUSTED
        else inconclusive(measured.objectives),
    }
    if explanation is not None:
        update |= {"waiting": explanation.waiting, "bottleneck": explanation.bottleneck}
        if explanation.waiting.reason == "None":  # nothing held requests back
            update["explanations"] = [
                each for each in measured.explanations if each.question != "MaxModelLen"
            ]
        # Where there are several roles, the row's own sentences are about one of them.
        by_role = explanation.by_role.items()
        words = {
            role: {"waiting": of.waiting.reason, "limit": of.bottleneck.limit}
            for role, of in by_role
        }
        update["roles"] = [each.model_copy(update=words.get(each.role)) for each in measured.roles]
    return measured.model_copy(update=update)


def measured_row(
    context: LoadPointContext, found: Sequence[StageFinding], *, spec: api.BenchmarkRunSpec
) -> api.Result:
    """Build the result row for a measured load point from its rule findings.

    A load point without records gets no figures.
    """
    load_point = context.load_point
    records = context.records
    # Gaps between chunks that hold several tokens are not gaps between tokens.
    hidden = "itl" if any(each.code is Code.CHUNKS_ARE_NOT_TOKENS for each in found) else ""
    shown = {latency: pool for latency, pool in context.pools.items() if latency != hidden}
    samples = {name: sample for name, sample in context.samples.items() if name != hidden}
    sampled = [window for stage in context.stages for window in stage.windows]
    roles = by_times(role_figures(sampled), running_by_counters(context))
    metrics = _metrics(context, shown, spec) | token_costs(records, spec.cost)
    answered = {name: each for name, each in context.answered.items() if name != hidden}
    sure = intervals(answered, context.percentiles, metrics)
    plateaus = [
        (s.record, s.plateau) for s in context.stages if isinstance(s.plateau, measure.Plateau)
    ]
    on_plateaus = len(plateaus) == len(records)
    steady = _steady(context, plateaus, shown, spec) if plateaus and on_plateaus else {}
    noise = measure.significance.repeat_cv_percent(
        [measure.request_figures.sent_in_plateau(*each) for each in plateaus]
        if steady and context.parts and None not in context.parts
        else records,
        [throughputs([s], on_plateaus=on_plateaus) for s in context.stages],
    )
    digests = "\n".join(record.prompts_digest for record in records)
    tokens_chosen = {
        record.sampling.in_words() if record.sampling is not None else None for record in records
    }
    verdict = verdict_of_findings(found)
    return api.Result(
        load_point=load_point.id,
        workload=load_point.workload,
        axis=load_point.axis,
        value=load_point.value,
        repeats=len(records),
        repeats_planned=len(load_point.stage_ids),
        metrics=metrics | tokens_per_joule(measure.gpu_figures(sampled), roles),
        intervals=sure.intervals,
        uncertain=sure.uncertain,
        steady=steady,
        throughput_of=throughput_of(context.stages, found),
        repeat_cv_percent={
            name: cv for name, cv in noise.items() if name != "mean_itl_ms" or "itl" in shown
        },
        traffic=hashlib.sha256(digests.encode()).hexdigest() if records else None,
        sampling=tokens_chosen.pop() if len(tokens_chosen) == 1 else None,
        explanations=length_explanations(context, step_tokens=_step_tokens(spec)),
        by_repeat=figures_by_repeat(context.stages),
        roles=[*roles, *proxy_role(records)],
        objectives=objective_results(
            spec.objectives,
            samples,
            verdict,
            error=objective_error(spec, load_point),
            one_stretch=load_point.workload not in searched(spec),
        ),
        verdict=verdict,
        findings=_codes(found),
    )


def _step_tokens(spec: api.BenchmarkRunSpec) -> int | None:
    """Return how many tokens the spec allows a step of the servers that compute prompts."""
    started = spec.started
    if started is None:
        return None
    split = spec.server is not None and spec.server.disaggregated is not None
    args = started.words_of(ROLE_PREFILL if split else ROLE_SERVER)
    return server_limits(args).step_tokens


def by_times(roles: Sequence[api.RoleFigures], by_counters: float | None) -> list[api.RoleFigures]:
    """Return the roles, with the mean running by times where the gauge gives no mean.

    `by_counters`: mean of what ran by the servers' times, known where there is only one role.
    """
    return [
        each
        if each.running_mean is None or gauge_is_mean(each.running_mean, by_counters)
        else each.model_copy(update={"running_mean": measure.request_figures.rounded(by_counters)})
        for each in roles
    ]


def role_figures(stage_windows: Sequence[measure.windows.Window]) -> list[api.RoleFigures]:
    """Return the server figures of each role, over all these stages."""
    found = []
    for role in dict.fromkeys(window.role for window in stage_windows):
        own = [window for window in stage_windows if window.role == role]
        gpus = asdict(measure.gpu_figures(own))
        del gpus[api.TOKENS_PER_JOULE]
        found.append(measure.rounded_figures(measure.windows.figures(own).model_copy(update=gpus)))
    return found


def proxy_role(records: Sequence[StageRecord]) -> list[api.RoleFigures]:
    """Return what the proxy did over all these stages.

    Empty where requests went straight to a server.
    """
    if (found := measure.counters.proxy_figures(records)) is None:
        return []
    added_ms = measure.request_figures.rounded(found.added_mean_ms)
    cores = measure.request_figures.rounded(found.cores)
    return [api.RoleFigures(role=ROLE_PROXY, added_mean_ms=added_ms, cores=cores)]


def _codes(found: Sequence[StageFinding]) -> list[str]:
    """Return the codes of the findings, the worst first."""
    ordered = sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))
    return list(dict.fromkeys(finding.code.value for finding in ordered))


def _steady(
    context: LoadPointContext,
    plateaus: Sequence[tuple[StageRecord, measure.Plateau]],
    shown: Collection[str],
    spec: api.BenchmarkRunSpec,
) -> dict[str, float | None]:
    """Return the figures of the steady part, under the keys of `metrics`.

    `shown` names its latencies.

    Where a plateau is not steady, return the throughput alone.
    """
    if not all(where.is_steady for _, where in plateaus):
        return measure.request_figures.plateau_totals(plateaus)
    return measure.request_figures.plateau_metrics(
        plateaus,
        context.percentiles,
        shown=shown,
        queued=context.expected.capped,
        limits=request_limits(spec.objectives) if spec.objectives else None,
    )


def _metrics(
    context: LoadPointContext, shown: measure.request_figures.Pools, spec: api.BenchmarkRunSpec
) -> dict[str, float | None]:
    metrics = measure.request_figures.pooled_metrics(context.records, shown, context.percentiles)
    if spec.objectives:
        limits = request_limits(spec.objectives)
        metrics["request_goodput"] = measure.request_figures.rounded(
            measure.request_figures.goodput(
                context.records, limits, since_due=context.expected.capped
            )
        )
    for name, pool in context.queued.items():
        metrics |= measure.request_figures.level_metrics(pool, name, context.percentiles)
    return metrics


PER_GPU = "output_throughput_per_gpu"
"""Key of `results[].metrics`; present only where the servers are known to hold a GPU."""


def gpus_of(servers: Sequence[api.ServerStatus]) -> int:
    """Return the GPUs of all roles together.

    0 where they are not known, as behind an endpoint, or there are none.
    """
    return sum(server.gpus for server in servers)


def with_throughput_per_gpu(row: api.Result, gpus: int) -> api.Result:
    """Add the throughput per GPU to a row.

    It is None where that of all is not known. Without GPUs the row is returned unchanged.
    """
    if not gpus:
        return row
    throughput = row.figure("output_throughput")
    each = None if throughput is None else measure.request_figures.rounded(throughput / gpus)
    return row.model_copy(update={"metrics": row.metrics | {PER_GPU: each}})


#     cost per million tokens = price of a second / million tokens a second
#
# By the row's throughput: of the plateau, else of the whole stages, first request to last answer.
# Tokens are those of requests that succeeded. Start-up, warm-up and pauses between stages are left
# out: it is the cost of the servers under this load.


def cost_status(
    cost: api.Cost | None, servers: Sequence[api.ServerStatus]
) -> api.CostStatus | None:
    """Return what these servers cost an hour, by the price in the spec.

    Prices of tokens are returned in its place where the spec names them. None if it names no price.
    """
    if cost is None:
        return None
    gpus = gpus_of(servers)
    if (tokens := cost.per_million_tokens) is not None:
        prices = f"{tokens.input} input, {tokens.cached_input} cached, {tokens.output} output"
        return api.CostStatus(currency=cost.currency, per_million_tokens=prices)
    by_gpu = measure.request_figures.rounded(float(cost.per_gpu_hour or 0) * gpus) if gpus else None
    return api.CostStatus(
        currency=cost.currency, per_hour=by_gpu if cost.per_hour is None else float(cost.per_hour)
    )


def with_costs(row: api.Result, cost: api.CostStatus | None) -> api.Result:
    """Add its costs to a row.

    Without a price, or where tokens have prices, the row is returned unchanged.
    """
    found = costs({key: row.figure(key) for key in api.THROUGHPUTS}, cost)
    return row.model_copy(update={"metrics": row.metrics | found})


def costs(
    rates: Mapping[str, float | None], cost: api.CostStatus | None
) -> dict[str, float | None]:
    """Return the costs of a million tokens at these throughputs, by their keys in `metrics`.

    Each is None where it is not known. Empty without a price of time.
    """
    if cost is None or cost.per_million_tokens is not None:
        return {}
    keys = {api.OUTPUT_COST: "output_throughput", api.TOTAL_COST: "total_token_throughput"}
    a_second = None if cost.per_hour is None else cost.per_hour / 3600
    return {
        name: measure.request_figures.rounded(
            measure.request_figures.ratio(a_second, rates.get(key), 1e6)
        )
        for name, key in keys.items()
    }


def token_costs(records: Sequence[StageRecord], cost: api.Cost | None) -> dict[str, float | None]:
    """Return what these stages cost by the prices of tokens, over their tokens.

        (uncached x input + cached x cachedInput + output tokens x output) / tokens

    Prices and costs are per million tokens. Only requests that succeeded count. The cached part of
    their prompts is the share that the servers found of all tokens they queried, stage by stage; a
    cache that is off is not queried. None where that share or the output tokens are not known;
    empty without such prices.
    """
    prices = cost.per_million_tokens if cost is not None else None
    if prices is None:
        return {}
    prompts = 0.0
    cached = 0.0
    outputs = 0.0
    for record in records:
        columns = record.requests
        lookups = measure.counters.prefix_lookups(measure.counters.prefilling(record.servers))
        if lookups is None:
            return {api.OUTPUT_COST: None, api.TOTAL_COST: None}
        looked_up, *found = lookups
        share = min(1.0, max(0.0, measure.request_figures.ratio(sum(found), looked_up) or 0.0))
        tokens = sum(compress(columns.input_tokens, columns.ok))
        prompts = prompts + tokens
        cached = cached + share * tokens
        if not measure.request_figures.counts_tokens(record):
            return {api.OUTPUT_COST: None, api.TOTAL_COST: None}
        outputs += sum(compress(columns.output_tokens, columns.ok))
    price = (prompts - cached) * float(prices.input) + cached * float(prices.cached_input)
    price += outputs * float(prices.output)
    whole = {api.OUTPUT_COST: outputs, api.TOTAL_COST: prompts + outputs}
    return {
        key: measure.request_figures.rounded(measure.request_figures.ratio(price, tokens))
        for key, tokens in whole.items()
    }
