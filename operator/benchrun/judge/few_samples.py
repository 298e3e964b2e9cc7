"""Percentiles of which so few requests say nothing certain."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.judge.finding import Code, Evidence, Explanation, StageFinding
from benchrun.judge.objectives import pool_of
from benchrun.judge.rules import CellContext, Found
from benchrun.measure.intervals import least_count, percentile_ranks

EXPLANATIONS: Mapping[Code, Explanation] = {
    Code.TOO_FEW_SAMPLES: Explanation(
        meaning="With so few requests no value of the sample bounds this percentile with 95 % certainty: another run may "
        "well give another one.",
        remedy="Send more requests or repeat more often (p99 needs 368 in all, p99.9 3688), or ask for a lower percentile.",
    ),
}


def too_few_samples(cell: CellContext) -> Found:
    """Percentiles of the spec, those of its objectives too, without a two-sided 95 % interval at this number of values."""
    counts = _asked(cell)
    open_ended = sorted(
        percentile for percentile, count in counts.items() if percentile_ranks(count, percentile) is None
    )
    needed = {percentile: least_count(percentile) for percentile in open_ended}
    if not needed:
        return []
    hungriest = max(needed, key=lambda percentile: needed[percentile] or 0)
    evidence: Evidence = {
        "samples": counts[hungriest],
        "percentiles": ", ".join(f"{percentile:g}" for percentile in open_ended),
        "percentile": hungriest,
        "needed": needed[hungriest],
    }
    return [StageFinding(Code.TOO_FEW_SAMPLES, "Note", cell.cell.id, evidence, weight=hungriest)]


def _asked(cell: CellContext) -> Mapping[float, int]:
    """How many values each percentile rests on: answered requests, or what an objective's own latency has, where that is
    less. What was not measured lacks no samples."""
    requests = cell.pools["e2el"].count if cell.pools else 0
    counts = dict.fromkeys(map(float, cell.percentiles), requests) if requests else {}
    for objective in cell.objectives:
        percentile, values = float(objective.percentile), pool_of(objective, cell.pools).count
        if values:
            counts[percentile] = min(counts.get(percentile, values), values)
    return counts
