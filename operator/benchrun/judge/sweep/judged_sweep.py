"""Build the table of a sweep: every variant at every load point, against the baseline.

All changes in the table are corrected together for multiple testing, as in a comparison of two
runs: the probability of any false outcome stays at 5 %.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import chain
from statistics import fmean, geometric_mean

from benchrun import api
from benchrun.api import HIGHER_IS_BETTER, PER_GPU, worst_verdict
from benchrun.api.sweep import (
    MAX_BEST,
    MAX_FRONT,
    MAX_ROWS,
    BenchmarkSweepSpec,
    FoundLoad,
    SweepRow,
    SweepTable,
    TabledRun,
)
from benchrun.judge.comparison import settings
from benchrun.judge.comparison.comparability import (
    MeasuredRun,
    differences,
    load_point_obstacle,
    obstacle,
    servers_of,
)
from benchrun.judge.comparison.compare import (
    Pair,
    compared_load_points,
    detectable,
    hypotheses_at,
    limits,
    outcome_of,
    start_pair,
)
from benchrun.judge.comparison.figures import figure_of, start_figure, throughput_at
from benchrun.judge.explain.profile import profiled_row, with_profile
from benchrun.judge.status_size import (
    cut_to,
    json_bytes,
    truncations,
    without_changes,
)
from benchrun.judge.sweep.best import (
    Side,
    are_per_gpu,
    best_variants,
    contenders,
    pareto_front,
)
from benchrun.measure import ANSWERED_PERCENT, known, rounded
from benchrun.plan import Variant, block_of, in_block, load_points, planned_variants

SHOWN: tuple[api.ComparedMetric, ...] = (
    *api.DEFAULT_METRICS,
    "TotalTokenThroughput",
)
OF_A_SPLIT_FIRST: tuple[api.ComparedMetric, ...] = ("MeanTTFT", "MeanE2EL")
ONE_LEFT = "each side has only one measured run; comparing servers takes at least two runs a side"


def table(
    sides: Sequence[Side],
    *,
    baseline: str,
    planned: Sequence[str],
    replications: int,
    missing: Mapping[str, str],
    starts: bool = False,
) -> SweepTable:
    """Build the table of a sweep: its rows, scope and outcomes.

    Planned load points are rows of every variant. A load that only a search has tried is a row of
    the variants that tried it. `missing` says, by variant, why it has no figures. With `starts`
    there is a row for the start of each variant's servers, too.
    """
    load_points = load_points_of(sides, planned)
    asked_at = [*load_points, *((api.STARTUP,) if starts else ())]
    base = next(side for side in sides if side.variant.name == baseline)
    pairs = [
        (side, load_point)
        for side in sides
        if side is not base
        for load_point in asked_at
    ]
    asked = [
        _asked(base, side, load_point, replications=replications)
        for side, load_point in pairs
    ]
    compared = {
        (side.variant.name, found.load_point): found
        for (side, _), found in zip(pairs, compared_load_points(asked), strict=True)
    }
    shown = [
        (side, load_point)
        for side in sides
        for load_point in load_points
        if load_point in planned or side.at(load_point)
    ]
    per_gpu = are_per_gpu(sides)
    rows = [
        _row(
            base,
            side,
            load_point,
            compared.get((side.variant.name, load_point)),
            missing,
            per_gpu=per_gpu,
        )
        for side, load_point in shown
    ]
    if starts:
        rows += [
            _start_row(
                side, compared.get((side.variant.name, api.STARTUP)), missing
            )
            for side in sides
        ]
    notes = {
        side.variant.name: _note(base, side) for side in sides if side is not base
    }
    rows = [
        r.model_copy(update={"reason": notes.pop(r.variant)})
        if r.changes and notes.get(r.variant)
        else r
        for r in rows
    ]
    outcomes = {
        side.variant.name: outcome_of(
            [compared[side.variant.name, load_point] for load_point in asked_at]
        )
        for side in sides
        if side is not base and side.runs
    }
    scope: api.Scope | None = (
        "BetweenServers" if replications > 1 else "WithinOneServer"
    )
    return SweepTable(
        results=rows,
        scope=scope
        if any(load_point.changes for load_point in compared.values())
        else None,
        detectable_percent=detectable(asked),
        outcomes=outcomes,
        settings={
            side.variant.name: _settings(base, side)
            for side in sides
            if side is not base
        },
    )


def _asked(base: Side, side: Side, load_point: str, *, replications: int) -> Pair:
    """Build the pair of sides to compare at a load point.

    The pair has a hypothesis for each metric that either side has. If a server is split into roles,
    TTFT and E2EL come first, because they show whether the split pays. If the sides can't be
    compared, the pair has the reason instead of hypotheses.
    """
    before = base.runs_at(load_point)
    after = side.runs_at(load_point)
    if load_point == api.STARTUP:
        before, after = base.runs, side.runs
    if (
        reason := _reason(base, side, load_point, replications=replications)
    ) is not None:
        return Pair(load_point, before, after, reason[:300])
    if load_point == api.STARTUP:
        return start_pair(before, after)
    servers = [each.variant.spec.server for each in (base, side)]
    is_split = any(
        server is not None and server.disaggregated is not None
        for server in servers
    )
    metrics = (
        *(OF_A_SPLIT_FIRST if is_split else ()),
        *api.swept_metrics(min(len(before), len(after))),
    )
    questions = hypotheses_at(load_point, before, after, dict.fromkeys(metrics))
    known = [
        each
        for each in questions
        if each.baseline.value is not None or each.candidate.value is not None
    ]
    return Pair(load_point, before, after, known)


def _reason(
    base: Side, side: Side, load_point: str, *, replications: int
) -> str | None:
    if not side.runs:
        return "no run was measured to its end"
    if not base.runs:
        return f"the baseline {base.variant.name} has no run that was measured to its end"
    before = base.runs_at(load_point) or base.runs
    after = side.runs_at(load_point) or side.runs
    reason = obstacle(before, after, swept=True)
    if reason is None and load_point != api.STARTUP:
        reason = load_point_obstacle(load_point, before, after)
    if reason is None and replications > 1 and len(after) == 1:
        return ONE_LEFT
    return reason


def _note(base: Side, side: Side) -> str | None:
    """Return how the sides differ besides what the sweep varies, or None.

    The table shows this note once for each variant, at its first load point with changes.
    """
    comparable = (
        base.runs
        and side.runs
        and obstacle(base.runs, side.runs, swept=True) is None
    )
    if not comparable:
        return None
    names = (base.variant.name, side.variant.name)
    told = settings.in_words(_settings(base, side), names)
    return "; ".join((*told, *differences(base.runs, side.runs)))[:300]


def _settings(base: Side, side: Side) -> list[api.ComparedSetting]:
    """Return what differs between the servers of two variants, or is known of one of them only."""
    if not (base.runs and side.runs):
        return []
    found = settings.compared_settings(servers_of(base.runs, side.runs))
    return [each for each in found if each.word == "Differs" or each.is_half_known]


def _row(
    base: Side,
    side: Side,
    load_point: str,
    compared: api.ComparedLoadPoint | None,
    missing: Mapping[str, str],
    *,
    per_gpu: bool,
) -> SweepRow:
    found = side.at(load_point)
    if not found:
        reason = missing.get(side.variant.name, "not measured")
        return SweepRow(
            variant=side.variant.name,
            load_point=load_point,
            verdict="Unknown",
            reason=reason[:300],
        )
    left_out = len(side.runs) - len(found)
    doubt: tuple[api.Verdict, ...] = ("Suspect",) if left_out else ()
    return SweepRow(
        variant=side.variant.name,
        load_point=load_point,
        runs=len(found),
        left_out=left_out,
        metrics=_metrics(side, load_point, per_gpu=per_gpu),
        throughput_of=throughput_at(load_point, side.runs_at(load_point)),
        changes=_changes(base, side, compared) if compared else [],
        paired=compared is not None and compared.paired,
        limit=None if compared is None else _limit(base, side, compared),
        verdict=worst_verdict((*(row.verdict for _, row in found), *doubt))
        or "Unknown",
        reason=None if compared is None else compared.reason,
    )


def _start_row(
    side: Side, compared: api.ComparedLoadPoint | None, missing: Mapping[str, str]
) -> SweepRow:
    """Build the row of the start of a variant's servers."""
    figure = start_figure(side.runs) if side.runs else None
    value = None if figure is None else rounded(figure.value)
    reason = (
        missing.get(side.variant.name, "not measured")
        if figure is None
        else (compared and compared.reason)
        or (figure.problem if value is None else None)
    )
    bare = {"baseline": None, "value": None}
    changes = [] if compared is None else compared.changes
    return SweepRow(
        variant=side.variant.name,
        load_point=api.STARTUP,
        runs=len(side.runs),
        metrics={} if value is None else {api.KEYS[api.TIME_TO_READY]: value},
        changes=[each.model_copy(update=bare) for each in changes],
        verdict="Unknown" if value is None else "Valid",
        reason=None if reason is None else reason[:300],
    )


