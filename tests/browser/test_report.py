"""Reports in a real browser: light, dark, on a phone, without a network, and against strings that
want to be code."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from benchrun.cli.html_page import draw
from benchrun.report.html.page import page
from browser.watching import watched
from playwright.sync_api import Browser, Page
from unit.report.html.reported_runs import hostile
from unit.report.html.reported_sweeps import hostile as hostile_sweep, page_of

PHONE_WIDTH = 360
LEAST_TEXT_PIXELS = 10.0
Scheme = Literal["light", "dark"]


@pytest.fixture(params=["light", "dark"])
def scheme(request: pytest.FixtureRequest) -> Scheme:
    wanted: Scheme = request.param
    return wanted


@pytest.fixture
def desktop(browser: Browser, scheme: Scheme, report_file: Path) -> Iterator[Page]:
    tab = browser.new_page(
        viewport={"width": 1280, "height": 900}, color_scheme=scheme
    )
    tab.goto(report_file.as_uri())
    yield tab
    tab.close()


@pytest.fixture
def phone(browser: Browser, scheme: Scheme, report_file: Path) -> Iterator[Page]:
    tab = browser.new_page(
        viewport={"width": PHONE_WIDTH, "height": 740},
        color_scheme=scheme,
        has_touch=True,
    )
    tab.goto(report_file.as_uri())
    yield tab
    tab.close()


def test_nothing_is_said_and_nothing_fetched(
    browser: Browser, report_file: Path
) -> None:
    tab = browser.new_page()
    seen = watched(tab)
    tab.goto(report_file.as_uri(), wait_until="networkidle")
    for summary in tab.locator("summary").all():
        summary.click()
    assert seen.said == []
    assert seen.asked == [report_file.as_uri()]
    tab.close()


@pytest.mark.parametrize(
    "made",
    [
        lambda: page(hostile(), draw, made_by="0.1.0"),
        lambda: page_of(hostile_sweep(), draw),
    ],
    ids=["run", "sweep"],
)
def test_strings_of_others_do_not_run(
    made: Callable[[], str], browser: Browser, tmp_path: Path
) -> None:
    file = tmp_path / "hostile.html"
    file.write_text(made(), encoding="utf-8")
    tab = browser.new_page()
    seen = watched(tab)
    tab.goto(file.as_uri(), wait_until="networkidle")
    assert (seen.said, seen.dialogs, seen.asked) == ([], [], [file.as_uri()])
    assert tab.locator("script, img, iframe").count() == 0
    tab.close()


def test_charts_have_the_colours_of_the_scheme(
    desktop: Page, scheme: Scheme
) -> None:
    paper, ink, drawn = desktop.evaluate(
        """() => [getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
                  getComputedStyle(document.querySelector('figure svg text')).fill]"""
    )
    assert (
        paper == {"light": "rgb(246, 247, 249)", "dark": "rgb(16, 19, 24)"}[scheme]
    )
    assert ink == {"light": "rgb(22, 25, 31)", "dark": "rgb(232, 234, 238)"}[scheme]
    assert (
        drawn == {"light": "rgb(84, 92, 105)", "dark": "rgb(165, 173, 186)"}[scheme]
    )


def test_every_chart_is_drawn_and_named(desktop: Page) -> None:
    charts = desktop.locator("figure svg")
    assert charts.count() >= 10
    for chart in charts.all():
        assert chart.get_attribute("aria-label")
        box = chart.evaluate(
            "each => [each.getBBox().width, each.getBBox().height]"
        )
        assert min(box) > 50


def test_no_text_of_a_chart_is_cut_off(desktop: Page) -> None:
    outside = desktop.evaluate(
        """() => [...document.querySelectorAll('figure svg')].flatMap(svg => {
            const frame = svg.getBoundingClientRect();
            return [...svg.querySelectorAll('text')].filter(text => text.textContent).filter(text => {
                const box = text.getBoundingClientRect();
                return box.left < frame.left - 1 || box.right > frame.right + 1
                    || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
            }).map(text => svg.getAttribute('aria-label') + ': ' + text.textContent);
        })"""
    )
    assert outside == []


def test_a_phone_scrolls_one_way_only(phone: Page) -> None:
    assert phone.evaluate("document.documentElement.scrollWidth") <= PHONE_WIDTH


def test_charts_can_be_read_on_a_phone(phone: Page) -> None:
    sizes = phone.evaluate(
        """() => [...document.querySelectorAll('figure svg')].map(svg => {
            const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
            const sizes = [...svg.querySelectorAll('text')].map(text => parseFloat(getComputedStyle(text).fontSize));
            return scale * Math.min(...sizes);
        })"""
    )
    assert min(sizes) >= LEAST_TEXT_PIXELS


def test_automatic_checks_of_accessibility_find_nothing(desktop: Page) -> None:
    for summary in desktop.locator("summary").all():
        summary.click()
    found = Axe().run(desktop)
    assert found.violations_count == 0, found.generate_report()


def test_the_keyboard_reaches_what_scrolls(phone: Page) -> None:
    stuck = phone.evaluate(
        """() => [...document.querySelectorAll('*')].filter(each =>
            each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX === 'auto' && each.tabIndex < 0).length"""
    )
    assert stuck == 0
