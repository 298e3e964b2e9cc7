"""The table of what was measured so far, put into the status whenever one more run has ended. The judge's process makes it."""

from __future__ import annotations

from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.api.sweep.table import SweepTable, TabledRun
from benchrun.decide.sweep.acceptance import baseline_of
from benchrun.decide.sweep.counting import run_counts, variant_statuses
from benchrun.decide.sweep.decision import TableMade, TableWanted
from benchrun.decide.sweep.situation import SweepSituation


def is_tabled(situation: SweepSituation) -> bool:
    """Whether the status holds the table of just the runs that have ended."""
    return tabled_runs(situation) == len(situation.ended)


def tabled_runs(situation: SweepSituation) -> int:
    """How many runs the table in the status is made of."""
    runs = situation.status.runs
    return 0 if runs is None else runs.tabled


def to_read(situation: SweepSituation) -> tuple[str, ...]:
    """Runs whose figures the table needs and memory lacks."""
    measured = situation.world.collected.measured
    return tuple(run.name for run in situation.ended if run.state == "Completed" and run.uid not in measured)


def table_wanted(situation: SweepSituation) -> TableWanted:
    """The table of all runs that have ended."""
    told = variant_statuses(situation)
    return TableWanted(
        baseline=baseline_of(situation.spec, situation.variants),
        runs=tuple(
            TabledRun(variant=variant.name, name=run.name, uid=run.uid)
            for variant in situation.variants
            for run in situation.of_variant(variant)
            if run.state == "Completed"
        ),
        # In the word of the first run that ended early.
        missing=tuple((variant.name, variant.reason) for variant in told if variant.reason is not None),
    )


def table_made(situation: SweepSituation) -> TableMade | None:
    """That table, or why there is none; None: it is still to be made."""
    made = situation.world.collected.table
    return made if made is not None and made.wanted == table_wanted(situation) else None


def tabled(situation: SweepSituation, made: TableMade) -> BenchmarkSweepStatus:
    """The status with the table of all runs that have ended; with the one before where that could not be made."""
    counted = counted_anew(situation, tabled=len(situation.ended))
    return counted if made.table is None else with_table(situation, counted, made.table)


def counted_anew(situation: SweepSituation, *, tabled: int) -> BenchmarkSweepStatus:
    """The status with the counts of now, and the table that it has."""
    return situation.status.model_copy(
        update={
            "runs": run_counts(situation, tabled=tabled),
            "variants": variant_statuses(situation),
        }
    )


def with_table(situation: SweepSituation, counted: BenchmarkSweepStatus, table: SweepTable) -> BenchmarkSweepStatus:
    """The status with this table."""
    cost = situation.spec.template.cost
    variants = [
        variant.model_copy(
            update={
                "outcome": table.outcomes.get(variant.name),
                "verdict": table.verdicts.get(variant.name),
                "searches": table.searches.get(variant.name, []),
            }
        )
        for variant in counted.variants
    ]
    return counted.model_copy(
        update={
            "baseline": baseline_of(situation.spec, situation.variants),
            "currency": cost.currency if cost is not None else None,
            "variants": variants,
            "scope": table.scope,
            "results": table.results,
            "best": table.best,
            "front": table.front,
            "verdict": table.verdict,
            "truncated": table.truncated,
        }
    )
