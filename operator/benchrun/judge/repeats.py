"""Repeats of one load point that do not agree, by more than the noise within each explains."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.judge.finding import Code, Explanation, NotChecked, StageFinding
from benchrun.judge.rules import CellContext, Found
from benchrun.measure.cells import rounded
from benchrun.measure.repeats import Spread, between_groups

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.REPEATS_DISAGREE: Explanation(
        meaning="The same load gave different figures from repeat to repeat, by more than the requests' own noise: a single "
        "figure for this load point hides that.",
        remedy="Look for what changes between repeats: other work on the node, clocks, a cache that fills. Near capacity "
        "every queue differs: measure longer, or at less load.",
    ),
}


def repeats_disagree(cell: CellContext) -> Found:
    """Coefficient of variation of the repeats' throughput, mean TTFT, TPOT and E2EL; the worst of those that noise does not
    explain."""
    stages = [stage.shape.batches for stage in cell.stages]
    if len(cell.cell.stage_ids) < 2 or not stages:
        return []
    if len(stages) < 2:
        return [NotChecked(Code.REPEATS_DISAGREE, "a single repeat was measured")]
    spreads = {figure: between_groups([stage[figure] for stage in stages]) for figure in stages[0]}
    apart = {figure: spread for figure, spread in spreads.items() if _disagrees(spread, cell)}
    if not apart:
        return []
    worst = max(apart, key=lambda figure: apart[figure].cv_percent or 0.0)
    means = [sum(stage[worst]) / len(stage[worst]) for stage in stages if stage[worst]]
    evidence = {
        "figure": worst,
        "cvPercent": rounded(apart[worst].cv_percent),
        "suspectPercent": cell.thresholds.repeats_cv_percent,
        "repeats": len(means),
        "least": rounded(min(means)),
        "most": rounded(max(means)),
        "chance": rounded(apart[worst].p_value),
        "suspectChance": cell.thresholds.chance_of_alarm,
        "figures": ", ".join(apart),
    }
    weight = apart[worst].cv_percent or 0.0
    return [StageFinding(Code.REPEATS_DISAGREE, "Suspect", cell.cell.id, evidence, weight=weight)]


def _disagrees(spread: Spread, cell: CellContext) -> bool:
    if spread.cv_percent is None or spread.p_value is None:
        return False
    return spread.cv_percent > cell.thresholds.repeats_cv_percent and spread.p_value < cell.thresholds.chance_of_alarm
