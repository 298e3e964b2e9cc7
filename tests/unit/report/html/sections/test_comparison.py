"""The run beside its baseline."""

import pytest
from benchrun.report.html.sections.comparison import comparison_section
from unit.report.html.reported_runs import charts_of, compared, data_of, reported


def test_each_figure_of_the_comparison_has_its_bars_with_intervals() -> None:
    section = comparison_section(reported(compared()))
    assert section is not None
    comparison = compared().status.comparison
    assert comparison is not None
    for chart in charts_of(section):
        metric = chart.title.partition(" ")[0]
        changes = {
            c.load_point: x
            for c in comparison.load_points
            for x in c.changes
            if x.metric == metric and x.change_percent is not None
        }
        bars = [row for row in data_of(chart.spec) if "label" in row]
        assert {row["label"]: row["change"] for row in bars} == {
            load_point: x.change_percent for load_point, x in changes.items()
        }
        assert {row["label"]: row.get("low") for row in bars} == {
            load_point: x.low_percent for load_point, x in changes.items()
        }


@pytest.mark.parametrize(
    ("metric", "sign"), [("OutputThroughput", -1), ("MeanTTFT", 1)]
)
def test_the_line_of_the_gate_is_on_the_worse_side(metric: str, sign: int) -> None:
    section = comparison_section(reported(compared()))
    assert section is not None
    chart = next(
        chart for chart in charts_of(section) if chart.title.startswith(metric)
    )
    assert {row["at"] for row in data_of(chart.spec) if "at" in row} == {
        0.0,
        sign * 5.0,
    }
