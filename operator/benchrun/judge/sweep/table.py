"""A sweep judged: every variant at every load point, against the baseline.

All words of the table are corrected together, as those of two runs are: the chance of any false one stays at 5 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from benchrun.api import (
    DEFAULT_METRICS,
    KEYS,
    BenchmarkRunStatus,
    Bottleneck,
    ComparedCell,
    ComparedMetric,
    Outcome,
    Scope,
    Verdict,
)
from benchrun.api.sweep import BenchmarkSweepSpec, Row, SweepTable, TabledRun
from benchrun.judge.comparison.comparability import MeasuredRun, cell_obstacle, obstacle
from benchrun.judge.comparison.compare import limits, outcome_of, paired
from benchrun.judge.comparison.figures import figure_of, throughput_at
from benchrun.judge.comparison.questions import Question, answers
from benchrun.judge.result_row import PER_GPU
from benchrun.judge.rules.all_rules import worst
from benchrun.judge.sweep.best import best_variants, contenders, pareto_front
from benchrun.judge.sweep.table_size import Findings, fitted
from benchrun.judge.sweep.variant_figures import Side, cells_of, costs, found_loads, server_figures
from benchrun.measure import rounded
from benchrun.plan import Variant, block_of, cells, in_block, planned_variants

SHOWN: tuple[ComparedMetric, ...] = (*DEFAULT_METRICS, "TotalTokenThroughput")
OF_A_SPLIT_FIRST: tuple[ComparedMetric, ...] = ("MeanTTFT", "MeanE2EL")
ONE_LEFT = "only one run a side was measured; the sweep compares between servers, which takes two"


@dataclass(frozen=True, slots=True)
class Table:
    """What came of it."""

    rows: tuple[Row, ...]
    scope: Scope | None
    outcomes: Mapping[str, Outcome]  # By variant; the baseline has none.


def table(
    sides: Sequence[Side], *, baseline: str, planned: Sequence[str], replications: int, missing: Mapping[str, str]
) -> Table:
    """Planned cells are rows of every variant; a load that only a search has tried, of those that tried it. `missing`: by
    variant, why it has no figures."""
    cells = cells_of(sides, planned)
    base = next(side for side in sides if side.variant.name == baseline)
    pairs = [(side, cell) for side in sides if side is not base for cell in cells]
    reasons = [_reason(base, side, cell, replications=replications) for side, cell in pairs]
    questions = [
        _questions(base, side, cell) if reason is None else []
        for (side, cell), reason in zip(pairs, reasons, strict=True)
    ]
    changes = iter(answers(list(chain(*questions))))
    compared = {
        (side.variant.name, cell): ComparedCell(cell=cell, reason=reason[:300])
        if reason is not None
        else ComparedCell(
            cell=cell,
            paired=paired(cell, base.runs_at(cell), side.runs_at(cell)),
            # The figures themselves stand in the rows.
            changes=[next(changes).model_copy(update={"baseline": None, "value": None}) for _ in of_cell],
        )
        for (side, cell), reason, of_cell in zip(pairs, reasons, questions, strict=True)
    }
    shown = [(side, cell) for side in sides for cell in cells if cell in planned or side.at(cell)]
    rows = tuple(_row(base, side, cell, compared.get((side.variant.name, cell)), missing) for side, cell in shown)
    outcomes = {
        side.variant.name: outcome_of([compared[side.variant.name, cell] for cell in cells])
        for side in sides
        if side is not base and side.runs
    }
    between: Scope = "BetweenServers" if replications > 1 else "WithinOneServer"
    return Table(rows, between if any(cell.changes for cell in compared.values()) else None, outcomes)


def _questions(base: Side, side: Side, cell: str) -> list[Question]:
    """One for each metric that either side has. Whether splitting a server pays shows in TTFT and E2EL first."""
    servers = [each.variant.spec.server for each in (base, side)]
    is_split = any(server is not None and server.disaggregated is not None for server in servers)
    metrics = dict.fromkeys((*(OF_A_SPLIT_FIRST if is_split else ()), *DEFAULT_METRICS))
    before, after = base.runs_at(cell), side.runs_at(cell)
    questions = [
        Question(each, figure_of(each, cell, before, after), figure_of(each, cell, after, before)) for each in metrics
    ]
    return [each for each in questions if each.baseline.value is not None or each.candidate.value is not None]


def _reason(base: Side, side: Side, cell: str, *, replications: int) -> str | None:
    if not side.runs:
        return "no run was measured to its end"
    if not base.runs:
        return f"the baseline {base.variant.name} has no run that was measured to its end"
    before, after = base.runs_at(cell) or base.runs, side.runs_at(cell) or side.runs
    reason = obstacle(before, after, swept=True) or cell_obstacle(cell, before, after)
    if reason is None and replications > 1 and len(after) == 1:
        return ONE_LEFT
    return reason


def _row(base: Side, side: Side, cell: str, compared: ComparedCell | None, missing: Mapping[str, str]) -> Row:
    found = side.at(cell)
    if not found:
        reason = missing.get(side.variant.name, "not measured")
        return Row(variant=side.variant.name, cell=cell, verdict="Unknown", reason=reason[:300])
    left_out = len(side.runs) - len(found)
    doubt: tuple[Verdict, ...] = ("Suspect",) if left_out else ()
    return Row(
        variant=side.variant.name,
        cell=cell,
        runs=len(found),
        left_out=left_out,
        metrics=_metrics(side, cell),
        throughput_of=throughput_at(cell, side.runs_at(cell)),
        changes=[] if compared is None else compared.changes,
        paired=compared is not None and compared.paired,
        limit=None if compared is None or compared.reason is not None else _limit(base, side, cell),
        verdict=worst((*(row.verdict for _, row in found), *doubt)) or "Unknown",
        reason=None if compared is None else compared.reason,
    )


def _limit(base: Side, side: Side, cell: str) -> Bottleneck | None:
    """Its sentence carries the numbers."""
    names = (base.variant.name, side.variant.name)
    found = limits(base.runs_at(cell), side.runs_at(cell), [cell], names=names).get(cell)
    return None if found is None else found.model_copy(update={"evidence": {}})


def _metrics(side: Side, cell: str) -> dict[str, float | None]:
    figures = {KEYS[metric]: rounded(figure_of(metric, cell, side.runs_at(cell)).value) for metric in SHOWN}
    throughput = figures[KEYS["OutputThroughput"]]
    figures[PER_GPU] = None if throughput is None else rounded(throughput / side.devices)
    known = {key: value for key, value in figures.items() if value is not None}
    return known | costs(side, cell) | server_figures(side, cell)


def _measured(variant: Variant, run: TabledRun, status: BenchmarkRunStatus) -> MeasuredRun:
    """With the seed of its block, as it was sent."""
    block = block_of(run.name, sweep_variant=variant.number)
    return MeasuredRun(run.name, run.uid, in_block(variant.spec, block or 1), status, block)


def sweep_table(
    spec: BenchmarkSweepSpec,
    runs: Sequence[TabledRun],
    measured: Mapping[str, BenchmarkRunStatus],
    *,
    baseline: str,
    missing: Mapping[str, str],
    whole: bool = False,
) -> SweepTable:
    """The table of these runs, cut to what a status holds unless it is wanted whole.

    `measured`: by uid. `missing`: by variant, why it has no figures. Raises ValueError where the spec has no variants.
    """
    listed = planned_variants(spec)
    finished = [run for run in runs if run.uid in measured]
    sides = [
        Side(each, tuple(_measured(each, run, measured[run.uid]) for run in finished if run.variant == each.name))
        for each in listed
    ]
    planned = [cell.id for cell in cells(spec.template)]
    found = table(sides, baseline=baseline, planned=planned, replications=spec.replications, missing=missing)
    able = contenders(sides, cells_of(sides, planned))
    best, front = best_variants(able, spec.template.objectives), pareto_front(able)
    all_of_it = Findings(found.rows, best, front, tuple(map(found_loads, sides)))
    kept, truncated = (all_of_it, ()) if whole else fitted(all_of_it)
    names = [variant.name for variant in listed]
    verdicts = {name: worst(row.verdict for row in found.rows if row.variant == name and row.runs) for name in names}
    return SweepTable(
        results=list(kept.rows),
        best=list(kept.best),
        front=list(kept.front),
        scope=found.scope,
        verdict=worst(row.verdict for row in found.rows if row.runs),
        verdicts={name: verdict for name, verdict in verdicts.items() if verdict is not None},
        outcomes=dict(found.outcomes),
        searches={name: list(loads) for name, loads in zip(names, kept.searches, strict=True)},
        truncated=list(truncated),
    )
