"""The figures, and what was cut of them."""

from benchrun.api import Truncated
from benchrun.report.html import CodeBlock, Fold
from benchrun.report.html.sections.results import limits_section, results_section
from benchrun.report.serving_result import TITLE
from unit.report.html.reported_runs import (
    RATES,
    measured,
    prose_of,
    reported,
    tables_of,
    with_document,
    with_status,
)


def test_results_have_a_row_a_load_point_and_intervals_behind_a_click() -> None:
    figures, intervals = tables_of(results_section(reported()))
    assert [row[0] for row in figures.rows.rows] == [
        f"chat/rate={rate}" for rate in RATES
    ]
    assert intervals.rows.headers[2:5] == ("measured", "at least", "at most")


def test_truncated_lists_are_mentioned() -> None:
    cuts = [
        Truncated(field="findings", total=9, included=4),
        Truncated(field="records", total=9, included=3),
    ]
    text = prose_of(results_section(with_status(reported(), truncated=cuts)))
    assert "4 of 9 findings; 3 of 9 records." in text


def test_limits_are_the_operator_s_own_sentences() -> None:
    section = limits_section(reported())
    assert section is not None
    table, stages = tables_of(section)
    text = {
        row.load_point: row.bottleneck.sentence
        for row in measured().status.results
        if row.bottleneck
    }
    rows = table.rows.rows
    assert [row[3] for row in rows if row[0] == "chat/rate=inf"] == [
        text["chat/rate=inf"]
    ]
    assert "chat/rate=2" in prose_of(section)
    assert {row[1] for row in rows} == {"true run", "waiting", "limit"}
    assert len(stages.rows.rows) == sum(
        row.repeats for row in measured().status.results
    )


def test_every_stage_has_the_block_of_vllm_behind_a_click() -> None:
    run = reported()
    (folded,) = [
        each
        for each in results_section(run).elements
        if isinstance(each, Fold) and each.summary.startswith(TITLE)
    ]
    labels = [each.label for each in folded.elements if isinstance(each, CodeBlock)]
    assert labels == [stage.id for stage in run.stages]


def test_a_load_point_without_stages_has_a_block_of_its_own() -> None:
    run = with_document(
        reported(),
        stages=[s for s in reported().stages if s.load_point != "chat/rate=inf"],
    )
    (folded,) = [
        each
        for each in results_section(run).elements
        if isinstance(each, Fold) and each.summary.startswith(TITLE)
    ]
    last = folded.elements[-1]
    assert isinstance(last, CodeBlock)
    assert last.label == "chat/rate=inf, 2 repeats pooled"
