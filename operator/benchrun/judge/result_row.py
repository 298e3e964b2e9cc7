"""Build a row of the results: the figures of a load point, their uncertainty, and their costs."""

import hashlib
from collections.abc import Collection, Sequence

from benchrun_client.contract import ERROR, StageRecord, UserStartMode

from benchrun import api, measure
from benchrun.judge.explain.explanations import (
    figures_by_repeat,
    length_explanations,
)
from benchrun.judge.explain.load_point_explanations import (
    QueueExplanation,
    gauge_is_mean,
    running_by_counters,
)
from benchrun.judge.gateway import gateway_role
from benchrun.judge.objectives import (
    inconclusive,
    objective_results,
    request_limits,
    unreached,
    width_results,
)
from benchrun.judge.prices import held, prices
from benchrun.judge.rules.all_rules import verdict_of_findings
from benchrun.judge.rules.rule import Code, LoadPointContext, StageFinding
from benchrun.judge.throughput import throughput_of, throughputs
from benchrun.measure.server_pressure import server_limits
from benchrun.names import ROLE_PREFILL, ROLE_SERVER
from benchrun.plan import objective_error, searched


def row(
    measured: api.Result,
    found: Sequence[StageFinding],
    explanation: QueueExplanation | None,
) -> api.Result:
    """Complete the row of a load point with what only the whole run shows.

    `found` has all findings of the load point. `explanation` says why requests waited, or is None
    if that is unknown.
    """
    verdict = verdict_of_findings(found)
    update: dict[str, object] = {"verdict": verdict, "findings": _codes(found)}
    if verdict not in api.TRUSTED:
        update |= {
            "objectives": inconclusive(measured.objectives),
            "widths": unreached(measured.widths),
        }
    if explanation is not None:
        update |= {
            "waiting": explanation.waiting,
            "bottleneck": explanation.bottleneck,
        }
        if explanation.waiting.reason == "None":  # nothing held requests back
            update["explanations"] = [
                each
                for each in measured.explanations
                if each.question != "MaxModelLen"
            ]
        # Where there are several roles, the row's own sentences are about one of them.
        by_role = explanation.by_role.items()
        words = {
            role: {"waiting": of.waiting.reason, "limit": of.bottleneck.limit}
            for role, of in by_role
        }
        update["roles"] = [
            each.model_copy(update=words.get(each.role)) for each in measured.roles
        ]
    return measured.model_copy(update=update)


def measured_row(
    context: LoadPointContext,
    found: Sequence[StageFinding],
    *,
    spec: api.BenchmarkRunSpec,
    gpus: int = 0,
) -> api.Result:
    """Build the result row for a measured load point from its rule findings.

    A load point without records gets no figures. `gpus` is the number of GPUs that the servers
    held, 0 if it is not known.
    """
    load_point = context.load_point
    records = context.records
    # Gaps between chunks that hold several tokens are not gaps between tokens.
    hidden = (
        "itl"
        if any(each.code is Code.CHUNKS_ARE_NOT_TOKENS for each in found)
        else ""
    )
    shown = {
        latency: pool
        for latency, pool in context.pools.items()
        if latency != hidden
    }
    samples = {
        name: sample for name, sample in context.samples.items() if name != hidden
    }
    sampled = [window for stage in context.stages for window in stage.windows]
    roles = by_times(measure.role_figures(sampled), running_by_counters(context))
    metrics = _metrics(context, shown, spec) | measure.token_costs(
        records, spec.cost
    )
    answered = {
        name: each for name, each in context.answered.items() if name != hidden
    }
    sure = measure.percentile_intervals(
        answered,
        context.percentiles,
        metrics,
        # Wider with `repeats: Auto`: they hold over all looks.
        error=objective_error(spec, load_point) if spec.until_decided else ERROR,
    )
    plateaus = [
        (s.record, s.plateau)
        for s in context.stages
        if isinstance(s.plateau, measure.Plateau)
    ]
    on_plateaus = len(plateaus) == len(records)
    steady = _steady(context, plateaus if on_plateaus else (), shown, spec)
    noise = _noise(context, on_plateaus=on_plateaus)
    digests = "\n".join(record.prompts_digest for record in records)
    tokens_chosen = {
        record.sampling.in_words() if record.sampling is not None else None
        for record in records
    }
    verdict = verdict_of_findings(found)
    took = held(records, samples, gpus=gpus)
    return api.Result(
        load_point=load_point.id,
        workload=load_point.workload,
        axis=load_point.load.axis,
        value=load_point.load.value,
        repeats=len(records),
        repeats_planned=len(load_point.stage_ids),
        metrics=metrics
        | measure.tokens_per_joule(measure.gpu_figures(sampled), roles),
        intervals=sure.intervals,
        uncertain=sure.uncertain,
        prices=prices(sure.needed, took),
        steady=steady,
        throughput_of=throughput_of(context.stages, found),
        repeat_cv_percent={
            name: cv
            for name, cv in noise.items()
            if name != "mean_itl_ms" or "itl" in shown
        },
        user_start=_user_start(records),
        traffic=hashlib.sha256(digests.encode()).hexdigest() if records else None,
        sampling=tokens_chosen.pop() if len(tokens_chosen) == 1 else None,
        explanations=length_explanations(
            context, spec.engine, step_tokens=_step_tokens(spec)
        ),
        by_repeat=figures_by_repeat(context.stages),
        roles=[
            *roles,
            *measure.proxy_role(records),
            *gateway_role(context.stages),
        ],
        objectives=objective_results(
            spec.objectives,
            samples,
            verdict,
            error=objective_error(spec, load_point),
            one_stretch=load_point.workload not in searched(spec),
            held=took,
        ),
        widths=width_results(
            spec.widths, samples, verdict, error=objective_error(spec, load_point)
        ),
        verdict=verdict,
        findings=_codes(found),
    )


