"""Findings as cards."""

from __future__ import annotations

from benchrun.judge.rules.rule import SEVERITIES
from benchrun.report.html.blocks import FoundCard
from benchrun.report.html.sections.verdict import findings_section
from unit.report.html.reported_runs import (
    measured,
    prose_of,
    reported,
    with_status,
)


def test_findings_stand_worst_first_with_evidence_and_remedy() -> None:
    cards = [block for block in findings_section(reported()).blocks if isinstance(block, FoundCard)]
    ranks = [SEVERITIES.index(card.severity) for card in cards]
    assert ranks == sorted(ranks, reverse=True)
    assert {card.code for card in cards} == {finding.code for finding in measured().status.findings}
    assert all(card.remedy for card in cards)
    assert any(card.evidence for card in cards)


def test_nothing_found_is_said() -> None:
    assert "No rule found anything." in prose_of(findings_section(with_status(reported(), findings=[])))