def _changes(
    base: Side, side: Side, compared: api.ComparedLoadPoint
) -> list[api.Change]:
    """Return the changes without the values of both sides, which the rows show as metrics.

    A throughput keeps its values if the comparison took them from another part of the stage than
    the rows.
    """
    shown = {
        throughput_at(compared.load_point, each.runs_at(compared.load_point))
        for each in (base, side)
    }
    kept = () if shown == {compared.throughput_of} else HIGHER_IS_BETTER
    bare = {"baseline": None, "value": None}
    return [
        each if each.metric in kept else each.model_copy(update=bare)
        for each in compared.changes
    ]


def _limit(
    base: Side, side: Side, compared: api.ComparedLoadPoint
) -> api.Bottleneck | None:
    """Return the bottleneck that only both sides together show, or None.

    Its evidence is left out, because its sentence has the numbers. If the load point was profiled,
    the result is added to the sentence.
    """
    names = (base.variant.name, side.variant.name)
    load_point = compared.load_point
    found = limits(
        base.runs_at(load_point), side.runs_at(load_point), [compared], names=names
    ).get(load_point)
    for status in (
        run.status for run in side.runs_at(load_point) if found is not None
    ):
        row = profiled_row(status.results, status.profile)
        if (
            found is not None
            and status.profile is not None
            and row is not None
            and row.load_point == load_point
        ):
            found = with_profile(found, status.profile)
            break
    return None if found is None else found.model_copy(update={"evidence": {}})


