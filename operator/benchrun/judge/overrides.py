"""Severities that the spec changes. What was changed stays to be seen in the result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from benchrun.api.measurement import RuleSeverity
from benchrun.judge.finding import StageFinding


def overridden(findings: Iterable[StageFinding], rules: Sequence[RuleSeverity]) -> list[StageFinding]:
    """The findings as the spec wants them: with another severity, or left out."""
    wanted = {rule.code: rule.severity for rule in rules}
    changed = []
    for finding in findings:
        severity = wanted.get(finding.code.value, finding.severity)
        if severity == "Off":
            continue
        if severity != finding.severity:
            finding = replace(finding, severity=severity, default_severity=finding.severity)
        changed.append(finding)
    return changed


def told(rules: Sequence[RuleSeverity]) -> list[str]:
    """`code=severity` for the status."""
    return [f"{rule.code}={rule.severity}" for rule in rules]
