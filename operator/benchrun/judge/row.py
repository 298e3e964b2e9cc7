"""One row of the results: the figures of a cell, how sure they are, and what they mean."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from benchrun_client.contract import StageRecord

from benchrun.api.names import ROLE_PROXY
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import Result, RoleFigures
from benchrun.judge.certainty import certainty
from benchrun.judge.energy import tokens_per_joule
from benchrun.judge.explaining import Explained, Explanation
from benchrun.judge.finding import SEVERITIES, Code, StageFinding
from benchrun.judge.objectives import is_trusted, objective_results, request_limits, untold
from benchrun.judge.rules import CellContext
from benchrun.judge.verdict import verdict_of_findings
from benchrun.measure.cells import Pools, level_metrics, pooled_metrics, rounded
from benchrun.measure.goodput import goodput
from benchrun.measure.gpu_figures import gpu_figures
from benchrun.measure.plateau_figures import plateau_metrics
from benchrun.measure.proxy import proxy_figures
from benchrun.measure.repeat_noise import repeat_cv_percent
from benchrun.measure.steady import Plateau
from benchrun.measure.windows import Window, figures


def row(measured: Result, found: Sequence[StageFinding], explanation: Explanation | None) -> Result:
    """The row of a cell with what only the whole run tells: all that was `found` at it, and why requests waited."""
    verdict = verdict_of_findings(found)
    by_role = explanation.by_role if explanation is not None else {}
    return measured.model_copy(
        update={
            "roles": [_explained(figures, by_role) for figures in measured.roles],
            "verdict": verdict,
            "findings": _codes(found),
            "objectives": measured.objectives if is_trusted(verdict) else untold(measured.objectives),
            "waiting": explanation.waiting if explanation is not None else None,
            "bottleneck": explanation.bottleneck if explanation is not None else None,
        }
    )


def _explained(figures: RoleFigures, by_role: Mapping[str, Explained]) -> RoleFigures:
    """Each role by itself, where the row's own words are about one of several."""
    if len(by_role) < 2 or figures.role not in by_role:
        return figures
    said = by_role[figures.role]
    return figures.model_copy(update={"waiting": said.waiting.reason, "limit": said.bottleneck.limit})


def measured_row(context: CellContext, found: Iterable[StageFinding], *, spec: BenchmarkRunSpec) -> Result:
    """Of a cell as it was measured, by what its own rules found; one without any record has figures of nothing."""
    cell, records = context.cell, [stage.record for stage in context.stages]
    known = tuple(found)
    verdict, codes = verdict_of_findings(known), _codes(known)
    shown = _shown(context, codes)
    every = {**shown, **context.queued}
    sure = certainty(every, context.percentiles)
    roles = role_figures([window for stage in context.stages for window in stage.context.windows])
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


def role_figures(stage_windows: Sequence[Window]) -> list[RoleFigures]:
    """Server figures by role, over all these stages."""
    roles = dict.fromkeys(window.role for window in stage_windows)
    return [_rounded_figures([w for w in stage_windows if w.role == role]) for role in roles]


def proxy_role(records: Sequence[StageRecord]) -> list[RoleFigures]:
    """What the proxy did over all these stages; nothing where requests went straight to a server."""
    found = proxy_figures(records)
    if found is None:
        return []
    return [RoleFigures(role=ROLE_PROXY, added_mean_ms=rounded(found.added_mean_ms), cores=rounded(found.cores))]


def _codes(found: Sequence[StageFinding]) -> list[str]:
    """The worst first."""
    ordered = sorted(found, key=lambda finding: -SEVERITIES.index(finding.severity))
    return list(dict.fromkeys(finding.code.value for finding in ordered))


def _shown(context: CellContext, codes: Sequence[str]) -> Pools:
    """Gaps between chunks that hold several tokens are not gaps between tokens."""
    hidden = "itl" if Code.CHUNKS_ARE_NOT_TOKENS in codes else None
    return {latency: pool for latency, pool in context.pools.items() if latency != hidden}


def _metrics(context: CellContext, shown: Pools, spec: BenchmarkRunSpec) -> dict[str, float | None]:
    records = [stage.record for stage in context.stages]
    metrics = pooled_metrics(records, shown, context.percentiles)
    if spec.objectives:
        limits = request_limits(spec.objectives)
        metrics["request_goodput"] = rounded(goodput(records, limits, since_due=context.asked.capped))
    for name, pool in context.queued.items():
        metrics |= level_metrics(pool, name, context.percentiles)
    return metrics


def _steady(context: CellContext) -> dict[str, float | None]:
    """Of the repeats that have a plateau, in one pool; empty where none has."""
    found = [(stage.record, stage.shape.plateau) for stage in context.stages]
    standing = [(record, where) for record, where in found if isinstance(where, Plateau)]
    return plateau_metrics(standing, context.percentiles) if standing else {}


def _noise(records: Sequence[StageRecord], shown: Pools) -> dict[str, float]:
    found = repeat_cv_percent(records)
    return {name: cv for name, cv in found.items() if name != "mean_itl_ms" or "itl" in shown}


def _traffic(records: Sequence[StageRecord]) -> str | None:
    """Of the prompts of all repeats, in their order; None where nothing was sent."""
    digests = [record.prompts_digest for record in records]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest() if digests else None


def _rounded_figures(stage_windows: Sequence[Window]) -> RoleFigures:
    found, gpus = figures(stage_windows), gpu_figures(stage_windows)
    return RoleFigures(
        role=found.role,
        running_mean=rounded(found.running_mean),
        running_max=rounded(found.running_max),
        waiting_mean=rounded(found.waiting_mean),
        waiting_max=rounded(found.waiting_max),
        kv_cache_mean_percent=rounded(found.kv_cache_mean_percent),
        kv_cache_max_percent=rounded(found.kv_cache_max_percent),
        preemptions=found.preemptions,
        prefix_hit_percent=rounded(found.prefix_hit_percent),
        fetched_percent=rounded(found.fetched_percent),
        fetched_tokens=found.fetched_tokens,
        transfer_failures=found.transfer_failures,
        samples=found.samples,
        gpu_power_mean_watts=rounded(gpus.power_mean_watts),
        gpu_memory_max_mib=rounded(gpus.memory_max_mib),
        sm_clock_mean_mhz=rounded(gpus.sm_clock_mean_mhz),
        coverage_percent=rounded(found.coverage_percent),
    )
