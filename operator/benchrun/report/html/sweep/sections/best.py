"""Who did best by each objective."""

from __future__ import annotations

from benchrun.report.html.blocks import Prose, Section, Table
from benchrun.report.html.sweep.reported import ReportedSweep
from benchrun.report.sweep_rows import best_rows


def best_section(sweep: ReportedSweep) -> Section | None:
    """Where something was measured that can win."""
    rows = best_rows(sweep.status)
    if not rows.rows:
        return None
    lead = Prose(
        "Of the variants whose every run met the objective with certainty, the one with the most output tokens a second and GPU. "
        "Throughput asks for nothing else. Variants that can't be told from the best are named beside it."
    )
    return Section("best", "Best variants", (lead, Table("Best variant by objective", rows)))
