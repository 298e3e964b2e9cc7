"""Percentiles of which so few requests say nothing certain."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.judge.finding import Code, Evidence, Explanation, StageFinding
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
    """Percentiles of the spec without a two-sided 95 % interval at this number of answered requests."""
    requests = cell.pools["e2el"].count if cell.pools else 0
    if requests == 0:
        return []
    open_ended = sorted(float(p) for p in cell.percentiles if percentile_ranks(requests, float(p)) is None)
    needed = {percentile: least_count(percentile) for percentile in open_ended}
    if not needed:
        return []
    hungriest = max(needed, key=lambda percentile: needed[percentile] or 0)
    evidence: Evidence = {
        "requests": requests,
        "percentiles": ", ".join(f"{percentile:g}" for percentile in open_ended),
        "percentile": hungriest,
        "needed": needed[hungriest],
    }
    return [StageFinding(Code.TOO_FEW_SAMPLES, "Note", cell.cell.id, evidence, weight=hungriest)]
