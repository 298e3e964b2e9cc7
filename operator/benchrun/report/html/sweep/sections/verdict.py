"""First of all: whether the table can be trusted, who did best, and which variants are missing from it."""

from __future__ import annotations

from benchrun.api.conditions import find_condition
from benchrun.api.sweep.status import BenchmarkSweepStatus, SweepReason, VariantStatus
from benchrun.judge.comparison.sentence import SCOPES
from benchrun.judge.sweep.best import THROUGHPUT
from benchrun.report.html.blocks import Block, Facts, Section, Table, Verdict
from benchrun.report.html.sweep.reported import ReportedSweep
from benchrun.report.rows import ABSENT, Rows, figure


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


