"""What was found wrong with the measurement, with its evidence and what to do."""

from __future__ import annotations

from benchrun.api.status import BenchmarkRunStatus, Finding
from benchrun.judge.finding import SEVERITIES
from benchrun.report.html.blocks import FoundCard, Prose, Section
from benchrun.report.html.reported import Reported
from benchrun.report.rows import evidence_text


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
        evidence=[(name, evidence_text(value)) for name, value in found.evidence.items()],
    )