def _noise(context: LoadPointContext, *, on_plateaus: bool) -> dict[str, float]:
    """Return how far the repeats differ, in percent; empty if there is only one."""
    if len(context.stages) < 2:
        return {}
    counted_part = measure.request_figures.counted_part
    return measure.significance.repeat_cv_percent(
        [counted_part(*each) for each in context.counted],
        [throughputs([s], on_plateaus=on_plateaus) for s in context.stages],
    )


def _user_start(records: Sequence[StageRecord]) -> UserStartMode | None:
    """Return how users began; Together if they did so in any repeat. None: there are no users."""
    modes = {
        each.user_start.mode for each in records if each.user_start is not None
    }
    if not modes:
        return None
    return "Together" if "Together" in modes else "Spread"


def _step_tokens(spec: api.BenchmarkRunSpec) -> int | None:
    """Return how many tokens a step may have at the servers that compute prompts, by the spec."""
    started = spec.started
    if started is None:
        return None
    split = spec.server is not None and spec.server.disaggregated is not None
    args = started.words_of(ROLE_PREFILL if split else ROLE_SERVER)
    return server_limits(args, spec.engine).step_tokens


def by_times(
    roles: Sequence[api.RoleFigures], by_counters: float | None
) -> list[api.RoleFigures]:
    """Return the figures of the roles, with the mean of running requests added if it is missing.

    It is missing if the samples of the gauge do not give a mean. `by_counters` is the mean that
    follows from the servers' times; it is known only if there is one role.
    """
    return [
        each
        if each.running_mean is None
        or gauge_is_mean(each.running_mean, by_counters)
        else each.model_copy(
            update={"running_mean": measure.request_figures.rounded(by_counters)}
        )
        for each in roles
    ]


def _codes(found: Sequence[StageFinding]) -> list[str]:
    """Return the codes of the findings, the worst first."""
    ordered = sorted(
        found, key=lambda finding: -api.SEVERITIES.index(finding.severity)
    )
    return list(dict.fromkeys(finding.full_code for finding in ordered))


def _steady(
    context: LoadPointContext,
    plateaus: Sequence[tuple[StageRecord, measure.Plateau]],
    shown: Collection[str],
    spec: api.BenchmarkRunSpec,
) -> dict[str, float | None]:
    """Return the figures of the steady part, under the keys of `metrics`.

    `shown` names the latencies to return. Stages without a steady part have throughputs of their
    plateaus, if all have one. Of their latencies those stand here that objectives judge, where they
    are not vLLM's of whole stages: they count from when requests were due, or some stages have a
    steady part.
    """
    figures = measure.request_figures
    limits = request_limits(spec.objectives) if spec.objectives else None
    load = context.expected.load
    if plateaus and all(where.is_steady for _, where in plateaus):
        return figures.plateau_metrics(
            plateaus,
            context.percentiles,
            shown=shown,
            queued=load.capped,
            limits=limits,
        )
    found = figures.plateau_totals(plateaus) if plateaus else {}
    counted = context.counted
    is_ours = load.has_due_instants or any(part is not None for _, part in counted)
    if counted and is_ours:
        found |= figures.counted_metrics(
            counted,
            context.percentiles,
            shown=shown,
            queued=load.capped,
            limits=limits,
        )
    return found


def _metrics(
    context: LoadPointContext,
    shown: measure.request_figures.Pools,
    spec: api.BenchmarkRunSpec,
) -> dict[str, float | None]:
    metrics = measure.request_figures.pooled_metrics(
        context.records, shown, context.percentiles
    )
    if spec.objectives:
        limits = request_limits(spec.objectives)
        metrics["request_goodput"] = measure.request_figures.rounded(
            measure.request_figures.goodput(
                context.records, limits, since_due=context.expected.load.capped
            )
        )
    for name, pool in context.queued.items():
        metrics |= measure.request_figures.level_metrics(
            pool, name, context.percentiles
        )
    return metrics


def with_throughput_per_gpu(row: api.Result, gpus: int) -> api.Result:
    """Add the throughput per GPU to a row.

    It is None if the throughput is not known. Without GPUs the row is returned unchanged.
    """
    if not gpus or row.has_whole_answers:
        return row
    throughput = row.figure("output_throughput")
    each = (
        None
        if throughput is None
        else measure.request_figures.rounded(throughput / gpus)
    )
    return row.model_copy(update={"metrics": row.metrics | {api.PER_GPU: each}})


def with_costs(row: api.Result, cost: api.CostStatus | None) -> api.Result:
    """Add the costs to a row.

    Without a price, or if the price is one per token, the row is returned unchanged.
    """
    found = measure.time_costs(
        {key: row.figure(key) for key in api.THROUGHPUTS}, cost
    )
    return row.model_copy(update={"metrics": row.metrics | found})
