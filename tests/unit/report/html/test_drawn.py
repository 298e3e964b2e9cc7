"""Pages with their charts really drawn."""

from dataclasses import replace

import pytest
from benchrun.api import BenchmarkRunStatus
from benchrun.cli.html_page import draw
from benchrun.report.html import ChartSpec, Section
from benchrun.report.html.page import page
from benchrun.report.html.sections.curves import load_curves_section
from benchrun.report.html.sections.distributions import (
    cdf_chart,
    distributions_section,
)
from benchrun.report.html.sections.timeline import timeline_section
from benchrun.report.html.svg import inline_svg
from benchrun.report.html.theme import CARD_HEIGHT, CARD_WIDTH
from report_kit.simulated_run import simulated_run
from unit.report.html.reported_runs import charts_of, compared, reported

HOSTILE = (
    """</text><script>alert(1)</script>"'&amp;<image href="http://elsewhere"/>"""
)


def drawn(spec: ChartSpec) -> str:
    return inline_svg(draw(spec), prefix="c-", label="chart")


def test_a_card_fits_a_phone() -> None:
    svg = drawn(charts_of(_section(load_curves_section(reported())))[0].spec)
    assert f'width="{CARD_WIDTH}" height="{CARD_HEIGHT}"' in svg


def test_colours_are_those_of_the_page_in_both_schemes() -> None:
    run = reported(compared())
    sections = (
        load_curves_section(run),
        distributions_section(run),
        timeline_section(run),
    )
    for chart in (
        chart for section in sections for chart in charts_of(_section(section))
    ):
        svg = drawn(chart.spec)
        assert "var(--" in svg
        assert not any(
            f'{paint}="#' in svg or f'{paint}="rgb' in svg
            for paint in ("fill", "stroke")
        )


def test_points_and_stages_say_what_they_are() -> None:
    run = reported()
    for section in (load_curves_section(run), timeline_section(run)):
        svg = drawn(charts_of(_section(section))[0].spec)
        assert "<title>chat/rate=8" in svg


def test_strings_of_others_stay_text_in_a_drawing() -> None:
    svg = drawn(cdf_chart({HOSTILE: [(1.0, 0.5), (2.0, 1.0)]}, legend=HOSTILE))
    assert "<script" not in svg
    assert "<image" not in svg


@pytest.mark.parametrize("requests", [1, 30])
def test_few_requests_make_a_page(requests: int) -> None:
    run = simulated_run(rates=("1", "2", "4"), repeats=1, requests=requests)
    assert "<svg" in page(reported(run), draw, made_by="0.1.0")


@pytest.mark.parametrize("users", [(1,), (1, 8, 64, 512)])
def test_users_instead_of_rates_make_a_page(users: tuple[int, ...]) -> None:
    run = simulated_run(users=users, repeats=2, requests=60)
    assert " users" in page(reported(run), draw, made_by="0.1.0")


def test_a_status_alone_makes_a_page() -> None:
    empty = replace(reported(), status=BenchmarkRunStatus(), document=None)
    assert "Unknown" in page(empty, draw, made_by="0.1.0")


def _section(section: Section | None) -> Section:
    assert section is not None
    return section
