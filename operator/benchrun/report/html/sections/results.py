"""The figures of every load point, and what limits them."""

from __future__ import annotations

from benchrun.api import Result
from benchrun.report.html.blocks import Block, Fold, Prose, Section, Table
from benchrun.report.html.reported import Reported, ReportedSweep
from benchrun.report.result_rows import result_rows, texts_per_prompt
from benchrun.report.rows import ABSENT, UNCERTAIN_NOTE, Rows, has_uncertain, interval_rows
from benchrun.report.sweep_rows import LEGEND, cuts, left_out, variant_rows

MAX_NAMED = 8
"""Load points listed by name where nothing limits them."""


def results_section(run: Reported) -> Section:
    """The table of the terminal, and behind a click how sure each percentile is."""
    if not run.status.results:
        return Section("results", "Results", (Prose("No load point was measured."),))
    rows = result_rows(run.status, texts_per_prompt=texts_per_prompt(run.written), wide=True)
    blocks: list[Block] = [
        Table("Load points, their repeats pooled", rows, words=frozenset({"verdict"})),
        Prose(
            "Latencies in milliseconds, as the client measured them. Running, waiting, KV max and hits are what the servers report; "
            "running and waiting are means over the stages. A dash is what was not measured."
        ),
    ]
    if has_uncertain(rows):
        blocks.append(Prose(f"{UNCERTAIN_NOTE}."))
    intervals = interval_rows(run.status)
    if intervals.rows:
        table = Table("95 % intervals, and the figure of the steady state", intervals)
        blocks.append(Fold("How sure each percentile is", (table,)))
    if run.status.truncated:
        parts = "; ".join(f"{cut.included} of {cut.total} {cut.field}" for cut in run.status.truncated)
        blocks.append(Prose(f"The status is limited in size and holds only {parts}."))
    return Section("results", "Results", tuple(blocks))


def limits_section(run: Reported) -> Section | None:
    """Why requests waited and what limits; load points where neither applies in one line."""
    results = run.status.results
    if not results:
        return None
    found = [(row.cell, waiting, limit) for row in results if (waiting := _waiting(row)) + (limit := _limit(row))]
    blocks: list[Block] = []
    if found:
        rows = tuple((cell, waiting or ABSENT, limit or ABSENT) for cell, waiting, limit in found)
        headers = ("load point", "why requests waited", "what limits")
        blocks.append(Table("Load points where requests waited or something limits", Rows(headers, rows), stacked=True))
    named = {cell for cell, _, _ in found}
    quiet = [row.cell for row in results if row.cell not in named]
    if quiet:
        where = ", ".join(quiet) if len(quiet) <= MAX_NAMED else f"the other {len(quiet)} load points"
        where = where if found else "any load point; the servers kept up"
        blocks.append(Prose(f"Nothing waited and nothing limits at {where}."))
    return Section("limits", "What limits", tuple(blocks))


def _waiting(row: Result) -> str:
    return f"{row.waiting.reason}. {row.waiting.sentence}" if row.waiting and row.waiting.reason != "None" else ""


def _limit(row: Result) -> str:
    found = row.bottleneck
    return f"{found.limit}. {found.sentence}" if found and found.limit != "None" else ""


def sweep_limits_section(sweep: ReportedSweep) -> Section | None:
    """What limits by a variant and the baseline together, and what could not be compared."""
    results = sweep.status.results
    limited = tuple((row.variant, row.cell, row.limit.sentence) for row in results if row.limit is not None)
    reasons = tuple((row.variant, row.cell, row.reason) for row in results if row.runs and row.reason)
    tables = (
        ("By the variant and the baseline together", "what limits", limited),
        ("Rows without words", "not compared, since", reasons),
    )
    blocks: list[Block] = [
        Table(caption, Rows(("variant", "load point", header), rows), stacked=True)
        for caption, header, rows in tables
        if rows
    ]
    blocks += [Prose(f"{sentence}.") for sentence in left_out(sweep.status)]
    return Section("limits", "What limits, and what is missing", tuple(blocks)) if blocks else None


def sweep_results_section(sweep: ReportedSweep) -> Section:
    """The figures of every variant at every load point: the table of the terminal, as wide as it goes."""
    rows = variant_rows(sweep.status, texts_per_prompt=sweep.texts_per_prompt, wide=True)
    if not rows.rows:
        return Section("results", "Results", (Prose("No variant was measured."),))
    blocks: list[Block] = [
        Table("Variants and load points", rows, words=frozenset({"verdict"})),
        Prose(f"{LEGEND[0].upper()}{LEGEND[1:]}. A dash is what was not measured."),
        *(Prose(f"{cut}.") for cut in cuts(sweep.status)),
    ]
    return Section("results", "Results", tuple(blocks))
