"""Verdicts of stages, cells and runs: each is as good as its worst finding; and findings of many stages as one entry a code."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api import Finding, Verdict
from benchrun.judge.rules.catalogue import EXPLANATIONS
from benchrun.judge.rules.rule import SEVERITIES, Code, StageFinding

_WORST_LAST: tuple[Verdict, ...] = ("Unknown", "Valid", "Suspect", "Invalid")


def verdict_of_findings(findings: Iterable[StageFinding]) -> Verdict:
    """Of a stage that was judged: a Note is no blemish."""
    return worst("Valid" if finding.severity == "Note" else finding.severity for finding in findings) or "Valid"


def worst(verdicts: Iterable[Verdict]) -> Verdict | None:
    """The worst of several; Unknown (nothing was measured) counts only where there is nothing else. None if there are none."""
    return max(verdicts, key=_WORST_LAST.index, default=None)


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