def _metrics(
    side: Side, load_point: str, *, per_gpu: bool
) -> dict[str, float | None]:
    shown = dict.fromkeys(
        (*SHOWN, *api.swept_metrics(len(side.runs_at(load_point))))
    )
    figures = {
        api.KEYS[metric]: rounded(
            figure_of(metric, load_point, side.runs_at(load_point)).value
        )
        for metric in shown
    }
    throughput = figures[api.KEYS["OutputThroughput"]]
    if per_gpu and throughput is not None:
        figures[PER_GPU] = rounded(throughput / side.variant.gpus)
    answered = known(
        row.metrics.get(ANSWERED_PERCENT) for _, row in side.at(load_point)
    )
    figures[ANSWERED_PERCENT] = min(answered, default=None)
    of_all = {key: value for key, value in figures.items() if value is not None}
    return of_all | costs(side, load_point) | server_figures(side, load_point)


def _measured(
    variant: Variant, run: TabledRun, status: api.BenchmarkRunStatus
) -> MeasuredRun:
    """Build the measured run of a variant; its spec gets the seed of its replication."""
    block = block_of(run.name, sweep_variant=variant.number)
    return MeasuredRun(
        run.name, run.uid, in_block(variant.spec, block or 1), status, block
    )


def sweep_table(
    spec: BenchmarkSweepSpec,
    runs: Sequence[TabledRun],
    measured: Mapping[str, api.BenchmarkRunStatus],
    *,
    baseline: str,
    missing: Mapping[str, str],
    whole: bool = False,
) -> SweepTable:
    """Build the table of these runs, cut to fit a status unless it is to be `whole`.

    `measured` holds the statuses of finished runs, by uid. `missing` says, by variant, why it has
    no figures.

    Raises ValueError if the spec has no variants.
    """
    listed = planned_variants(spec)
    finished = [run for run in runs if run.uid in measured]
    sides = [
        Side(
            each,
            tuple(
                _measured(each, run, measured[run.uid])
                for run in finished
                if run.variant == each.name
            ),
        )
        for each in listed
    ]
    planned = [load_point.id for load_point in load_points(spec.template)]
    found = table(
        sides,
        baseline=baseline,
        planned=planned,
        replications=spec.replications,
        missing=missing,
        starts=spec.compare_startup,
    )
    able = contenders(sides, load_points_of(sides, planned))
    names = [variant.name for variant in listed]
    verdicts = {
        name: worst_verdict(
            row.verdict for row in found.results if row.variant == name and row.runs
        )
        for name in names
    }
    update = {
        "best": best_variants(able, spec.template.objectives),
        "front": pareto_front(able),
        "verdict": worst_verdict(row.verdict for row in found.results if row.runs),
        "verdicts": {
            name: verdict
            for name, verdict in verdicts.items()
            if verdict is not None
        },
        "searches": {side.variant.name: found_loads(side) for side in sides},
    }
    every = SweepTable.model_validate(dict(found) | update)
    return every if whole else fitted(every)


