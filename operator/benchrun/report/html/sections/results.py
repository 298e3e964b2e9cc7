"""The figures of every load point, and what limits them."""

from __future__ import annotations

from benchrun.observe import untrusted_json as raw
from benchrun.report.html import Element, Fold, Prose, Reported, ReportedSweep, Section, Table
from benchrun.report.pivots import configuration_rows, packing_rows
from benchrun.report.sweep_rows import LEGEND, cuts, left_out, variant_rows
from benchrun.report.tables import (
    ABSENT,
    UNCERTAIN_NOTE,
    Rows,
    explanation_rows,
    has_uncertain,
    interval_rows,
    kernel_rows,
    repeat_rows,
    result_rows,
    texts_per_prompt,
)

MAX_NAMED = 8
"""Load points listed by name where nothing limits them."""


def results_section(run: Reported) -> Section:
    """The table of the terminal, and behind a click how sure each percentile is."""
    if not run.status.results:
        return Section("results", "Results", (Prose("No load point was measured."),))
    rows = result_rows(run.status, texts_per_prompt=texts_per_prompt(run.written), wide=True)
    elements: list[Element] = [
        Table("Load points, their repeats pooled", rows, words=frozenset({"verdict"})),
        Prose(
            "Latencies in milliseconds, as the client measured them. Running, waiting, KV max and hits are what the servers report; "
            "running and waiting are means over the stages, of all servers. A dash is what was not measured."
        ),
    ]
    if (packed := packing_rows(run.status, texts_per_prompt(run.written))).rows:
        elements.append(Table("Texts in all, by packing", packed))
    if has_uncertain(rows):
        elements.append(Prose(f"{UNCERTAIN_NOTE}."))
    if (intervals := interval_rows(run.status)).rows:
        table = Table("95 % intervals, and the figure of the steady state", intervals)
        elements.append(Fold("How sure each percentile is", (table,)))
    if run.status.truncated:
        parts = "; ".join(f"{cut.included} of {cut.total} {cut.field}" for cut in run.status.truncated)
        elements.append(Prose(f"The status is limited in size and holds only {parts}."))
    return Section("results", "Results", tuple(elements))


def limits_section(run: Reported) -> Section | None:
    """Why requests waited and what limits; load points where neither applies in one line."""
    results = run.status.results
    if not results:
        return None
    explained: dict[str, dict[str, str]] = {}
    answers: list[tuple[str, ...]] = []
    for cell, what, word, sentence in explanation_rows(run.status, wide=True).rows:
        if what in ("waiting", "limit"):
            explained.setdefault(cell, {})[what] = f"{word}. {sentence}"
        elif what != "profile":
            answers.append((cell, what, f"{word}. {sentence}"))
    elements: list[Element] = []
    if explained:
        rows = tuple((cell, why.get("waiting", ABSENT), why.get("limit", ABSENT)) for cell, why in explained.items())
        headers = ("load point", "why requests waited", "bottleneck")
        elements.append(Table("Load points with a queue or a bottleneck", Rows(headers, rows), stacked=True))
    quiet = [row.cell for row in results if row.cell not in explained]
    if quiet:
        where = ", ".join(quiet) if len(quiet) <= MAX_NAMED else f"the other {len(quiet)} load points"
        where = where if explained else "any load point; the servers kept up"
        elements.append(Prose(f"No queue and no bottleneck at {where}."))
    if answers:
        found = Rows(("load point", "question", "answer"), tuple(answers))
        elements.append(Table("Which repeats to use, and other questions", found, stacked=True))
    if (stages := repeat_rows(run.status)).rows:
        elements.append(Fold("Every stage, in order of measurement", (Table("Latencies are means, in ms", stages),)))
    return Section("limits", "What limits", tuple(elements))


def profile_section(run: Reported) -> Section | None:
    """What the profile says, and its kernels."""
    if (profile := run.status.profile) is None:
        return None
    lead = "After everything was measured, some seconds of load ran under vLLM's own profiler; no other figure is from them."
    table = Table("Kernels with the most time", kernel_rows(run.status))
    shown: tuple[Element, ...] = (table,) if table.rows.rows else ()
    return Section("profile", "Profile", (Prose(profile.sentence), *shown, Prose(lead)))


def sweep_limits_section(sweep: ReportedSweep) -> Section | None:
    """What limits by a variant and the baseline together, and what could not be compared."""
    results = sweep.status.results
    limited = tuple((row.variant, row.cell, row.limit.sentence) for row in results if row.limit is not None)
    reasons = tuple((row.variant, row.cell, row.reason) for row in results if row.runs and row.reason)
    tables = (
        ("By the variant and the baseline together", "bottleneck", limited),
        ("Rows that are not compared", "reason", reasons),
    )
    elements: list[Element] = [
        Table(caption, Rows(("variant", "load point", header), rows), stacked=True)
        for caption, header, rows in tables
        if rows
    ]
    elements += [Prose(f"{sentence}.") for sentence in left_out(sweep.status)]
    return Section("limits", "What limits, and what is missing", tuple(elements)) if elements else None


def sweep_results_section(sweep: ReportedSweep) -> Section:
    """The figures of every variant at every load point: the table of the terminal, as wide as it goes."""
    texts = texts_per_prompt(raw.mapping(sweep.written.get("template")))
    rows = variant_rows(sweep.status, texts_per_prompt=texts, wide=True)
    if not rows.rows:
        return Section("results", "Results", (Prose("No variant was measured."),))
    elements: list[Element] = [
        Table("Variants and load points", rows, words=frozenset({"verdict"})),
        *([Table("Load points side by side", found)] if (found := configuration_rows(sweep.status)).rows else []),
        Prose(f"{LEGEND[0].upper()}{LEGEND[1:]}. A dash is what was not measured."),
        *(Prose(f"{cut}.") for cut in cuts(sweep.status)),
    ]
    return Section("results", "Results", tuple(elements))
