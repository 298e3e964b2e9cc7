"""Compare two groups of runs, load point by load point, or a run with its baseline.

All hypotheses of a comparison are corrected together for multiple testing.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from statistics import fmean
from typing import NamedTuple

from benchrun_client.contract import MIN_REPEATS, kind_of

from benchrun import api
from benchrun.judge.comparison import comparability, settings
from benchrun.judge.comparison.comparability import (
    MeasuredRun,
    Side,
    load_point_obstacle,
    obstacle,
)
from benchrun.judge.comparison.figures import (
    figure_of,
    rows_at,
    sentence,
    start_figure,
    throughput_at,
)
from benchrun.judge.comparison.gate import HERE, answer, gate, undecided_values
from benchrun.judge.comparison.hypotheses import (
    MOST_PERCENT,
    Hypothesis,
    answers,
    family_error,
)
from benchrun.judge.comparison.prices import (
    Kind,
    Values,
    price_of,
    values_of_change,
)
from benchrun.judge.explain import bottleneck
from benchrun.judge.explain.waiting import percent
from benchrun.judge.throughput import compared_figure
from benchrun.measure import log_ratio_percent, response_to_load
from benchrun.names import ROLE_GATEWAY
from benchrun.observe import Run
from benchrun.plan import COMPILE_CLAIM


class Compared(NamedTuple):
    """Result of a comparison, with the field names of the status."""

    scope: api.Scope | None
    outcome: api.Outcome
    gate: api.Gate | None
    message: str
    load_points: list[api.ComparedLoadPoint]
    detectable_percent: float | None
    """Smallest change, in percent, that the comparison would find in its noisiest figure with a
    probability of 80 %."""
    # Result of the gate; empty without a gate.
    answer: str = ""
    gate_price: api.Price | None = None
    settings: Sequence[api.ComparedSetting] = ()
    """How the servers of the sides compare. `message` begins with what differs."""


_ONE_SERVER = (
    "This holds for these two servers only; to compare the configurations, measure two or more "
    "servers a side (a sweep, or lists of runs in `benchrun compare`)"
)
_OPT_IN = (
    ", or say that one is enough (spec.baseline.oneServerIsEnough: "
    "true, --one-server-is-enough)"
)


def compare(
    baseline: Side,
    candidate: Side,
    *,
    metrics: Sequence[api.ComparedMetric],
    max_regression_percent: float | None = None,
    equivalence_percent: float = float(api.DEFAULT_EQUIVALENCE_PERCENT),
    one_server_is_enough: bool = False,
) -> Compared:
    """Compare the candidate with the baseline.

    Each side has one or more runs; several runs of a side are fresh servers of the same definition.
    With `one_server_is_enough`, the regression gate may pass with a single server on each side.
    """
    reason = obstacle(baseline, candidate)
    sides = comparability.servers_of(baseline, candidate)
    alike = settings.compared_settings(sides)
    if reason is not None:
        refused = not_comparable(reason, gated=max_regression_percent is not None)
        return refused._replace(settings=alike)
    differing = _before_all(settings.in_words(alike, settings.names_of(sides)))
    runs = (*baseline, *candidate)
    ids = dict.fromkeys(
        row.load_point for run in runs for row in run.status.results
    )
    of_load = [metric for metric in metrics if metric != api.TIME_TO_READY]
    asked = []
    for load_point in ids if of_load else ():
        hypotheses = load_point_obstacle(
            load_point, baseline, candidate
        ) or hypotheses_at(load_point, baseline, candidate, of_load)
        asked.append(Pair(load_point, baseline, candidate, hypotheses))
    if api.TIME_TO_READY in metrics:
        asked.append(start_pair(baseline, candidate))
    load_points = compared_load_points(
        asked, equivalence_percent=equivalence_percent
    )
    # Several runs at one endpoint have met one and the same server.
    fresh = (
        len(baseline) > 1
        and len(candidate) > 1
        and _are_started(baseline, candidate)
    )
    scope: api.Scope = "BetweenServers" if fresh else "WithinOneServer"
    outcome = outcome_of(load_points)
    suspects = {
        row.load_point
        for run in runs
        for row in run.status.results
        if row.verdict == "Suspect"
    }
    suspect = sum(load_point.load_point in suspects for load_point in load_points)
    least = detectable(asked)
    caveats = comparability.caveats(baseline, candidate)
    message = sentence(
        load_points,
        scope,
        suspect=suspect,
        caveats=caveats,
        detectable_percent=least,
    )
    found = Compared(
        scope if outcome != "NotComparable" else None,
        outcome,
        None,
        differing + message,
        load_points,
        least,
        settings=alike,
    )
    if max_regression_percent is None:
        return found
    required = [
        (
            each.load_point,
            None if isinstance(each.hypotheses, str) else each.hypotheses,
        )
        for each in asked
        if each.load_point == api.STARTUP
        or any(run.row(each.load_point) for run in baseline)
    ]
    word, why = gate(required, max_regression_percent=max_regression_percent)
    word = word if fresh else HERE.get(word, word)
    price = (
        _gate_price(
            required,
            baseline,
            candidate,
            max_regression_percent=max_regression_percent,
            one_server_is_enough=one_server_is_enough,
        )
        if word in ("Underpowered", "Inconclusive")
        or (word == "NotRegressedHere" and not one_server_is_enough)
        else None
    )
    begin = answer(
        word, why, one_server_is_enough=one_server_is_enough, price=price
    )
    advice = ""
    if word in HERE.values():
        may_opt_in = word == "NotRegressedHere" and not one_server_is_enough
        advice = f"{_ONE_SERVER}{_OPT_IN if may_opt_in else ''}. "
    return found._replace(
        gate=word,
        answer=begin,
        message=f"{differing}{begin}. {advice}{message}",
        gate_price=price,
    )


def _gate_price(
    required: Sequence[tuple[str, Sequence[Hypothesis] | None]],
    baseline: Side,
    candidate: Side,
    *,
    max_regression_percent: float,
    one_server_is_enough: bool,
) -> api.Price | None:
    """Return what would decide a gate that is not decided; None if that is not known.

    Of one server a side, where one is not enough, nothing shows yet how servers differ.
    """
    kind = _kind(baseline, candidate)
    is_assumed = kind == "repeats" and not one_server_is_enough
    if is_assumed and not _are_started(baseline, candidate):
        return None
    count = undecided_values(
        required,
        max_regression_percent=max_regression_percent,
        is_assumed=is_assumed,
    )
    values = (
        None if count is None else Values(count, "servers" if is_assumed else kind)
    )
    return price_of(values, baseline, candidate)


def _kind(before: Side, after: Side) -> Kind:
    """Return what more values are measured on: with one run a side on its repeats."""
    return (
        "repeats" if len(before) == len(after) == 1 else _whole_runs(before, after)
    )


def _whole_runs(before: Side, after: Side) -> Kind:
    """Return what more runs a side are: fresh servers, but at an endpoint the same server again."""
    return "servers" if _are_started(before, after) else "runs"


def _are_started(*sides: Side) -> bool:
    """Return whether every run started its server; an endpoint is one and the same server."""
    return all(run.spec.started is not None for side in sides for run in side)


def _before_all(parts: Sequence[str]) -> str:
    """Join these texts to sentences that stand before a message."""
    return "".join(f"{part[0].upper()}{part[1:]}. " for part in parts)


def not_comparable(reason: str, *, gated: bool) -> Compared:
    """Build the result of a comparison that could not be made.

    If the run is `gated`, the gate is Inconclusive, which does not pass.
    """
    message = f"not comparable: {reason}"
    if not gated:
        return Compared(None, "NotComparable", None, message, [], None)
    begin = answer("Inconclusive", message, one_server_is_enough=False)
    return Compared(None, "NotComparable", "Inconclusive", begin, [], None, begin)


def outcome_of(load_points: Sequence[api.ComparedLoadPoint]) -> api.Outcome:
    """Combine all changes into one outcome.

    If a change is unknown, the outcome can still be Better or Worse, but not that nothing changed.
    """
    words: Counter[str] = Counter(
        change.word for load_point in load_points for change in load_point.changes
    )
    if words["Better"] and words["Worse"]:
        return "Mixed"
    order: tuple[api.Outcome, ...] = (
        "Worse",
        "Better",
        "Unknown",
        "NoDetectableDifference",
        "Equivalent",
    )
    return next((word for word in order if words[word]), "NotComparable")


class Pair(NamedTuple):
    """A load point with the rows that both sides have for it."""

    load_point: str
    before: Side
    after: Side
    hypotheses: list[Hypothesis] | str
    """The hypotheses to test, or why the load point may not be compared."""


NO_CACHE = "none"


def _compile_caches(run: MeasuredRun) -> set[str]:
    """Return how the servers found the claim for compiled code (Warm, Cold), each word once."""
    started = run.spec.started
    claim = None if started is None else started.compile_cache_claim
    return {
        server.startup.compiled
        or ("not known" if claim or COMPILE_CLAIM in server.defaults else NO_CACHE)
        for server in run.status.servers
        if server.startup is not None
    }


def start_pair(before: Side, after: Side) -> Pair:
    """Build the hypothesis on the start of the servers."""
    alone = next(
        (run for run in (*before, *after) if run.spec.started is None), None
    )
    if alone is not None:
        reason = f"{alone.name} measured an endpoint, which it did not start"
        return Pair(api.STARTUP, before, after, reason)
    kinds = {
        kind: run.name for run in (*before, *after) for kind in _compile_caches(run)
    }
    # Without a cache a server compiles, as it does beside a cold one; what is not known may be
    # either.
    if len(kinds) > 1 and kinds.keys() != {"Cold", NO_CACHE}:
        said = ", ".join(f"{kind} in {name}" for kind, name in kinds.items())
        return Pair(api.STARTUP, before, after, f"compile cache: {said}"[:300])
    figures = start_figure(before), start_figure(after)
    return Pair(
        api.STARTUP, before, after, [Hypothesis(api.TIME_TO_READY, *figures)]
    )


def hypotheses_at(
    load_point: str,
    before: Side,
    after: Side,
    metrics: Iterable[api.ComparedMetric],
) -> list[Hypothesis]:
    """Build one hypothesis for each of these metrics at a load point.

    If answers came as a whole on both sides, metrics that such answers do not have are left out,
    unless these are all.
    """
    one = rows_at(load_point, before)
    other = rows_at(load_point, after)
    rows = (*one, *other)
    asked = list(metrics)
    if rows and all(row.has_whole_answers for row in rows):
        asked = [
            metric
            for metric in asked
            if any(row.figure(api.KEYS[metric]) is not None for row in rows)
        ] or asked
    return [
        Hypothesis(
            m,
            figure_of(m, load_point, before, other),
            figure_of(m, load_point, after, one),
        )
        for m in asked
    ]


def compared_load_points(
    asked: Sequence[Pair],
    *,
    equivalence_percent: float = float(api.DEFAULT_EQUIVALENCE_PERCENT),
) -> list[api.ComparedLoadPoint]:
    """Test the hypotheses of all pairs together, and return one compared load point a pair.

    The load points are in the order of the pairs.
    """
    changes = iter(answers(_all(asked), equivalence_percent=equivalence_percent))
    error = family_error(_all(asked))
    margin = math.log1p(equivalence_percent / 100)
    load_points = []
    for load_point, before, after, hypotheses in asked:
        if isinstance(hypotheses, str):
            load_points.append(
                api.ComparedLoadPoint(load_point=load_point, reason=hypotheses)
            )
            continue
        found = [
            _priced(hypothesis, next(changes), before, after, error, margin)
            for hypothesis in hypotheses
        ]
        throughput_of = (
            None
            if load_point == api.STARTUP
            else throughput_at(load_point, (*before, *after))
        )
        # Paired: each run of one side has one of the other that sent the same.
        sent, same = (
            sorted(run.traffic(load_point) or "" for run in side)
            for side in (before, after)
        )
        is_paired = "" not in sent and sent == same
        load_points.append(
            api.ComparedLoadPoint(
                load_point=load_point,
                paired=is_paired,
                throughput_of=throughput_of,
                changes=found,
            )
        )
    return load_points


def _priced(
    hypothesis: Hypothesis,
    change: api.Change,
    before: Side,
    after: Side,
    error: float,
    margin: float,
) -> api.Change:
    """Return the change with what would decide it, if it is undecided and that is known."""
    count = values_of_change(hypothesis, change, error=error, margin=margin)
    if count is None:
        return change
    of_start = hypothesis.metric == api.TIME_TO_READY
    few = change.word == "Unknown" and count > MIN_REPEATS
    take = _whole_runs if of_start or few else _kind
    kind = take(before, after)
    price = price_of(Values(count, kind), before, after)
    return change.model_copy(update={"price": price})


def _all(asked: Sequence[Pair]) -> list[Hypothesis]:
    return [
        hypothesis
        for each in asked
        if not isinstance(each.hypotheses, str)
        for hypothesis in each.hypotheses
    ]


def detectable(asked: Sequence[Pair]) -> float | None:
    """Return the least change that is found with 80 % probability in the noisiest figure.

    It is in percent, and assumes the measured noise. Return None if no noise is known.
    """
    hypotheses = _all(asked)
    error = family_error(hypotheses)
    shifts = [
        shift
        for hypothesis in hypotheses
        if (shift := hypothesis.detectable(error=error)) is not None
    ]
    return (
        float(f"{min(log_ratio_percent(max(shifts)), MOST_PERCENT):.3g}")
        if shifts
        else None
    )


# Only a load that keeps the server supplied shows a limit: under a rate, throughput is that of the
# arrivals whatever runs.

KV_NEARLY_FULL_PERCENT = 95.0
MIN_WAITING = 1.0
"""Least mean number of requests waiting in the server at which a late client can be ignored. With
fewer, the client may have left the server without work."""


def limits(
    baseline: Side,
    candidate: Side,
    at: Iterable[api.ComparedLoadPoint],
    *,
    names: Sequence[str] = ("baseline", "candidate"),
) -> dict[str, api.Bottleneck]:
    """Return, by load point, the bottlenecks that only a comparison of the two sides shows.

    Most load points have none. Load points that are not comparable never have one.
    """
    both = (*baseline, *candidate)
    found = {}
    for each in (load_point for load_point in at if load_point.reason is None):
        points = [
            _point(name, each.load_point, side, both)
            for name, side in zip(names, (baseline, candidate), strict=True)
        ]
        pairs = response_to_load.comparisons([p for p in points if p is not None])
        is_reversed = bool(pairs) and pairs[0].low.name != names[0]
        if (
            pairs
            and (limit := _limit_of(pairs[0], each, is_reversed=is_reversed))
            is not None
        ):
            found[each.load_point] = limit
    return found


def _may_grow(
    pair: response_to_load.OperatingPointPair,
    load_point: api.ComparedLoadPoint,
    *,
    is_reversed: bool,
) -> bool:
    """Return whether noise may hide that throughput grows with the number of running requests.

    If the change has an interval, the interval decides. `is_reversed` means that more requests ran
    in the baseline.
    """
    change = next(
        (c for c in load_point.changes if c.metric == "OutputThroughput"), None
    )
    end = (
        None
        if change is None
        else change.low_percent
        if is_reversed
        else change.high_percent
    )
    if end is None:
        return False
    ratio = 1 + end / 100
    if is_reversed:
        ratio = 1 / ratio if ratio > 0 else math.inf
    return ratio >= pair.growing_ratio


def _limit_of(
    pair: response_to_load.OperatingPointPair,
    load_point: api.ComparedLoadPoint,
    *,
    is_reversed: bool,
) -> api.Bottleneck | None:
    """Return the bottleneck that two operating points show, or None.

    Compute is the limit if the point with more running requests has the same throughput, within
    `FLAT_PERCENT`. KV memory is the limit if throughput grew and the KV cache is nearly full. The
    result is None if throughput fell, because then the difference between the sides did harm, or if
    noise may hide that throughput grew. `is_reversed` means that more requests ran in the baseline.
    """
    if abs(pair.change_percent) <= response_to_load.FLAT_PERCENT and _may_grow(
        pair, load_point, is_reversed=is_reversed
    ):
        return None
    if abs(pair.change_percent) <= response_to_load.FLAT_PERCENT:
        ends = [
            (c.low_percent, c.high_percent)
            for c in load_point.changes
            if c.metric == "OutputThroughput"
        ]
        span = "".join(
            f"; output: {low:+.1f} to {high:+.1f} %"
            for low, high in ends
            if None not in (low, high)
        )
        return bottleneck.throughput_is_flat(
            pair, f"from {pair.low.name} to {pair.high.name}", span
        )
    usage = pair.high.kv_percent
    if not pair.grows or usage is None or usage < KV_NEARLY_FULL_PERCENT:
        return None
    sentence = (
        f"{bottleneck.growth(pair)}, where KV cache usage is {percent(usage)}: KV memory is the "
        "limit."
    )
    return bottleneck.bottleneck_of(
        "KVMemory", sentence, bottleneck.pair_evidence(pair)
    )


def _point(
    name: str, load_point: str, side: Side, both: Side
) -> response_to_load.OperatingPoint | None:
    """Return the operating point of one side: requests running, tokens a second, KV cache usage.

    Return None if a run of the side lacks one of these figures. Also return None if users think
    before they send again, because the server may be idle meanwhile.
    """
    workloads = [run.workload(load_point.partition("/")[0]) for run in side]
    if any(
        workload is not None and workload.load.think_seconds
        for workload in workloads
    ):
        return None
    among = [row for run in both if (row := run.row(load_point)) is not None]
    rows = [row for run in side if (row := run.row(load_point)) is not None]
    points = [point for row in rows if (point := _of_row(row, among)) is not None]
    if len(points) != len(side):
        return None
    usage = [point.kv_percent for point in points if point.kv_percent is not None]
    running = fmean(point.running for point in points)
    throughput = fmean(point.throughput for point in points)
    return response_to_load.OperatingPoint(
        name, running, throughput, max(usage, default=None)
    )


def _of_row(
    row: api.Result, among: Sequence[api.Result]
) -> response_to_load.OperatingPoint | None:
    # What runs in one role of several says nothing beside a whole server.
    throughput = compared_figure(row, "total_token_throughput", among=among)
    servers = [each for each in row.roles if each.role != ROLE_GATEWAY]
    server = servers[0] if len(servers) == 1 else None
    if server is None or server.running_mean is None or throughput is None:
        return None
    is_supplied = not kind_of(row.axis, row.value).is_open
    completed = row.metrics.get("completed") or 0
    preemptions = server.preemptions or 0
    works_twice = 100 * preemptions > bottleneck.MAX_PREEMPTED_PERCENT * completed
    is_starved = (
        api.Code.CLIENT_SATURATED in row.findings
        and (server.waiting_mean or 0.0) < MIN_WAITING
    )
    if not is_supplied or works_twice or is_starved:
        return None
    return response_to_load.OperatingPoint(
        row.load_point, server.running_mean, throughput, server.kv_cache_max_percent
    )


_CONDITION: dict[str | None, tuple[api.ConditionStatus, str]] = {
    "NotRegressed": ("True", api.Reason.NOT_REGRESSED),
    "Regressed": ("False", api.Reason.REGRESSED),
    "NotRegressedHere": ("Unknown", api.Reason.ONE_SERVER_A_SIDE),
    "RegressedHere": ("False", api.Reason.REGRESSED_HERE),
    "Underpowered": ("Unknown", api.Reason.UNDERPOWERED),
    "Inconclusive": ("Unknown", api.Reason.INCONCLUSIVE),
}
_ENDED = "1970-01-01T00:00:00Z"
"""Provisional end time of a run that is compared before it has one; the value does not matter."""


class AgainstBaseline(NamedTuple):
    """Result of comparing a run with its baseline."""

    comparison: api.Comparison  # With every load point and change.
    not_regressed: api.ConditionStatus
    reason: str  # Reason of that condition.
    answer: str  # What the gate found, in a sentence.


def against_baseline(
    after: MeasuredRun,
    baseline: api.Baseline,
    found: Run | None,
    document: api.ResultDocument | None = None,
) -> AgainstBaseline:
    """Compare a judged run with its baseline.

    `after` is the run with its results before any were cut. `found` is the baseline, or None if
    there is no such run. `document` is the baseline's result document; without one its status is
    compared.
    """
    before = None
    compared_with = api.ComparedRun(name=baseline.name)
    if found is not None:
        with suppress(ValueError):
            before = comparability.measured_run(found, document)
        compared_with = api.ComparedRun(
            name=baseline.name,
            uid=found.uid,
            digest=comparability.results_digest(before) if before else None,
        )
    compared = _compared(after, baseline, before, exists=found is not None)
    condition, reason = _CONDITION[compared.gate]
    if compared.gate == "NotRegressedHere" and baseline.one_server_is_enough:
        condition = "True"
        reason = api.Reason.NOT_REGRESSED_HERE
    comparison = api.Comparison(
        baseline=compared_with,
        scope=compared.scope,
        outcome=compared.outcome,
        gate=compared.gate,
        detectable_percent=compared.detectable_percent,
        gate_price=compared.gate_price,
        message=api.sentence(compared.message),
        settings=list(compared.settings),
        load_points=compared.load_points,
    )
    return AgainstBaseline(comparison, condition, reason, compared.answer)


def judged_side(
    name: str,
    uid: str,
    spec: api.BenchmarkRunSpec,
    rows: list[api.Result],
    *,
    servers: Sequence[api.ServerStatus],
    client: api.ClientStatus | None,
    instants: api.RunInstants,
) -> MeasuredRun:
    """Build a side of a comparison from a run that was judged just now."""
    status = api.BenchmarkRunStatus(
        **instants.model_dump(),
        completion_time=_ENDED,
        servers=list(servers),
        client=client,
        results=rows,
    )
    return MeasuredRun(name, uid, spec, status)


def _compared(
    after: MeasuredRun,
    baseline: api.Baseline,
    before: MeasuredRun | None,
    *,
    exists: bool,
) -> Compared:
    if before is None:
        why = (
            f"{baseline.name} was written by another version of benchrun: run the baseline again"
            if exists
            else f"spec.baseline.name: no run {baseline.name} exists in the namespace"
        )
        return not_comparable(why, gated=True)
    allowed = float(baseline.max_regression_percent)
    least = float(baseline.equivalence_percent)
    metrics = baseline.metrics
    try:
        return compare(
            [before],
            [after],
            metrics=metrics,
            max_regression_percent=allowed,
            equivalence_percent=least,
            one_server_is_enough=baseline.one_server_is_enough,
        )
    except (ArithmeticError, ValueError):
        return not_comparable(
            f"the figures of {baseline.name} are out of range", gated=True
        )
