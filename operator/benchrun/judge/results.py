"""The judged results of a run: one row for each load point, in the order of the plan."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from benchrun_client.contract import StageRecord, is_bounded

from benchrun import api
from benchrun.api import PooledDistributions, StageResult
from benchrun.judge.explain.explanations import with_limit_told_once, with_true_runs
from benchrun.judge.explain.load_point_explanations import (
    Limits,
    Seen,
    explanations,
    seen_at,
)
from benchrun.judge.explain.prompt_beginnings import (
    beginnings,
    block_tokens_of,
    earlier_load_points,
    with_beginnings,
)
from benchrun.judge.result_row import (
    measured_row,
    row,
    with_costs,
    with_throughput_per_gpu,
)
from benchrun.judge.rules.all_rules import (
    aggregate,
    judge_load_point,
    judge_row,
    judge_run,
    verdict_of_findings,
)
from benchrun.judge.rules.rule import (
    LoadPointContext,
    RunContext,
    StageFacts,
    StageFinding,
    StageSummary,
    overridden,
)
from benchrun.judge.rules.sample_size import unstored_records
from benchrun.judge.search_results import deciding, search_results
from benchrun.judge.stage_facts import expected_stage
from benchrun.judge.stage_results import pooled_distributions, stage_results
from benchrun.judge.thresholds import Thresholds, thresholds_of
from benchrun.judge.until_decided import until_decided
from benchrun.measure import (
    cost_status,
    metrics_page,
    request_figures,
    server_pressure,
    stage_windows,
)
from benchrun.names import ROLE_DECODE, ROLE_PREFILL, ROLE_SERVER

UNCERTAIN = "?"  # Follows a figure that rests on too few requests.


ALIKE_PERCENT = 3.0
"""Throughputs this close to the highest count as equal to it, because beyond saturation a higher
load only adds waiting."""


class P99TTFT(NamedTuple):
    """The p99 TTFT of a load point, as a number and as text for the column."""

    milliseconds: float | None
    text: str


def headline(
    rows: Sequence[api.Result], p99_ttft: Callable[[str], P99TTFT]
) -> api.Headline | None:
    """Return the figures of the best load point of the first workload.

    They are marked if the load point is Suspect. Return None if no load point is Valid or Suspect.
    `p99_ttft` returns the p99 TTFT of a load point by its id.

    The best is chosen among the Valid load points or, if there are none, among the Suspect ones. If
    any of them meets every objective, only those that do are left. Of those within 3 % of the
    highest output throughput, the one with the lowest p99 TTFT is the best.
    """
    first = [
        row
        for row in rows
        if row.workload == rows[0].workload and row.verdict in api.TRUSTED
    ]
    kept = [row for row in first if row.verdict == "Valid"] or first
    kept = [row for row in kept if _meets_objectives(row)] or kept
    if not kept:
        return None
    least = (1 - ALIKE_PERCENT / 100) * max(map(_throughput, kept))
    alike = [
        (row, p99_ttft(row.load_point)) for row in kept if _throughput(row) >= least
    ]
    best, ttft = min(
        alike,
        key=lambda each: (
            _or_infinite(each[1].milliseconds),
            -_throughput(each[0]),
        ),
    )
    throughput = shown(_tokens_a_second(best))
    text = ttft.text
    if best.verdict == "Suspect":
        throughput = _marked(throughput)
        text = _marked(text)
    return api.Headline(
        load_point=best.load_point, throughput=throughput, p99_ttft=text
    )


def _throughput(row: api.Result) -> float:
    return _tokens_a_second(row) or 0.0


def _tokens_a_second(row: api.Result) -> float | None:
    """Return the output throughput; of embeddings, which have no output, that of the prompts."""
    key = "total_token_throughput" if row.has_whole_answers else "output_throughput"
    return row.figure(key)


def _or_infinite(value: float | None) -> float:
    return math.inf if value is None else value


def _meets_objectives(row: api.Result) -> bool:
    return bool(row.objectives) and all(
        each.outcome == "Met" for each in row.objectives
    )


def _marked(figure: str) -> str:
    number, space, unit = figure.partition(" ")
    return (
        figure
        if number == "-" or number.endswith(UNCERTAIN)
        else f"{number}{UNCERTAIN}{space}{unit}"
    )


def p99_ttft(load_point: LoadPointContext) -> P99TTFT:
    """Return the p99 TTFT of a load point, and its text for a column of kubectl.

    If a cap held back requests of an open loop, it includes their wait in the client: "143 ms with
    queue". With too few requests it is marked: "143? ms". Of embeddings it is the E2EL: "143 ms
    E2EL".
    """
    whole = request_figures.has_whole_answers(load_point.records)
    queued, plain = (
        (request_figures.QUEUED_E2EL, "e2el")
        if whole
        else (request_figures.QUEUED_TTFT, "ttft")
    )
    sample = load_point.answered.get(queued if load_point.queued else plain)
    if sample is None or not sample.count:
        return P99TTFT(None, shown(None))
    value = sample.percentile(99) / 1000
    mark = UNCERTAIN if not is_bounded(sample, 99) else ""
    queue = " with queue" if load_point.expected.load.capped else ""
    of = " E2EL" if whole else ""
    return P99TTFT(value, f"{shown(value)}{mark} ms{of}{queue}")


def shown(value: float | None) -> str:
    """Return a figure with three digits, or with all digits of its whole part.

    Examples are 812, 81.2, 8.12 and 12345; None becomes "-".
    """
    if value is None:
        return "-"
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f}"


# A record takes hundreds of bytes a request while it is open, and a judged load point a few
# thousand in all. So load points are judged one after the other, and only the records of one are
# open at a time.


class JudgedLoadPoint(NamedTuple):
    """A judged load point, without its records."""

    summary: Sequence[StageSummary]
    """Summaries of the stages, for the rules of the run and for searches."""
    seen: Sequence[StageFinding]  # Findings before the severities of the spec.
    # By its own findings, with the severities of the spec; `row` adds what only the run shows.
    row: api.Result
    p99_ttft: P99TTFT  # The p99 TTFT for the headline.
    explained_by: (
        Seen  # What the explanation rests on; empty: nothing was measured.
    )
    stages: Sequence[StageResult]
    distributions: PooledDistributions


def load_point_context(
    load_point: api.LoadPoint,
    records: Sequence[StageRecord],
    samples: Sequence[metrics_page.Sample],
    thresholds: Thresholds,
    *,
    spec: api.BenchmarkRunSpec,
    servers: Sequence[api.ServerStatus] = (),
) -> LoadPointContext:
    """Build what the rules get of a load point.

    `records` are those of the load point, in order of repeats. For the other arguments see
    `results`.
    """
    expected = expected_stage(spec, load_point)
    seconds = expected.scrape_interval_seconds
    windows = [
        stage_windows(record, samples, scrape_interval=seconds)
        for record in records
    ]
    stages = [
        StageFacts(r, expected, thresholds, of, servers)
        for r, of in zip(records, windows, strict=True)
    ]
    return LoadPointContext(
        load_point,
        thresholds,
        expected,
        spec.measurement.percentiles,
        tuple(stages),
        spec.objectives,
    )


@dataclass(frozen=True, slots=True)
class Judged:
    """All results of judging a run, before anything is cut to fit into the status."""

    results: list[api.Result] = field(default_factory=list)
    findings: list[api.Finding] = field(default_factory=list)
    verdict: api.Verdict = "Unknown"
    headline: api.Headline | None = None
    searches: list[api.SearchResult] = field(default_factory=list)
    until_decided: api.UntilDecided | None = None
    stages: list[StageResult] = field(default_factory=list)
    """The measured stages, in the order of measurement."""
    distributions: list[PooledDistributions] = field(default_factory=list)
    """The load points with measured stages, in the order of `results`."""


def results(
    plan_load_points: Sequence[api.LoadPoint],
    records: Sequence[StageRecord],
    samples: Sequence[metrics_page.Sample],
    *,
    spec: api.BenchmarkRunSpec,
    servers: Sequence[api.ServerStatus] = (),
    thresholds: Thresholds | None = None,
    unstored: Sequence[str] = (),
) -> Judged:
    """Judge these load points by these records.

    A load point that lacks a record is Invalid. Without any record at all, the verdict is Unknown
    and there are no rows.

    The records of a load point are read when it is judged and released afterwards, so `records` may
    be a sequence that opens each on access. `servers` has what the servers and their logs report,
    and where their pods were; it is empty if only the spec is known. `thresholds` None means those
    of the spec. `unstored` has the stages whose record is stored nowhere.
    """
    places = {record.stage_id: place for place, record in enumerate(records)}
    if not any(
        stage in places
        for load_point in plan_load_points
        for stage in load_point.stage_ids
    ):
        return Judged()
    limits = thresholds or thresholds_of(spec)
    severities = spec.validity.severities
    server_limits = _server_limits(spec, servers)
    cost = cost_status(spec.cost, servers)
    gpus = api.total_gpus(servers)

    def judged(load_point: api.LoadPoint) -> JudgedLoadPoint:
        of_load_point = [
            records[places[stage]]
            for stage in load_point.stage_ids
            if stage in places
        ]
        context = load_point_context(
            load_point, of_load_point, samples, limits, spec=spec, servers=servers
        )
        seen = [*judge_load_point(context), *unstored_records(load_point, unstored)]
        found_here = overridden(seen, severities)
        return JudgedLoadPoint(
            summary=context.summary(),
            seen=seen,
            row=measured_row(context, found_here, spec=spec, gpus=gpus),
            p99_ttft=p99_ttft(context),
            # Why requests waited does not depend on the severities of the spec.
            explained_by=seen_at(context, seen, server_limits)
            if of_load_point
            else {},
            stages=stage_results(
                context, found_here, samples, spec=spec, cost=cost
            ),
            distributions=pooled_distributions(context, found_here),
        )

    by_load_point = {
        load_point.id: judged(load_point) for load_point in plan_load_points
    }
    summaries = {
        load_point_id: each.summary for load_point_id, each in by_load_point.items()
    }
    priced = {
        load_point_id: with_costs(with_throughput_per_gpu(each.row, gpus), cost)
        for load_point_id, each in by_load_point.items()
    }
    of_run = judge_run(RunContext(limits, summaries))
    seen = {
        load_point_id: [
            *each.seen,
            *(f for f in of_run if f.stage_id == load_point_id),
            *judge_row(priced[load_point_id], spec.validity.user_rules),
        ]
        for load_point_id, each in by_load_point.items()
    }
    found = {
        load_point_id: overridden(each, severities)
        for load_point_id, each in seen.items()
    }
    seen_by_load_point = {
        load_point_id: each.explained_by
        for load_point_id, each in by_load_point.items()
        if each.explained_by
    }
    trusted = {
        load_point_id
        for load_point_id, of_load_point in found.items()
        if verdict_of_findings(of_load_point) != "Invalid"
    }
    explained = explanations(seen_by_load_point, trusted=trusted)
    completed = [
        row(each, found[load_point_id], explained.get(load_point_id))
        for load_point_id, each in priced.items()
    ]
    rows = _answered(completed, spec, summaries, servers, limits)
    findings = aggregate(
        finding for of_load_point in found.values() for finding in of_load_point
    )
    searches = search_results(spec, plan_load_points, summaries, rows)
    relied_on = deciding(rows, searches)
    verdict = api.worst_verdict(each.verdict for each in relied_on) or "Unknown"
    best = headline(
        relied_on, lambda load_point_id: by_load_point[load_point_id].p99_ttft
    )
    stages = [stage for each in by_load_point.values() for stage in each.stages]
    return Judged(
        results=rows,
        findings=findings,
        verdict=verdict,
        headline=best,
        searches=searches,
        until_decided=until_decided(
            spec, rows, summaries, stages, gpus=api.total_gpus(servers)
        ),
        stages=sorted(stages, key=lambda stage: stage.sequence),
        distributions=[
            each.distributions for each in by_load_point.values() if each.stages
        ],
    )


def _answered(
    rows: Sequence[api.Result],
    spec: api.BenchmarkRunSpec,
    summaries: Mapping[str, Sequence[StageSummary]],
    servers: Sequence[api.ServerStatus],
    limits: Thresholds,
) -> list[api.Result]:
    """Return the rows with the explanations that need the whole run.

    They say which prompts were sent before, and which repeats to use.
    """
    stages = {
        load_point_id: [s.stage_id for s in of_load_point]
        for load_point_id, of_load_point in summaries.items()
    }
    every = [
        stage for of_load_point in summaries.values() for stage in of_load_point
    ]
    last = max(every, key=lambda stage: stage.sequence)
    begun = beginnings(
        spec, last=last.stage_id, block_tokens=block_tokens_of(spec.engine, servers)
    )
    told = with_beginnings(rows, begun, stages)
    earlier = earlier_load_points(begun, stages)
    return with_limit_told_once(with_true_runs(told, servers, limits, earlier))


def _server_limits(
    spec: api.BenchmarkRunSpec, servers: Sequence[api.ServerStatus]
) -> Limits:
    by_role = {server.role: server for server in servers}
    split = spec.server is not None and spec.server.disaggregated is not None
    roles = (
        (ROLE_PREFILL, ROLE_DECODE) if split else tuple(by_role) or (ROLE_SERVER,)
    )
    limits = {}
    for role in roles:
        args = spec.started.words_of(role) if spec.started is not None else None
        reported, tokens = (
            (by_role[role].reported, by_role[role].kv_cache_tokens)
            if role in by_role
            else (None, None)
        )
        limits[role] = server_pressure.server_limits(
            args, spec.engine, reported, kv_cache_tokens=tokens
        )
    return limits
