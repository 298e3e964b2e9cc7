"""Too few requests for a percentile, repeats that disagree, and stages that were never measured."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from benchrun.api import Cell
from benchrun.judge.objectives import pool_of
from benchrun.judge.rules.rule import CellContext, Code, Evidence, Found, NotChecked, Rules, StageFinding
from benchrun.measure import percentiles, repeats, rounded


def too_few_samples(cell: CellContext) -> Found:
    """Percentiles of the spec, those of its objectives too, without a two-sided 95 % interval at this number of values."""
    counts = _counts(cell)
    unbounded = sorted(p for p, count in counts.items() if percentiles.percentile_ranks(count, p) is None)
    if not unbounded:
        return []
    needed = {percentile: percentiles.least_count(percentile) for percentile in unbounded}
    neediest = max(needed, key=lambda percentile: needed[percentile] or 0)
    evidence: Evidence = {
        "samples": counts[neediest],
        "percentiles": ", ".join(f"{percentile:g}" for percentile in unbounded),
        "percentile": neediest,
        "needed": needed[neediest],
    }
    return [StageFinding(Code.TOO_FEW_SAMPLES, "Note", cell.cell.id, evidence, weight=neediest)]


def _counts(cell: CellContext) -> Mapping[float, int]:
    """How many values each percentile rests on: answered requests, or those of an objective's latency where they are fewer.
    Without what was not measured."""
    requests = cell.pools["e2el"].count if cell.pools else 0
    counts = dict.fromkeys(map(float, cell.percentiles), requests) if requests else {}
    for objective in cell.objectives:
        percentile, values = float(objective.percentile), pool_of(objective, cell.pools).count
        if values:
            counts[percentile] = min(counts.get(percentile, values), values)
    return counts


def repeats_disagree(cell: CellContext) -> Found:
    """Coefficient of variation of the repeats' throughput, mean TTFT, TPOT and E2EL; the worst of those that noise does not
    explain."""
    stages, thresholds = [stage.batches for stage in cell.stages], cell.thresholds
    if len(cell.cell.stage_ids) < 2 or not stages:
        return []
    if len(stages) < 2:
        return [NotChecked(Code.REPEATS_DISAGREE, "a single repeat was measured")]
    spreads = {figure: repeats.between_groups([stage[figure] for stage in stages]) for figure in stages[0]}
    apart = {
        figure: spread
        for figure, spread in spreads.items()
        if spread.cv_percent is not None
        and spread.p_value is not None
        and spread.cv_percent > thresholds.repeats_cv_percent
        and spread.p_value < thresholds.chance_of_alarm
    }
    if not apart:
        return []
    worst = max(apart, key=lambda figure: apart[figure].cv_percent or 0.0)
    means = [sum(stage[worst]) / len(stage[worst]) for stage in stages if stage[worst]]
    evidence = {
        "figure": worst,
        "cvPercent": rounded(apart[worst].cv_percent),
        "suspectPercent": thresholds.repeats_cv_percent,
        "repeats": len(means),
        "least": rounded(min(means)),
        "most": rounded(max(means)),
        "chance": rounded(apart[worst].p_value),
        "suspectChance": thresholds.chance_of_alarm,
        "figures": ", ".join(apart),
    }
    weight = apart[worst].cv_percent or 0.0
    return [StageFinding(Code.REPEATS_DISAGREE, "Suspect", cell.cell.id, evidence, weight=weight)]


def missing_records(cell: Cell, measured: Collection[str]) -> list[StageFinding]:
    """One finding for each repeat of the cell that has no record."""
    evidence = {"planned": len(cell.stage_ids), "measured": sum(stage in measured for stage in cell.stage_ids)}
    return [StageFinding(Code.RECORD_MISSING, "Invalid", s, evidence) for s in cell.stage_ids if s not in measured]


RULES = Rules(
    of_cells=(too_few_samples, repeats_disagree),
    sentences={
        (340, Code.TOO_FEW_SAMPLES): "{samples} requests are too few to bound these percentiles: {percentiles}[; the "
        "last of them needs {needed}].",
        (290, Code.REPEATS_DISAGREE): "{figure} is between {least} and {most} in {repeats} repeats: coefficient of "
        "variation {cvPercent} % (threshold {suspectPercent} %).",
        (40, Code.RECORD_MISSING): "{measured} of {planned} repeats were measured.",
    },
)
