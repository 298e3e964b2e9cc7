"""Results of single stages for the result document, and full distributions of latencies."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import compress

from benchrun_client.contract import StageRecord, is_bounded

from benchrun import api, measure
from benchrun.api import (
    LatencyDistribution,
    LoadGenerator,
    PooledDistributions,
    ReplicaFigures,
    StageGpus,
    StageResult,
    StageServer,
)
from benchrun.judge.distributions import STAGE_PERCENTILES, distribution
from benchrun.judge.gateway import gateway_role
from benchrun.judge.rules.rule import Code, LoadPointContext, StageFinding
from benchrun.judge.session_results import session_figures
from benchrun.judge.stage_facts import StageFacts
from benchrun.measure import Distribution, rounded

CURVE_PERCENTILES = (
    *(
        "0.1",
        "1",
        "2.5",
        "5",
        "10",
        "15",
        "20",
        "25",
        "30",
        "35",
        "40",
        "45",
        "50",
        "55",
        "60",
    ),
    *(
        "65",
        "70",
        "75",
        "80",
        "85",
        "90",
        "92.5",
        "95",
        "97",
        "98",
        "99",
        "99.5",
        "99.9",
        "99.99",
    ),
)
"""Percentiles through which a distribution is drawn."""


def stage_results(
    context: LoadPointContext,
    found: Sequence[StageFinding],
    samples: Sequence[api.Sample],
    *,
    spec: api.BenchmarkRunSpec,
    cost: api.CostStatus | None,
) -> list[StageResult]:
    """Return the measured stages of a load point, in order of repeats.

    `found` has the findings of the load point, `samples` the samples of all servers.
    """
    hidden = _hidden(found)
    return [
        _stage_result(stage, context, hidden, samples, spec=spec, cost=cost)
        for stage in context.stages
    ]


def pooled_distributions(
    context: LoadPointContext, found: Sequence[StageFinding]
) -> PooledDistributions:
    """Return the latencies of a load point over whole stages, with its repeats pooled."""
    hidden = _hidden(found)
    found_here = {
        name: distribution(pool, CURVE_PERCENTILES, milliseconds=True)
        for name, pool in context.pools.items()
        if name != hidden
    }
    return PooledDistributions(
        load_point=context.load_point.id, latencies=_known(found_here)
    )


def _hidden(found: Sequence[StageFinding]) -> str:
    """Return the latency that can't be shown, or an empty text.

    That is ITL if chunks are not tokens, because then gaps between chunks are not gaps between
    tokens.
    """
    return (
        "itl"
        if any(each.code is Code.CHUNKS_ARE_NOT_TOKENS for each in found)
        else ""
    )


def _stage_result(
    stage: StageFacts,
    context: LoadPointContext,
    hidden: str,
    samples: Sequence[api.Sample],
    *,
    spec: api.BenchmarkRunSpec,
    cost: api.CostStatus | None,
) -> StageResult:
    record = stage.record
    pools, samples_of = _latencies(stage, context, hidden, spec)
    unbounded = _unbounded(
        samples_of, dict.fromkeys((*STAGE_PERCENTILES, *context.percentiles))
    )
    plateau = stage.plateau
    steady = (
        measure.plateau_totals([(record, plateau)])
        if isinstance(plateau, measure.Plateau)
        else {}
    )
    roles = [
        *measure.role_figures(stage.windows),
        *measure.proxy_role([record]),
        *gateway_role([stage]),
    ]
    gpus = measure.gpu_figures(stage.windows)
    metrics = measure.pooled_metrics([record], pools, context.percentiles)
    rates = {key: steady.get(key, metrics.get(key)) for key in api.THROUGHPUTS}
    spent = measure.tokens_per_joule(gpus, roles)
    spent |= measure.time_costs(rates, cost) | measure.token_costs(
        [record], spec.cost
    )
    return StageResult(
        id=record.stage_id,
        load_point=context.load_point.id,
        repeat=context.load_point.stage_ids.index(record.stage_id) + 1,
        sequence=record.sequence,
        first_send_unix_us=record.first_send_unix_us,
        last_receive_unix_us=record.last_receive_unix_us,
        requests=len(record.requests.ok),
        completed=sum(record.requests.ok),
        errors=dict(record.errors),
        prompts_digest=record.prompts_digest,
        client=LoadGenerator(
            engine=record.engine.name,
            engine_version=record.engine.version,
            processes=record.client.processes,
        ),
        servers=[
            StageServer(role=edge.role, address=edge.address, version=edge.version)
            for edge in record.servers
        ],
        engine_figures=dict(record.scalars),
        metrics=metrics | spent,
        steady=steady,
        uncertain=_uncertain(unbounded, context.percentiles, metrics),
        roles=roles,
        replicas=[_replica(each) for each in measure.replicas(record, samples)],
        gpus=_gpus(gpus),
        distributions=_distributions(record, pools, unbounded),
        sessions=session_figures(record, stage.cache_hits),
    )


def _latencies(
    stage: StageFacts,
    context: LoadPointContext,
    hidden: str,
    spec: api.BenchmarkRunSpec,
) -> tuple[measure.Pools, measure.Samples]:
    """Return the latencies of a stage as pools, and as samples that give intervals.

    If requests may wait in the client's queue (`max_concurrency`), both also have the
    latencies that include this wait.
    """
    workload = context.load_point.workload
    of_load = next(each.load for each in spec.workloads if each.name == workload)
    queued = of_load.max_concurrency is not None
    load = stage.load
    is_only = len(context.stages) == 1
    measured = context.pools if is_only else measure.pools_of([stage.record])
    pools = {
        name: pool
        for name, pool in measured.items()
        if pool.count and name != hidden
    }
    if queued:
        pools |= measure.pools_of(
            [stage.record], measure.queued_latencies([stage.record])
        )
    if is_only and queued == load.capped:
        return pools, {
            name: each for name, each in context.answered.items() if name in pools
        }
    samples = measure.latency_samples(
        [stage.record],
        users=load.users,
        at_once=load.all_at_once,
        queued=queued,
        failed=False,
        parts=None if load.never_steady else [stage.steady_part],
    )
    return pools, {name: each for name, each in samples.items() if name in pools}


def _unbounded(
    samples: measure.Samples, percentiles: Iterable[str]
) -> Mapping[str, Sequence[str]]:
    """Return, for each latency, the percentiles that its sample is too small to bound."""
    levels = tuple(percentiles)
    return {
        name: [level for level in levels if not is_bounded(sample, float(level))]
        for name, sample in samples.items()
    }


def _uncertain(
    unbounded: Mapping[str, Sequence[str]],
    percentiles: Sequence[str],
    metrics: Mapping[str, float | None],
) -> list[str]:
    """Return the keys in `metrics` of the measured percentiles that are `unbounded`."""
    keys = [
        f"p{measure.percentile_word(percentile)}_{latency}_ms"
        for latency, levels in unbounded.items()
        for percentile in percentiles
        if percentile in levels
    ]
    return [key for key in keys if metrics.get(key) is not None]


def _distributions(
    record: StageRecord,
    pools: measure.Pools,
    unbounded: Mapping[str, Sequence[str]],
) -> dict[str, LatencyDistribution]:
    columns = record.requests
    lengths = {
        "input_tokens": Distribution.of(compress(columns.input_tokens, columns.ok))
    }
    if measure.request_figures.counts_tokens(record):
        lengths["output_tokens"] = Distribution.of(
            compress(columns.output_tokens, columns.ok)
        )
    lengths["sent_tokens"] = Distribution.of(columns.input_tokens)
    if record.whole_answers is None:
        lengths["asked_tokens"] = Distribution.of(columns.asked_tokens)
    latencies = {
        name: distribution(
            pool,
            STAGE_PERCENTILES,
            milliseconds=True,
            unbounded=unbounded.get(name, ()),
        )
        for name, pool in pools.items()
    }
    tokens = {
        name: distribution(pool, STAGE_PERCENTILES, milliseconds=False)
        for name, pool in lengths.items()
    }
    return _known(latencies | tokens)


def _known(
    found: Mapping[str, LatencyDistribution | None],
) -> dict[str, LatencyDistribution]:
    return {name: each for name, each in found.items() if each is not None}


def _replica(of: measure.Replica) -> ReplicaFigures:
    return ReplicaFigures(
        address=of.address,
        pod=of.pod,
        requests_finished=of.requests_finished,
        prompt_tokens=of.prompt_tokens,
        generation_tokens=of.generation_tokens,
        mean_ttft_ms=rounded(of.mean_ttft_ms),
        mean_queue_ms=rounded(of.mean_queue_ms),
        figures=measure.rounded_figures(of.figures),
    )


def _gpus(of: measure.GpuFigures) -> StageGpus:
    return StageGpus(
        gpu_power_mean_watts=rounded(of.gpu_power_mean_watts),
        gpu_memory_max_mib=rounded(of.gpu_memory_max_mib),
        sm_clock_mean_mhz=rounded(of.sm_clock_mean_mhz),
        no_power_reason=of.no_power_reason,
        output_tokens_per_joule=rounded(of.output_tokens_per_joule),
    )
