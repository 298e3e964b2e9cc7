"""The table of what was measured so far, put into the status whenever one more run has ended."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.status import Truncated
from benchrun.api.sweep.status import BenchmarkSweepStatus, FoundLoad, VariantStatus
from benchrun.decide.acceptance import Unacceptable
from benchrun.decide.sweep.acceptance import accept, baseline_of
from benchrun.decide.sweep.counting import run_counts, variant_statuses
from benchrun.decide.sweep.decision import SweepWorld
from benchrun.decide.sweep.situation import SweepSituation
from benchrun.judge.comparison.runs import MeasuredRun
from benchrun.judge.sweep.best import best_variants
from benchrun.judge.sweep.contenders import contenders
from benchrun.judge.sweep.fitting import Findings, fitted
from benchrun.judge.sweep.front import pareto_front
from benchrun.judge.sweep.measured import Side, cells_of
from benchrun.judge.sweep.searches import found_loads
from benchrun.judge.sweep.table import Table, table
from benchrun.judge.verdict import worst
from benchrun.plan.stages import cells
from benchrun.plan.sweep.variants import Variant


def is_tabled(situation: SweepSituation) -> bool:
    """Whether the status holds the table of just the runs that have ended."""
    runs = situation.status.runs
    return (0 if runs is None else runs.tabled) == len(situation.ended)


def to_read(situation: SweepSituation) -> tuple[str, ...]:
    """Runs whose figures the table needs and memory lacks."""
    measured = situation.world.collected.measured
    return tuple(run.name for run in situation.ended if run.state == "Completed" and run.uid not in measured)


def tabled(situation: SweepSituation) -> BenchmarkSweepStatus:
    """The status with the table of all runs that have ended, cut to what a status holds."""
    found, whole = _found(situation)
    kept, truncated = fitted(whole)
    return _with(situation, found, kept, truncated)


def untruncated(world: SweepWorld) -> BenchmarkSweepStatus | None:
    """The status with its table whole, for whoever reads it elsewhere than in a status. None: runs that the table was made of are
    not there, or not all that they measured."""
    try:
        spec, variants = accept(world.sweep)
    except Unacceptable:
        return None
    status = BenchmarkSweepStatus.model_validate(world.sweep.status)
    situation = SweepSituation(world=world, spec=spec, variants=variants, status=status)
    if not is_tabled(situation) or to_read(situation):
        return None
    found, whole = _found(situation)
    return _with(situation, found, whole, ())


def _found(situation: SweepSituation) -> tuple[Table, Findings]:
    sides = [Side(variant, _measured(situation, variant)) for variant in situation.variants]
    planned = [cell.id for cell in cells(situation.spec.template)]
    found = table(
        sides,
        baseline=baseline_of(situation.spec, situation.variants),
        planned=planned,
        replications=situation.spec.replications,
        missing=_missing(situation),
    )
    able = contenders(sides, cells_of(sides, planned))
    findings = Findings(
        rows=found.rows,
        best=best_variants(able, situation.spec.template.objectives),
        front=pareto_front(able),
        searches=tuple(found_loads(side) for side in sides),
    )
    return found, findings


def _with(
    situation: SweepSituation, found: Table, kept: Findings, truncated: Sequence[Truncated]
) -> BenchmarkSweepStatus:
    cost = situation.spec.template.cost
    return situation.status.model_copy(
        update={
            "baseline": baseline_of(situation.spec, situation.variants),
            "currency": cost.currency if cost is not None else None,
            "runs": run_counts(situation, tabled=len(situation.ended)),
            "variants": _judged(situation, found, kept.searches),
            "scope": found.scope,
            "results": list(kept.rows),
            "best": list(kept.best),
            "front": list(kept.front),
            "verdict": worst(row.verdict for row in found.rows if row.runs),
            "truncated": list(truncated),
        }
    )


def _measured(situation: SweepSituation, variant: Variant) -> tuple[MeasuredRun, ...]:
    known = situation.world.collected.measured
    return tuple(
        MeasuredRun(run.name, run.uid, variant.spec, known[run.uid])
        for run in situation.of_variant(variant)
        if run.state == "Completed"
    )


def _missing(situation: SweepSituation) -> dict[str, str]:
    """Why variants have no figures, in the word of the first run that ended early."""
    told = {variant.name: variant for variant in variant_statuses(situation)}
    return {name: variant.reason for name, variant in told.items() if variant.reason is not None}


def _judged(situation: SweepSituation, found: Table, searches: Sequence[Sequence[FoundLoad]]) -> list[VariantStatus]:
    return [
        variant.model_copy(
            update={
                "outcome": found.outcomes.get(variant.name),
                "verdict": worst(row.verdict for row in found.rows if row.variant == variant.name and row.runs),
                "searches": list(searched),
            }
        )
        for variant, searched in zip(variant_statuses(situation), searches, strict=True)
    ]
