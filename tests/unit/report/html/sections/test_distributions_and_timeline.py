"""Distributions and the timeline: what is drawn, and what the tables hold."""

import json
import re
from dataclasses import replace
from itertools import pairwise

import pytest
from benchrun.judge.judged_run import TIMELINE_SPANS
from benchrun.measure import latencies, role_timelines
from benchrun.report.html.sections.distributions import (
    distributions_section,
    evenly,
)
from benchrun.report.html.sections.timeline import (
    MANY_STAGES,
    side_by_side_section,
    timeline_section,
)
from report_kit.simulated_run import simulated_run
from unit.golden_messages import golden
from unit.measure.timelines import gauge_samples
from unit.report.finished_sweeps import batches
from unit.report.html.reported_runs import (
    charts_of,
    data_of,
    measured,
    prose_of,
    reported,
    tables_of,
    with_document,
)


def test_each_latency_has_its_distribution() -> None:
    section = distributions_section(reported())
    assert section is not None
    assert [chart.title.partition(":")[0] for chart in charts_of(section)] == [
        "TTFT",
        "TPOT",
        "ITL",
        "E2EL",
    ]


def test_a_line_is_the_distribution_of_its_load_point() -> None:
    section = distributions_section(reported())
    assert section is not None
    rows = [
        row for row in data_of(charts_of(section)[0].spec) if row.get("load") == "8"
    ]
    records = [r for r in measured().records if "/rate=8/" in r.stage_id]
    pool = latencies(records, "ttft")
    assert rows[-1]["share"] == 1.0
    assert rows[-1]["ms"] == pytest.approx(pool.values[-1] / 1000, rel=1e-4)
    (median,) = [row["ms"] for row in rows if row["share"] == 0.5]
    assert median == pytest.approx((pool.percentile(50) or 0) / 1000, rel=1e-4)
    assert all(
        a["ms"] <= b["ms"] and a["share"] <= b["share"] for a, b in pairwise(rows)
    )


def test_tables_hold_every_load_point_though_not_all_are_drawn() -> None:
    rates = tuple(str(rate) for rate in range(1, 13))
    section = distributions_section(
        reported(simulated_run(rates=rates, repeats=1, requests=40))
    )
    assert section is not None
    assert {
        row["load"] for row in data_of(charts_of(section)[0].spec) if "load" in row
    } < set(rates)
    assert [row[0] for row in tables_of(section)[0].rows.rows] == list(rates)
    golden(prose_of(section))


def test_the_first_and_the_last_are_always_drawn() -> None:
    rows = measured().status.results
    assert evenly(rows, 2) == [rows[0], rows[-1]]
    assert evenly(rows, 8) == list(rows)


def test_variants_stand_over_time_in_one_figure_each_from_its_own_start() -> None:
    """Steps of 10,000, 80,000 and 160,000 tokens: what ran, what waited, and how full the KV cache
    was."""
    gauges = {
        "10000": (33.0, 491.0, 0.094),
        "80000": (267.0, 436.0, 0.78),
        "160000": (276.0, 367.0, 0.99),
    }
    series = {
        name: role_timelines(
            [
                replace(each, at=each.at + 1000 * place)
                for each in gauge_samples([values] * 60, every_seconds=5.0)
            ],
            at_most=TIMELINE_SPANS,
        )
        for place, (name, values) in enumerate(gauges.items())
    }
    assert side_by_side_section(batches().reported) is None
    section = side_by_side_section(
        replace(batches().reported, series={n: t for n, t in series.items() if t})
    )
    assert section is not None
    (chart,) = charts_of(section)
    rows = [row for row in data_of(chart.spec) if "line" in row]
    means = {(row["line"], row["mean"]) for row in rows if row["mean"] is not None}
    assert means == {
        (name, mean)
        for name, (running, waiting, kv) in gauges.items()
        for mean in (running, waiting, 100 * kv)
    }
    assert {row["at"] for row in rows if row["line"] == "10000"} == {
        row["at"] for row in rows if row["line"] == "160000"
    }


def test_without_a_document_no_distribution_is_drawn() -> None:
    section = distributions_section(reported(document=None))
    assert section is not None
    assert charts_of(section) == []
    golden(prose_of(section))


def test_all_stages_are_on_the_timeline_and_samples_under_them() -> None:
    section = timeline_section(reported())
    assert section is not None
    (chart,) = charts_of(section)
    rows = data_of(chart.spec)
    assert sum("text" in row for row in rows) >= len(measured().records)
    assert {row["line"] for row in rows if "line" in row} == {
        "running",
        "waiting",
        "KV cache",
    }
    highest = max(sample.waiting or 0 for sample in measured().samples)
    assert max(
        row["high"]
        for row in rows
        if row.get("line") == "waiting" and row["high"] is not None
    ) == pytest.approx(highest, rel=1e-3)


def test_many_stages_get_a_drawing_with_room_for_each() -> None:
    run = simulated_run(
        rates=("8", "16"), repeats=MANY_STAGES // 2 + 1, requests=20
    )
    section = timeline_section(reported(run))
    assert section is not None
    golden(*[chart.title for chart in charts_of(section)])


def test_a_cache_that_is_nearly_empty_is_not_shown_in_thousandths_of_a_percent() -> (
    None
):
    section = timeline_section(reported())
    assert section is not None
    drawn = json.dumps(charts_of(section)[0].spec)
    assert re.findall(r'"title": "KV cache, %"[^}]*"format": "(\S+)"', drawn)[
        :1
    ] == ["~r"]


def test_a_timeline_without_samples_has_its_stages() -> None:
    section = timeline_section(with_document(reported(), timeline=None))
    assert section is not None
    assert "No samples" in prose_of(section)
    assert not any("line" in row for row in data_of(charts_of(section)[0].spec))


def test_a_timeline_without_stages_has_its_samples() -> None:
    section = timeline_section(with_document(reported(), stages=[]))
    assert section is not None
    assert any(
        row.get("line") == "running" for row in data_of(charts_of(section)[0].spec)
    )
    golden(prose_of(section))


def test_nothing_measured_has_no_timeline() -> None:
    assert timeline_section(reported(document=None)) is None
