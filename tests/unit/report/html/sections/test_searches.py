"""Where a load was searched: which loads were tried, in which order, and what became of each."""

from benchrun.report.html import Section
from benchrun.report.html.sections.curves import (
    OUTCOMES,
    load_curves_section,
    searches_section,
)
from benchrun.report.html.sections.distributions import distributions_section
from benchrun.report.html.sections.timeline import timeline_section
from unit.golden_messages import golden
from unit.report.html.reported_runs import (
    charts_of,
    data_of,
    prose_of,
    reported,
    tables_of,
    with_document,
)
from unit.report.html.searched_runs import TRIED, searched


def section() -> Section:
    found = searches_section(searched())
    assert found is not None
    return found


def test_a_run_without_a_search_has_no_such_section() -> None:
    assert searches_section(reported()) is None


def test_a_stage_of_a_search_belongs_to_the_load_that_it_tried() -> None:
    run = searched()
    assert [stage.load_point for stage in run.stages] == [
        f"chat/rate={rate}" for rate in TRIED
    ]
    assert [len(run.stages_of(row.load_point)) for row in run.status.results] == [
        1
    ] * len(TRIED)


def test_the_course_is_drawn_in_the_order_in_which_loads_were_tried() -> None:
    [chart] = charts_of(section())
    course = [
        (row["number"], row["load"])
        for row in data_of(chart.spec)
        if "number" in row
    ]
    assert sorted(course)[: len(TRIED)] == [
        (number, float(rate)) for number, rate in enumerate(TRIED, start=1)
    ]
    outcomes = {row["outcome"] for row in data_of(chart.spec) if "outcome" in row}
    assert {"Met", "Missed"} <= outcomes <= set(OUTCOMES)


def test_the_answer_is_marked() -> None:
    [chart] = charts_of(section())
    assert {"load": 16.0} in data_of(chart.spec)
    golden(prose_of(section()))


def test_the_table_tells_what_decided() -> None:
    [table] = tables_of(section())
    assert table.rows.headers == (
        "tried",
        "load",
        "stages",
        "TTFT p95 (ms)",
        "tok/s",
        "outcome",
        "verdict",
    )
    assert [(row[0], row[1]) for row in table.rows.rows] == [
        (str(n), rate) for n, rate in enumerate(TRIED, start=1)
    ]
    outcome = {row[1]: row[5] for row in table.rows.rows}
    assert (outcome["8"], outcome["16"], outcome["24"]) == (
        "Met",
        "Inconclusive",
        "Missed",
    )


def test_without_stages_the_order_is_not_made_up() -> None:
    found = searches_section(with_document(searched(), stages=[]))
    assert found is not None
    assert charts_of(found) == []
    [table] = tables_of(found)
    assert [row[:2] for row in table.rows.rows] == [
        ("-", rate) for rate in sorted(TRIED, key=int)
    ]
    golden(prose_of(found))


def test_distributions_curves_and_timeline_find_the_stages_of_a_search() -> None:
    run = searched()
    distributions = distributions_section(run)
    curves = load_curves_section(run)
    timeline = timeline_section(run)
    assert distributions is not None
    assert curves is not None
    assert timeline is not None
    assert "of those that are" not in prose_of(distributions)
    assert len(
        {
            row["load"]
            for row in data_of(charts_of(distributions)[0].spec)
            if "load" in row
        }
    ) == len(TRIED)
    labels = [
        row["label"]
        for row in data_of(charts_of(timeline)[0].spec)
        if "label" in row
    ]
    assert set(labels) - {""} <= set(TRIED)
    assert set(labels) != {""}