def load_points_of(sides: Sequence[Side], planned: Sequence[str]) -> list[str]:
    """Return the ids of all planned load points, then those that only searches measured."""
    measured = (
        row.load_point
        for side in sides
        for run in side.runs
        for row in run.status.results
    )
    return list(dict.fromkeys((*planned, *measured)))


def costs(side: Side, load_point: str) -> dict[str, float | None]:
    """Return the costs that every run of the side has at this load point.

    Each cost is the geometric mean over the runs, like the throughput from which it is computed.
    """
    rows = [row for _, row in side.at(load_point)]
    values = {
        key: known(row.metrics.get(key) for row in rows)
        for key in (*api.COSTS, api.TOKENS_PER_JOULE)
    }
    return {
        key: rounded(geometric_mean(found))
        for key, found in values.items()
        if found and len(found) == len(rows)
    }


def found_loads(side: Side) -> list[FoundLoad]:
    """Return the loads that searches found, one entry for each searched workload.

    An entry has one load for each run, or "none" for a run whose search found no load.
    """
    by_workload: dict[str, list[api.SearchResult]] = {}
    for run in side.runs:
        for search in run.status.searches:
            by_workload.setdefault(search.workload, []).append(search)
    return [
        FoundLoad(
            workload=workload,
            axis=found[0].axis,
            loads=[search.lower or "none" for search in found],
        )
        for workload, found in by_workload.items()
    ]


# The same figures as in a run's table, for the same reasons. Running and waiting requests are shown
# by their mean, since a peak does not describe a queue that comes and goes. KV cache usage is shown
# by its maximum, since it matters whether the cache was ever full. Means are arithmetic: the number
# of waiting requests is often 0, and nothing here is compared.


def server_figures(side: Side, load_point: str) -> dict[str, float | None]:
    """Return the server figures of a side at this load point.

    Each is the mean over the runs of the side, or the maximum (`api.SHOWN_FIGURES`). A figure that
    any run lacks is left out.
    """
    roles = [api.answering(row.roles) for _, row in side.at(load_point)]
    values = {
        name: [None if role is None else getattr(role, name) for role in roles]
        for name in api.SHOWN_FIGURES
    }
    return {
        name: rounded(
            (max if api.SHOWN_FIGURES[name].by == "max" else fmean)(of_all)
        )
        for name, found in values.items()
        if (of_all := known(found)) and len(of_all) == len(found)
    }


MAX_BYTES = 60_000
"""Most bytes of rows, best, front and searches together. This leaves 40 kB for variants with their
messages, and for conditions."""
_GIVEN_BY_OTHERS = (PER_GPU, api.KEYS["TotalTokenThroughput"], api.TOTAL_COST)
"""Figures that are dropped first, because the other figures and the spec give nearly the same."""


