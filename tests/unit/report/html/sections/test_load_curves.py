"""Latency against load, and where the knee is marked."""

import math

from benchrun.report.html.sections.curves import load_curves_section
from report_kit.simulated_run import simulated_run
from unit.report.html.reported_runs import (
    charts_of,
    data_of,
    measured,
    prose_of,
    reported,
    with_status,
)

KINDS = ("TTFT", "TPOT", "E2EL", "Output tokens/s")


def test_latencies_and_throughput_are_drawn_against_load() -> None:
    section = load_curves_section(reported())
    assert section is not None
    charts = charts_of(section)
    assert tuple(chart.title for chart in charts) == KINDS
    for chart in charts:
        loads = {row["load"] for row in data_of(chart.spec) if "value" in row}
        assert loads == {2.0, 8.0, 12.0, 16.0, 20.0}
        assert all(math.isfinite(load) for load in loads)


def test_the_knee_is_marked_in_every_chart_and_said() -> None:
    section = load_curves_section(reported())
    assert section is not None
    text = prose_of(section)
    assert "The knee is at 16 requests/s" in text
    marked = [
        [row["load"] for row in data_of(chart.spec) if set(row) == {"load"}]
        for chart in charts_of(section)
    ]
    assert all(loads == [16.0, 16.0] for loads in marked)
    assert "Kleinrock" in text


def test_load_points_that_are_invalid_make_no_knee() -> None:
    rows = [
        row.model_copy(update={"verdict": "Invalid"})
        for row in measured().status.results
    ]
    section = load_curves_section(with_status(reported(), results=rows))
    assert section is not None
    assert "No knee is marked" in prose_of(section)
    assert not any(
        set(row) == {"load"}
        for chart in charts_of(section)
        for row in data_of(chart.spec)
    )


def test_under_a_cap_latency_counts_from_when_a_request_was_due() -> None:
    queued = {
        "mean_e2el_including_client_queue_ms": 9e4,
        "median_e2el_including_client_queue_ms": 9e4,
    }
    rows = [
        row.model_copy(update={"metrics": {**row.metrics, **queued}})
        for row in measured().status.results
    ]
    section = load_curves_section(
        with_status(reported(document=None), results=rows)
    )
    assert section is not None
    e2el = next(chart for chart in charts_of(section) if chart.title == "E2EL")
    assert {
        row["value"] for row in data_of(e2el.spec) if row.get("line") == "median"
    } == {9e4}


def test_a_single_load_draws_no_curve() -> None:
    run = simulated_run(rates=("4", "inf"), repeats=1, requests=30)
    assert load_curves_section(reported(run)) is None
