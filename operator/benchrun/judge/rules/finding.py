"""What a rule gives back: something found, or that it could not look; and severities that the spec overrides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from benchrun.api import Code, RuleSeverity, Severity

__all__ = ["SEVERITIES", "Code", "Evidence", "Explanation", "NotChecked", "StageFinding"]

Evidence = Mapping[str, float | str | None]

SEVERITIES: tuple[Severity, ...] = ("Note", "Suspect", "Invalid")
"""Least to worst."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """Text of a code, the same in every run."""

    meaning: str
    """What it does to the numbers."""
    remedy: str
    """What to change."""


@dataclass(frozen=True, slots=True)
class StageFinding:
    """One thing found at one stage, or at a cell as a whole."""

    code: Code
    severity: Severity
    stage_id: str
    """The stage; the cell's id where it is about all its repeats."""
    evidence: Evidence = field(default_factory=dict)
    """The figures that decided, and the line they crossed."""
    weight: float = 0.0
    """How marked it is, to pick the worst stage of a code; compared within the code only."""
    default_severity: Severity | None = None
    """What the rule said, where the spec changed it."""


@dataclass(frozen=True, slots=True)
class NotChecked:
    """A rule whose input is missing: not the same as having found nothing."""

    code: Code
    why: str
    """In a few words: "no counters at both edges"."""


# ---- overrides --------------------------------------------------------------------------------------------------------
# Severities that the spec changes. What was changed stays to be seen in the result.


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
