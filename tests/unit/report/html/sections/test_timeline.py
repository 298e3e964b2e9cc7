"""The run over time."""

from __future__ import annotations

import pytest
from benchrun.report.html.sections.records import MANY_STAGES, timeline_section
from report_kit.simulated_run import simulated_run
from unit.report.html.reported_runs import (
    charts_of,
    data_of,
    measured,
    prose_of,
    reported,
)


def test_all_stages_are_on_the_timeline_and_readings_under_them() -> None:
    section = timeline_section(reported())
    assert section is not None
    (chart,) = charts_of(section)
    rows = data_of(chart.spec)
    assert sum("told" in row for row in rows) >= len(measured().records)
    assert {row["line"] for row in rows if "line" in row} == {"running", "waiting", "KV cache"}
    highest = max(sample.waiting or 0 for sample in measured().samples)
    assert max(
        row["high"] for row in rows if row.get("line") == "waiting" and row["high"] is not None
    ) == pytest.approx(highest, rel=1e-3)


def test_many_stages_get_a_drawing_with_room_for_each() -> None:
    run = simulated_run(rates=("8", "16"), repeats=MANY_STAGES // 2 + 1, requests=20)
    section = timeline_section(reported(run))
    assert section is not None
    assert [chart.title for chart in charts_of(section)] == ["The run over time", "Every stage"]


def test_a_timeline_without_readings_has_its_stages() -> None:
    section = timeline_section(reported(samples=()))
    assert section is not None
    assert "No samples" in prose_of(section)
    assert not any("line" in row for row in data_of(charts_of(section)[0].spec))


def test_a_timeline_without_records_has_its_readings() -> None:
    section = timeline_section(reported(records=()))
    assert section is not None
    assert "Records of 0 of 12 stages" in prose_of(section)
    assert any(row.get("line") == "running" for row in data_of(charts_of(section)[0].spec))


def test_nothing_measured_has_no_timeline() -> None:
    assert timeline_section(reported(records=(), samples=())) is None
