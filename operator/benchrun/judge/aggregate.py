"""The findings of many stages as one entry a code, for the status."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api.status import Finding
from benchrun.judge.catalogue import EXPLANATIONS
from benchrun.judge.finding import SEVERITIES, Code, StageFinding


def aggregate(findings: Iterable[StageFinding]) -> tuple[Finding, ...]:
    """One entry a code: the worst first, then as the codes are listed. Evidence is the worst stage's."""
    by_code: dict[Code, list[StageFinding]] = {}
    for finding in findings:
        by_code.setdefault(finding.code, []).append(finding)
    entries = [_entry(by_code[code]) for code in Code if code in by_code]
    return tuple(sorted(entries, key=lambda entry: -SEVERITIES.index(entry.severity)))


def _entry(found: list[StageFinding]) -> Finding:
    # max keeps the first of equals: the earliest stage.
    worst = max(found, key=lambda finding: (SEVERITIES.index(finding.severity), finding.weight))
    explanation = EXPLANATIONS[worst.code]
    return Finding(
        code=worst.code,
        severity=worst.severity,
        default_severity=worst.default_severity,
        count=len({finding.stage_id for finding in found}),
        worst_stage=worst.stage_id,
        evidence=dict(worst.evidence),
        meaning=explanation.meaning,
        remedy=explanation.remedy,
    )
