"""The figures of every variant at every load point."""

from __future__ import annotations

from benchrun.report.html.blocks import Block, Prose, Section, Table
from benchrun.report.html.sweep.reported import ReportedSweep
from benchrun.report.sweep_rows import LEGEND, cuts, variant_rows


def sweep_results_section(sweep: ReportedSweep) -> Section:
    """The table of the terminal, as wide as it goes."""
    rows = variant_rows(sweep.status, texts_per_prompt=sweep.texts_per_prompt, wide=True)
    if not rows.rows:
        return Section("results", "Results", (Prose("No variant was measured."),))
    blocks: list[Block] = [
        Table("Variants and load points", rows, words=frozenset({"verdict"})),
        Prose(f"{LEGEND[0].upper()}{LEGEND[1:]}. A dash is what was not measured."),
    ]
    blocks += [Prose(f"{cut}.") for cut in cuts(sweep.status)]
    return Section("results", "Results", tuple(blocks))


