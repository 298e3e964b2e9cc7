"""The first section: the verdict, and what goes with it."""

import pytest
from benchrun.api import SEVERITIES, Condition, SearchResult
from benchrun.report.html import CodeBlock, FactList, FindingCard, Verdict
from benchrun.report.html.sections.verdict import findings_section, verdict_section
from unit.golden_messages import golden
from unit.report.html.reported_runs import (
    RATES,
    measured,
    prose_of,
    reported,
    tables_of,
    with_status,
)


def condition(type_: str, status: str, reason: str) -> Condition:
    return Condition.model_validate(
        {"type": type_, "status": status, "reason": reason}
    )


def test_the_verdict_is_the_first_word() -> None:
    first = verdict_section(reported()).elements[0]
    assert isinstance(first, Verdict)
    assert first.word == measured().status.verdict
    golden(first.message)


@pytest.mark.parametrize(
    ("reason", "word"),
    [("ServerStartFailed", "Failed"), ("Cancelled", "Cancelled")],
)
def test_a_run_that_ended_badly_says_so_before_all(reason: str, word: str) -> None:
    section = verdict_section(
        with_status(
            reported(),
            phase=word,
            conditions=(condition("Failed", "True", reason),),
        )
    )
    first = section.elements[0]
    glance = next(e for e in section.elements if isinstance(e, FactList))
    assert isinstance(first, Verdict)
    assert first.word == word
    assert ("Ended because", reason) in glance.pairs


def test_objectives_stand_with_the_verdict() -> None:
    (table,) = tables_of(verdict_section(reported()))
    assert [row[1] for row in table.rows.rows] == ["TTFT p99 at most 200 ms"] * len(
        RATES
    )
    assert {row[3] for row in table.rows.rows} <= {"Met", "Missed", "Inconclusive"}


def test_what_a_search_found_stands_with_the_verdict() -> None:
    found = SearchResult(
        workload="chat",
        axis="RequestRate",
        outcome="Bracketed",
        probes=5,
        stages=9,
        sentence="Between 14 and 15.",
    )
    table, _ = tables_of(verdict_section(with_status(reported(), searches=[found])))
    assert table.rows.rows == (("chat", "Bracketed", "Between 14 and 15."),)


def test_the_last_words_of_the_server_are_kept_as_they_are() -> None:
    blocks = verdict_section(with_status(reported(), log_tail="a\n  b")).elements
    assert [block.text for block in blocks if isinstance(block, CodeBlock)] == [
        "a\n  b"
    ]


def test_findings_stand_worst_first_with_evidence_and_remedy() -> None:
    cards = [
        block
        for block in findings_section(reported()).elements
        if isinstance(block, FindingCard)
    ]
    ranks = [SEVERITIES.index(card.severity) for card in cards]
    assert ranks == sorted(ranks, reverse=True)
    assert {card.code for card in cards} == {
        finding.code for finding in measured().status.findings
    }
    assert all(card.remedy for card in cards)
    assert any(card.evidence for card in cards)
    stored = {
        finding.code: finding.sentence for finding in measured().status.findings
    }
    assert {card.code: card.sentence for card in cards} == stored


def test_a_report_without_findings_says_so() -> None:
    golden(prose_of(findings_section(with_status(reported(), findings=[]))))