def fitted(whole: SweepTable, *, max_bytes: int = MAX_BYTES) -> SweepTable:
    """Cut a table to its share of the status.

    The cuts are made roughly in this order: changes, one outcome after the other; ties and
    undecided variants; figures; at last entries from the ends of the lists. `outcomes` keeps all
    outcomes.
    """

    def size(found: SweepTable) -> int:
        return json_bytes(
            [
                *found.results,
                *found.best,
                *found.front,
                *chain(*found.searches.values()),
                *chain(*found.settings.values()),
            ]
        )

    bounds = {"results": MAX_ROWS, "best": MAX_BEST, "front": MAX_FRONT}
    most = whole.model_copy(
        update={
            name: getattr(whole, name)[:bound] for name, bound in bounds.items()
        }
    )
    kept = cut_to(max_bytes, most, size=size, cuts=_CUTS, shorter=_shorter)
    # Metrics of rows that are left out are not counted.
    metrics = [
        sum(len(row.metrics) for row in rows[: len(kept.results)])
        for rows in (whole.results, kept.results)
    ]
    rows, *others = [(field, sum(of(whole)), sum(of(kept))) for field, of in _LISTS]
    cut = truncations(
        (rows, ("results[].metrics", metrics[0], metrics[1]), *others)
    )
    return kept.model_copy(update={"truncated": cut})


def _without(word: api.Word) -> "_Cut":
    return lambda found: found.model_copy(
        update={"results": without_changes(found.results, word)}
    )


def _of_rows(field: str, value_of: Callable[[SweepRow], object]) -> "_Cut":
    """Return a function that shortens a table: it sets `field` of every row to `value_of(row)`."""

    def cut(found: SweepTable) -> SweepTable:
        rows = [
            row.model_copy(update={field: value_of(row)}) for row in found.results
        ]
        return found.model_copy(update={"results": rows})

    return cut


def _without_figures(names: Collection[str]) -> "_Cut":
    return _of_rows(
        "metrics",
        lambda row: {
            key: value for key, value in row.metrics.items() if key not in names
        },
    )


def _settings_if(keeps: Callable[[api.ComparedSetting], bool]) -> "_Cut":
    return lambda found: found.model_copy(
        update={
            "settings": {
                name: [each for each in of if keeps(each)]
                for name, of in found.settings.items()
            }
        }
    )


def _undecided(most: int) -> "_Cut":
    """Return a cut that keeps at most `most` undecided variants and counts the others."""

    def cut(found: SweepTable) -> SweepTable:
        best = [
            each.model_copy(
                update={
                    "undecided": each.undecided[:most],
                    "more_undecided": each.more_undecided
                    + len(each.undecided[most:]),
                }
            )
            for each in found.best
        ]
        return found.model_copy(update={"best": best})

    return cut


def _shorter(found: SweepTable) -> SweepTable:
    """Drop a tenth of the longest list, from its end."""
    longest = max(
        ("results", "best", "front"), key=lambda name: len(getattr(found, name))
    )
    entries = getattr(found, longest)
    return found.model_copy(update={longest: entries[: len(entries) * 9 // 10]})


_Cut = Callable[[SweepTable], SweepTable]
_CUTS: tuple[_Cut, ...] = (
    _settings_if(lambda each: each.word == "Differs"),
    _settings_if(lambda each: each.word == "Differs" and not each.on_purpose),
    _without("NotComparable"),
    _without("Equivalent"),
    _without("NoDetectableDifference"),
    _without("Unknown"),
    lambda found: found.model_copy(
        update={
            "best": [b.model_copy(update={"tied_with": []}) for b in found.best]
        }
    ),
    _undecided(1),
    _of_rows("limit", lambda row: None),
    _without_figures(tuple(api.SHOWN_FIGURES)),
    _without_figures(_GIVEN_BY_OTHERS),
    _undecided(0),
    _without("Better"),
    _without("Worse"),
    lambda found: found.model_copy(
        update={"searches": {name: [] for name in found.searches}}
    ),
    _settings_if(lambda each: False),
)
_LISTS: tuple[tuple[str, Callable[[SweepTable], Iterable[int]]], ...] = (
    ("results", lambda found: (1 for _ in found.results)),
    (
        "results[].changes",
        lambda found: (len(row.changes) for row in found.results),
    ),
    (
        "results[].limit",
        lambda found: (row.limit is not None for row in found.results),
    ),
    ("best", lambda found: (1 for _ in found.best)),
    ("best[].tiedWith", lambda found: (len(best.tied_with) for best in found.best)),
    (
        "best[].undecided",
        lambda found: (len(best.undecided) for best in found.best),
    ),
    ("variants[].searches", lambda found: map(len, found.searches.values())),
    ("variants[].settings", lambda found: map(len, found.settings.values())),
    ("front", lambda found: (1 for _ in found.front)),
)
