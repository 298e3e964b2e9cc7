"""First of all: whether the numbers can be trusted, and what was found wrong with them."""

from __future__ import annotations

from collections import Counter

from benchrun.api import BenchmarkRunStatus, Finding, find_condition
from benchrun.judge.rules.catalogue import evidence_sentence
from benchrun.judge.rules.rule import SEVERITIES
from benchrun.report.comparison_rows import GATES
from benchrun.report.exit_codes import CANCELLED, FAILED, exit_code
from benchrun.report.html.blocks import Block, Code, Facts, FoundCard, Prose, Section, Table, Verdict
from benchrun.report.html.reported import Reported
from benchrun.report.result_rows import objective_rows
from benchrun.report.rows import Rows, evidence_text

MEANINGS = {
    "Valid": "The mistakes that the rules know were looked for and not found. Another start of the same server may still differ.",
    "Suspect": "Some numbers may be off: read the findings before you quote them.",
    "Invalid": "Some numbers are wrong, or answer another question than was asked. The other load points stand as they are.",
    "Failed": "The run ended before everything was measured. What was measured until then stands below.",
    "Cancelled": "The run was cancelled. What was measured until then stands below.",
    "Unknown": "Nothing was measured.",
}
_OBJECTIVES = {"True": "all met", "False": "missed", "Unknown": "it can't be told whether all are met"}


def verdict_section(run: Reported) -> Section:
    """The word, why, the headline, and the objectives."""
    status = run.status
    word = _word(status)
    blocks: list[Block] = [Verdict(word, status.message or "", MEANINGS.get(word, ""))]
    facts = _facts(status)
    if facts:
        blocks.append(Facts("At a glance", facts))
    if status.searches:
        rows = tuple((each.workload, each.outcome, each.sentence) for each in status.searches)
        blocks.append(Table("Highest load that meets the objectives", Rows(("workload", "search", "answer"), rows)))
    objectives = objective_rows(status)
    if objectives.rows:
        blocks.append(Table("Objectives", objectives, words=frozenset({"outcome"})))
    if status.log_tail:
        blocks.append(Code("Last words of the server", status.log_tail))
    return Section("verdict", "Verdict", tuple(blocks))


def _word(status: BenchmarkRunStatus) -> str:
    """How it ended comes before what was measured: a failed run is no result."""
    ended = {FAILED: "Failed", CANCELLED: "Cancelled"}.get(exit_code(status) or 0)
    return ended or status.verdict or "Unknown"


def _facts(status: BenchmarkRunStatus) -> tuple[tuple[str, str], ...]:
    failed = find_condition(status.conditions, "Failed")
    reason = failed.reason if failed is not None and failed.status == "True" else None
    verdicts = Counter(row.verdict for row in status.results)
    counted = ", ".join(f"{count} {word}" for word, count in verdicts.most_common())
    head = status.headline
    gate = status.comparison.gate if status.comparison is not None else None
    kept = find_condition(status.conditions, "ObjectivesMet")
    pairs = (
        ("Ended because", reason),
        ("Load points", counted or None),
        ("Best Valid load point", head.cell if head else None),
        ("Output throughput there", f"{head.throughput} tokens/s" if head else None),
        ("p99 TTFT there", head.p99_ttft if head else None),
        ("Objectives", _OBJECTIVES.get(kept.status) if kept is not None else None),
        ("Against the baseline", GATES[gate] if gate is not None else None),
    )
    return tuple((name, value) for name, value in pairs if value)


# ---- findings ---------------------------------------------------------------------------------------------------------
# What was found wrong with the measurement, with its evidence and what to do.


def findings_section(run: Reported) -> Section:
    """The worst first."""
    status = run.status
    ordered = sorted(status.findings, key=lambda each: -SEVERITIES.index(each.severity))
    if not ordered:
        return Section("findings", "Findings", (Prose(_nothing(status)),))
    return Section("findings", "Findings", tuple(_card(each) for each in ordered))


def _nothing(status: BenchmarkRunStatus) -> str:
    return "No rule found anything." if status.results else "Nothing was measured that could be judged."


def _card(found: Finding) -> FoundCard:
    stages = "one stage" if found.count == 1 else f"{found.count} stages"
    changed = f"; {found.default_severity} by default" if found.default_severity else ""
    return FoundCard(
        code=found.code,
        severity=found.severity,
        where=f"{stages}, most marked in {found.worst_stage}{changed}",
        meaning=found.meaning,
        remedy=found.remedy,
        sentence=evidence_sentence(found.code, found.evidence),
        evidence=[(name, evidence_text(value)) for name, value in found.evidence.items()],
    )
