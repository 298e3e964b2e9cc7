"""A sweep judged: from what its runs measured to its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from benchrun.api.status import BenchmarkRunStatus
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.api.sweep.table import SweepTable, TabledRun
from benchrun.judge.comparison.runs import MeasuredRun
from benchrun.judge.sweep.best import best_variants
from benchrun.judge.sweep.contenders import contenders
from benchrun.judge.sweep.fitting import Findings, fitted
from benchrun.judge.sweep.front import pareto_front
from benchrun.judge.sweep.measured import Side, cells_of
from benchrun.judge.sweep.searches import found_loads
from benchrun.judge.sweep.table import table
from benchrun.judge.verdict import worst
from benchrun.plan.stages import cells
from benchrun.plan.sweep.variants import variants


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
    listed = variants(spec)
    sides = [
        Side(
            variant,
            tuple(
                MeasuredRun(run.name, run.uid, variant.spec, measured[run.uid])
                for run in runs
                if run.variant == variant.name and run.uid in measured
            ),
        )
        for variant in listed
    ]
    planned = [cell.id for cell in cells(spec.template)]
    found = table(sides, baseline=baseline, planned=planned, replications=spec.replications, missing=missing)
    able = contenders(sides, cells_of(sides, planned))
    all_of_it = Findings(
        rows=found.rows,
        best=best_variants(able, spec.template.objectives),
        front=pareto_front(able),
        searches=tuple(found_loads(side) for side in sides),
    )
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
