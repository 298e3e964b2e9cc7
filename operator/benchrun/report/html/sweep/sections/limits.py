"""What limits, where a variant and the baseline together show it, and what could not be compared."""

from __future__ import annotations

from benchrun.report.html.blocks import Block, Prose, Section, Table
from benchrun.report.html.sweep.reported import ReportedSweep
from benchrun.report.rows import Rows


def sweep_limits_section(sweep: ReportedSweep) -> Section | None:
    """Where there is something to say."""
    limited = [(row.variant, row.cell, row.limit.sentence) for row in sweep.status.results if row.limit is not None]
    reasons = [(row.variant, row.cell, row.reason) for row in sweep.status.results if row.runs and row.reason]
    left_out = [
        f"{row.variant} at {row.cell}: {row.left_out} of {row.runs + row.left_out} runs left out, Invalid there or without it."
        for row in sweep.status.results
        if row.left_out
    ]
    blocks: list[Block] = []
    if limited:
        headers = ("variant", "load point", "what limits")
        blocks.append(Table("By the variant and the baseline together", Rows(headers, tuple(limited)), stacked=True))
    if reasons:
        headers = ("variant", "load point", "not compared, since")
        blocks.append(Table("Rows without words", Rows(headers, tuple(reasons)), stacked=True))
    blocks += [Prose(sentence) for sentence in left_out]
    return Section("limits", "What limits, and what is missing", tuple(blocks)) if blocks else None


