"""Whether the table of a sweep can be trusted, who did best, what limits, and every figure."""

from __future__ import annotations

from benchrun.api import find_condition
from benchrun.api.sweep.status import BenchmarkSweepStatus, SweepReason, VariantStatus
from benchrun.judge.comparison.figures import SCOPES
from benchrun.judge.sweep.best import THROUGHPUT
from benchrun.report.html.blocks import Block, Facts, Prose, Section, Table, Verdict
from benchrun.report.html.reported import ReportedSweep
from benchrun.report.rows import ABSENT, Rows, figure
from benchrun.report.sweep_rows import LEGEND, best_rows, cuts, variant_rows

MEANINGS = {
    "Valid": "The mistakes that the rules know were looked for in every run and not found.",
    "Suspect": "Some numbers may be off: read the findings of their runs before you quote them.",
    "Invalid": "Some rows are wrong, or answer another question than was asked. They win nothing, and the others stand as they are.",
    "Failed": "The sweep ended before every variant was measured. What was measured until then stands below.",
    "Cancelled": "The sweep was cancelled. What was measured until then stands below.",
    "Unknown": "Nothing was measured.",
}
HOLES = " Not every run was measured: the table has holes, and the variants below say why."
OUTCOMES = {"NoDetectableDifference": "no difference"}


def word(status: BenchmarkSweepStatus) -> str:
    """How it ended comes before what was measured: a failed sweep is no result."""
    return status.phase if status.phase in ("Failed", "Cancelled") else status.verdict or "Unknown"


def sweep_verdict_section(sweep: ReportedSweep) -> Section:
    """The word, why, the best of each workload, and how each variant fared."""
    status = sweep.status
    meaning = MEANINGS.get(word(status), "")
    complete = find_condition(status.conditions, "Complete")
    if complete is not None and complete.reason == SweepReason.RUNS_FAILED:
        meaning += HOLES
    blocks: list[Block] = [Verdict(word(status), status.message or "", meaning)]
    facts = _facts(status)
    if facts:
        blocks.append(Facts("At a glance", facts))
    if status.variants:
        blocks.append(Table("The variants", _variants(status), words=frozenset({"verdict", "against the baseline"})))
    return Section("verdict", "Verdict", tuple(blocks))


def _facts(status: BenchmarkSweepStatus) -> tuple[tuple[str, str], ...]:
    failed = find_condition(status.conditions, "Failed")
    reason = failed.reason if failed is not None and failed.status == "True" else None
    best = [(best.workload, f"{best.variant} at {best.cell}") for best in status.best if best.objective == THROUGHPUT]
    several = len(best) > 1
    pairs = (
        ("Ended because", reason),
        *((f"Most throughput per GPU{f', {workload}' if several else ''}", told) for workload, told in best),
        ("Baseline", status.baseline),
        ("Compared", SCOPES[status.scope] if status.scope is not None else None),
        ("Runs", _runs(status)),
        ("GPU seconds held", figure(status.gpu_seconds, digits=4) if status.gpu_seconds else None),
    )
    return tuple((name, value) for name, value in pairs if value)


def _runs(status: BenchmarkSweepStatus) -> str | None:
    if status.runs is None:
        return None
    counts = status.runs.model_dump(include={"completed", "failed", "cancelled", "skipped", "waiting", "lost"})
    names = {"completed": "measured", "waiting": "never started", "lost": "lost and measured anew"}
    return ", ".join(f"{count} {names.get(name, name)}" for name, count in counts.items() if count)


def _variants(status: BenchmarkSweepStatus) -> Rows:
    headers = ["variant", "against the baseline", "verdict", "GPUs", "runs measured"]
    searched = any(variant.searches for variant in status.variants)
    failed = any(variant.reason for variant in status.variants)
    headers += ["highest load that meets the objectives"] if searched else []
    headers += ["failed", "because"] if failed else []
    rows = tuple(_row(variant, status, searched=searched, failed=failed) for variant in status.variants)
    return Rows(tuple(headers), rows)


def _row(variant: VariantStatus, status: BenchmarkSweepStatus, *, searched: bool, failed: bool) -> tuple[str, ...]:
    outcome = "baseline" if variant.name == status.baseline else variant.outcome or ABSENT
    found = "; ".join(f"{each.workload}: {', '.join(each.loads)}" for each in variant.searches) or ABSENT
    because = f"{variant.reason} in {variant.run}: {variant.message or ''}".rstrip(": ") if variant.reason else ABSENT
    return (
        variant.name,
        OUTCOMES.get(outcome, outcome),
        variant.verdict or "Unknown",
        str(variant.gpus),
        str(variant.completed),
        *((found,) if searched else ()),
        *((str(variant.failed), because) if failed else ()),
    )


# ---- best -------------------------------------------------------------------------------------------------------------
# Who did best by each objective.


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


# ---- limits -----------------------------------------------------------------------------------------------------------
# What limits, where a variant and the baseline together show it, and what could not be compared.


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


# ---- results ----------------------------------------------------------------------------------------------------------
# The figures of every variant at every load point.


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
