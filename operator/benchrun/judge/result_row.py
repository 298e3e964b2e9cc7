"""One row of the results: the figures of a cell, how sure they are, what they cost, and what they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import NamedTuple

from benchrun_client.contract import StageRecord

from benchrun.api import (
    OUTPUT_COST,
    TOKENS_PER_JOULE,
    TOTAL_COST,
    BenchmarkRunSpec,
    Cost,
    CostStatus,
    Result,
    RoleFigures,
    ServerStatus,
)
from benchrun.judge.explain.cell_explanations import Explanation
from benchrun.judge.objectives import TRUSTED, inconclusive, objective_results, request_limits
from benchrun.judge.rules.all_rules import verdict_of_findings
from benchrun.judge.rules.rule import SEVERITIES, CellContext, Code, StageFinding
from benchrun.measure import (
    cells,
    counters,
    gpu_figures,
    percentile_interval,
    plateau,
    repeats,
    rounded_figures,
    windows,
)
from benchrun.names import ROLE_PROXY


class Certainty(NamedTuple):
    """By the keys of `metrics`."""

    intervals: dict[str, list[float]]  # Low and high end in milliseconds, five significant digits.
    uncertain: list[str]  # Measured, but by too few requests to be bounded on both sides.


def certainty(pools: cells.Pools, percentiles: Sequence[str]) -> Certainty:
    """Of every percentile of every latency. What was not measured is neither."""
    found = Certainty({}, [])
    for latency, pool in pools.items():
        for percentile in percentiles if pool.count else ():
            key = f"p{cells.percentile_word(percentile)}_{latency}_ms"
            interval = percentile_interval(pool, float(percentile))
            if interval is None:
                found.uncertain.append(key)
            else:
                found.intervals[key] = [
                    end for each in interval if (end := cells.rounded(cells.milliseconds(each))) is not None
                ]
    return found


def tokens_per_joule(metrics: Mapping[str, float | None], roles: Sequence[RoleFigures]) -> dict[str, float | None]:
    """Throughput over power. None where the power of a role is not known: the tokens are the work of all."""
    watts = [role.gpu_power_mean_watts for role in roles if role.gpu_power_mean_watts is not None]
    if not watts:
        return {}
    throughput = metrics.get("output_throughput")
    whole = len(watts) == len(roles) and throughput is not None and sum(watts) > 0
    return {TOKENS_PER_JOULE: cells.rounded((throughput or 0.0) / sum(watts)) if whole else None}


def row(measured: Result, found: Sequence[StageFinding], explanation: Explanation | None) -> Result:
    """The row of a cell with what only the whole run shows: all that was `found` at it, and why requests waited."""
    verdict = verdict_of_findings(found)
    update: dict[str, object] = {
        "verdict": verdict,
        "findings": _codes(found),
        "objectives": measured.objectives if verdict in TRUSTED else inconclusive(measured.objectives),
    }
    if explanation is not None:
        update |= {"waiting": explanation.waiting, "bottleneck": explanation.bottleneck}
        # For each role, where the row's own sentences are about one of several.
        by_role = explanation.by_role if len(explanation.by_role) > 1 else {}
        words = {role: {"waiting": of.waiting.reason, "limit": of.bottleneck.limit} for role, of in by_role.items()}
        update["roles"] = [each.model_copy(update=words.get(each.role)) for each in measured.roles]
    return measured.model_copy(update=update)


def measured_row(context: CellContext, found: Sequence[StageFinding], *, spec: BenchmarkRunSpec) -> Result:
    """Of a cell as it was measured, by what its own rules found; one without any record has figures of nothing."""
    cell, records = context.cell, [stage.record for stage in context.stages]
    codes = _codes(found)
    # Gaps between chunks that hold several tokens are not gaps between tokens.
    hidden = "itl" if Code.CHUNKS_ARE_NOT_TOKENS in codes else ""
    shown = {latency: pool for latency, pool in context.pools.items() if latency != hidden}
    every = {**shown, **context.queued}
    sure = certainty(every, context.percentiles)
    roles = role_figures([window for stage in context.stages for window in stage.windows])
    metrics = _metrics(context, shown, spec)
    plateaus = [(s.record, s.plateau) for s in context.stages if isinstance(s.plateau, plateau.Plateau)]
    noise = repeats.repeat_cv_percent(records)
    digests = "\n".join(record.prompts_digest for record in records)
    verdict = verdict_of_findings(found)
    return Result(
        cell=cell.id,
        workload=cell.workload,
        axis=cell.axis,
        value=cell.value,
        repeats=len(records),
        repeats_planned=len(cell.stage_ids),
        metrics=metrics | tokens_per_joule(metrics, roles),
        intervals=sure.intervals,
        uncertain=sure.uncertain,
        steady=cells.plateau_metrics(plateaus, context.percentiles) if plateaus else {},
        repeat_cv_percent={name: cv for name, cv in noise.items() if name != "mean_itl_ms" or "itl" in shown},
        traffic=hashlib.sha256(digests.encode()).hexdigest() if records else None,
        roles=[*roles, *proxy_role(records)],
        objectives=objective_results(spec.objectives, every, verdict),
        verdict=verdict,
        findings=codes,
    )


def role_figures(stage_windows: Sequence[windows.Window]) -> list[RoleFigures]:
    """Server figures by role, over all these stages."""
    roles = dict.fromkeys(window.role for window in stage_windows)
    own = [[window for window in stage_windows if window.role == role] for role in roles]
    return [rounded_figures(windows.figures(of).model_copy(update=asdict(gpu_figures(of)))) for of in own]


def proxy_role(records: Sequence[StageRecord]) -> list[RoleFigures]:
    """What the proxy did over all these stages; nothing where requests went straight to a server."""
    found = counters.proxy_figures(records)
    if found is None:
        return []
    added_ms, cores = cells.rounded(found.added_mean_ms), cells.rounded(found.cores)
    return [RoleFigures(role=ROLE_PROXY, added_mean_ms=added_ms, cores=cores)]


def _codes(found: Sequence[StageFinding]) -> list[str]:
    """The worst first."""
    ordered = sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))
    return list(dict.fromkeys(finding.code.value for finding in ordered))


def _metrics(context: CellContext, shown: cells.Pools, spec: BenchmarkRunSpec) -> dict[str, float | None]:
    records = [stage.record for stage in context.stages]
    metrics = cells.pooled_metrics(records, shown, context.percentiles)
    if spec.objectives:
        limits = request_limits(spec.objectives)
        metrics["request_goodput"] = cells.rounded(cells.goodput(records, limits, since_due=context.expected.capped))
    for name, pool in context.queued.items():
        metrics |= cells.level_metrics(pool, name, context.percentiles)
    return metrics


PER_GPU = "output_throughput_per_gpu"
"""Key of `results[].metrics`, there only where the servers hold a GPU that is known of."""


def gpus_of(servers: Sequence[ServerStatus]) -> int:
    """GPUs of all roles together; 0 where they are not known, as behind an endpoint, or there are none."""
    return sum(server.gpus for server in servers)


def with_throughput_per_gpu(row: Result, gpus: int) -> Result:
    """The row with the throughput of a GPU, None where that of all is not known; as it was without GPUs."""
    if not gpus:
        return row
    throughput = row.metrics.get("output_throughput")
    each = None if throughput is None else cells.rounded(throughput / gpus)
    return row.model_copy(update={"metrics": row.metrics | {PER_GPU: each}})


#     cost per million tokens = price of an hour x hours / million tokens
#
# The hours are the row's `duration`, first request to last answer of every repeat, and the tokens are those of requests that
# succeeded. Start-up, warm-up and pauses between stages are left out: it is the cost of the servers under this load.

_SECONDS_AN_HOUR = 3600
_MILLION = 1e6


def cost_status(cost: Cost | None, servers: Sequence[ServerStatus]) -> CostStatus | None:
    """What these servers cost an hour, by the price in the spec. None: it names none."""
    if cost is None:
        return None
    gpus = gpus_of(servers)
    by_gpu = cells.rounded(float(cost.per_gpu_hour or 0) * gpus) if gpus else None
    return CostStatus(currency=cost.currency, per_hour=by_gpu if cost.per_hour is None else float(cost.per_hour))


def with_costs(row: Result, cost: CostStatus | None) -> Result:
    """The row with its costs; as it was without a price."""
    return row if cost is None else row.model_copy(update={"metrics": row.metrics | costs(row.metrics, cost)})


def costs(metrics: Mapping[str, float | None], cost: CostStatus | None) -> dict[str, float | None]:
    """Those of these figures, each None where it is not known; nothing without a price."""
    if cost is None:
        return {}
    seconds, output = metrics.get("duration"), metrics.get("total_output_tokens")
    spent = None if cost.per_hour is None or seconds is None else cost.per_hour * seconds / _SECONDS_AN_HOUR
    total = None if output is None else output + (metrics.get("total_input_tokens") or 0)
    tokens_by_key = {OUTPUT_COST: output, TOTAL_COST: total}
    return {
        key: cells.rounded(spent / (tokens / _MILLION)) if spent is not None and tokens else None
        for key, tokens in tokens_by_key.items()
    }
