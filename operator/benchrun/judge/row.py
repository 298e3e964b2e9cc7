"""One row of the results: the figures of a cell, how sure they are, what they cost, and what they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
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
from benchrun.judge.explain.cells import Explained, Explanation
from benchrun.judge.objectives import TRUSTED, inconclusive, objective_results, request_limits
from benchrun.judge.rules.catalogue import verdict_of_findings
from benchrun.judge.rules.rule import SEVERITIES, CellContext, Code, StageFinding
from benchrun.measure import cells, counters, plateau, repeats, windows
from benchrun.measure.gpus import gpu_figures
from benchrun.measure.percentiles import percentile_interval
from benchrun.measure.server_figures import rounded_figures
from benchrun.names import ROLE_PROXY


class Certainty(NamedTuple):
    """By the keys of `metrics`."""

    intervals: dict[str, list[float]]
    """Low and high end in milliseconds, five significant digits."""
    uncertain: list[str]
    """Measured, but by too few requests to be bounded on both sides."""


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
    """Throughput over power. None where a role did not tell its power: the tokens are the work of all."""
    powers = [role.gpu_power_mean_watts for role in roles]
    known = [power for power in powers if power is not None]
    if not known:
        return {}
    throughput, watts = metrics.get("output_throughput"), sum(known)
    whole = len(known) == len(powers) and throughput is not None and watts > 0
    return {TOKENS_PER_JOULE: cells.rounded((throughput or 0.0) / watts) if whole else None}


def row(measured: Result, found: Sequence[StageFinding], explanation: Explanation | None) -> Result:
    """The row of a cell with what only the whole run tells: all that was `found` at it, and why requests waited."""
    verdict = verdict_of_findings(found)
    by_role = explanation.by_role if explanation is not None else {}
    return measured.model_copy(
        update={
            "roles": [_explained(of_role, by_role) for of_role in measured.roles],
            "verdict": verdict,
            "findings": _codes(found),
            "objectives": measured.objectives if verdict in TRUSTED else inconclusive(measured.objectives),
            "waiting": explanation.waiting if explanation is not None else None,
            "bottleneck": explanation.bottleneck if explanation is not None else None,
        }
    )


def _explained(of_role: RoleFigures, by_role: Mapping[str, Explained]) -> RoleFigures:
    """Each role by itself, where the row's own words are about one of several."""
    if len(by_role) < 2 or of_role.role not in by_role:
        return of_role
    found = by_role[of_role.role]
    return of_role.model_copy(update={"waiting": found.waiting.reason, "limit": found.bottleneck.limit})


def measured_row(context: CellContext, found: Iterable[StageFinding], *, spec: BenchmarkRunSpec) -> Result:
    """Of a cell as it was measured, by what its own rules found; one without any record has figures of nothing."""
    cell, records = context.cell, [stage.record for stage in context.stages]
    known = tuple(found)
    verdict, codes = verdict_of_findings(known), _codes(known)
    shown = _shown(context, codes)
    every = {**shown, **context.queued}
    sure = certainty(every, context.percentiles)
    roles = role_figures([window for stage in context.stages for window in stage.windows])
    metrics = _metrics(context, shown, spec)
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
        steady=_steady(context),
        repeat_cv_percent=_noise(records, shown),
        traffic=_traffic(records),
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
    return [
        RoleFigures(role=ROLE_PROXY, added_mean_ms=cells.rounded(found.added_mean_ms), cores=cells.rounded(found.cores))
    ]


def _codes(found: Sequence[StageFinding]) -> list[str]:
    """The worst first."""
    ordered = sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))
    return list(dict.fromkeys(finding.code.value for finding in ordered))


def _shown(context: CellContext, codes: Sequence[str]) -> cells.Pools:
    """Gaps between chunks that hold several tokens are not gaps between tokens."""
    hidden = "itl" if Code.CHUNKS_ARE_NOT_TOKENS in codes else None
    return {latency: pool for latency, pool in context.pools.items() if latency != hidden}


def _metrics(context: CellContext, shown: cells.Pools, spec: BenchmarkRunSpec) -> dict[str, float | None]:
    records = [stage.record for stage in context.stages]
    metrics = cells.pooled_metrics(records, shown, context.percentiles)
    if spec.objectives:
        limits = request_limits(spec.objectives)
        metrics["request_goodput"] = cells.rounded(cells.goodput(records, limits, since_due=context.expected.capped))
    for name, pool in context.queued.items():
        metrics |= cells.level_metrics(pool, name, context.percentiles)
    return metrics


def _steady(context: CellContext) -> dict[str, float | None]:
    """Of the repeats that have a plateau, in one pool; empty where none has."""
    found = [(stage.record, stage.plateau) for stage in context.stages]
    standing = [(record, where) for record, where in found if isinstance(where, plateau.Plateau)]
    return cells.plateau_metrics(standing, context.percentiles) if standing else {}


def _noise(records: Sequence[StageRecord], shown: cells.Pools) -> dict[str, float]:
    found = repeats.repeat_cv_percent(records)
    return {name: cv for name, cv in found.items() if name != "mean_itl_ms" or "itl" in shown}


def _traffic(records: Sequence[StageRecord]) -> str | None:
    """Of the prompts of all repeats, in their order; None where nothing was sent."""
    digests = [record.prompts_digest for record in records]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else None


PER_GPU = "output_throughput_per_gpu"
"""Key of `results[].metrics`, there only where the servers hold a GPU that is known of."""


def gpus_of(servers: Sequence[ServerStatus]) -> int:
    """GPUs of all roles together; 0 where they are not known, as behind an endpoint, or there are none."""
    return sum(server.gpus for server in servers)


def shared_out(row: Result, gpus: int) -> Result:
    """The row with the throughput of a GPU, None where that of all is not known; as it was without GPUs."""
    return row if not gpus else row.model_copy(update={"metrics": row.metrics | {PER_GPU: _per_gpu(row, gpus)}})


def _per_gpu(row: Result, gpus: int) -> float | None:
    throughput = row.metrics.get("output_throughput")
    return None if throughput is None else cells.rounded(throughput / gpus)


#     cost per million tokens = price of an hour x hours / million tokens
#
# The hours are the row's `duration`, first request to last answer of every repeat, and the tokens are those of requests that
# succeeded. Start-up, warm-up and pauses between stages are not in it: it is what the servers cost under this load, day in,
# day out.

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
    return cells.rounded(float(cost.per_gpu_hour or 0) * gpus) if gpus else None


def _spent(per_hour: float | None, seconds: float | None) -> float | None:
    return None if per_hour is None or seconds is None else per_hour * seconds / _SECONDS_AN_HOUR


def _per_million(spent: float | None, tokens: float | None) -> float | None:
    return cells.rounded(spent / (tokens / _MILLION)) if spent is not None and tokens else None
