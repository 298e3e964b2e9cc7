"""The page as a whole: its order, what it may not hold, and that strings of others stay strings."""

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from unit.report.html.reported_runs import (
    compared,
    hostile,
    page_of,
    reported,
    with_status,
)

ALLOWED = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "body",
        "header",
        "nav",
        "main",
        "section",
        "footer",
        "article",
        "details",
    ),
    *(
        "a",
        "p",
        "h1",
        "h2",
        "h3",
        "ul",
        "li",
        "div",
        "span",
        "strong",
        "pre",
        "summary",
        "figure",
        "figcaption",
    ),
    *("table", "caption", "thead", "tbody", "tr", "th", "td", "dl", "dt", "dd"),
    *(
        "svg",
        "g",
        "path",
        "rect",
        "line",
        "text",
        "tspan",
        "circle",
        "defs",
        "clippath",
    ),
}


class Elements(HTMLParser):
    """Every element of a page, with its attributes; whether they are closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        self.found.append((tag, dict(attributes)))
        if tag not in ("meta",):
            self.open.append(tag)

    def handle_startendtag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        self.found.append((tag, dict(attributes)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> str:
    return page_of(reported(compared()))


def test_sections_come_in_the_order_in_which_they_are_read(page: str) -> None:
    assert re.findall(r'<section id="([a-z]+)"', page) == [
        "verdict",
        "results",
        "load",
        "comparison",
        "findings",
        "limits",
        "distributions",
        "timeline",
        "provenance",
        "repeat",
    ]


def test_the_list_of_sections_leads_to_each_of_them(page: str) -> None:
    links = re.findall(r'<li><a href="#([a-z]+)">', page)
    assert links == re.findall(r'<section id="([a-z]+)"', page)


def test_without_a_baseline_there_is_no_comparison() -> None:
    assert 'id="comparison"' not in page_of(reported())


def test_the_same_run_gives_the_same_page(page: str) -> None:
    assert page_of(reported(compared())) == page


def test_nothing_is_fetched_and_nothing_runs(page: str) -> None:
    assert (
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; style-src '
        "'sha256-" in page
    )
    for tag, attributes in Elements(page).found:
        assert tag in ALLOWED
        assert not any(
            name.startswith("on") or name in ("src", "srcset", "style", "action")
            for name in attributes
        )
        assert (attributes.get("href") or "#").startswith("#")
    assert "@import" not in page
    assert "url(" not in page


def test_the_policy_names_the_style_that_is_there(page: str) -> None:
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert f"'sha256-{b64encode(sha256(style.encode()).digest()).decode()}'" in page


@pytest.mark.parametrize(
    "build", [lambda: reported(compared()), hostile], ids=["ours", "hostile"]
)
def test_every_element_is_closed_where_it_should_be(build: object) -> None:
    assert callable(build)
    assert Elements(page_of(build())).open == []


def test_strings_of_others_stay_strings() -> None:
    page = page_of(hostile())
    assert {tag for tag, _ in Elements(page).found} <= ALLOWED
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page
    assert "{{ 7*7 }}" in page, "a template in a string is not one"


def test_identifiers_are_unique(page: str) -> None:
    ids = [
        attributes["id"]
        for _, attributes in Elements(page).found
        if "id" in attributes
    ]
    assert len(ids) == len(set(ids))


def test_headings_do_not_leave_out_a_level(page: str) -> None:
    levels = [
        int(tag[1])
        for tag, _ in Elements(page).found
        if re.fullmatch(r"h[1-6]", tag)
    ]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


def test_every_table_has_a_caption(page: str) -> None:
    assert page.count("<table") == page.count("<caption>") > 5


def test_a_run_that_measured_nothing_has_a_page() -> None:
    run = with_status(
        reported(document=None),
        results=[],
        findings=[],
        verdict=None,
        headline=None,
        log_tail="OOM <x>",
    )
    page = page_of(run)
    assert re.findall(r'<section id="([a-z]+)"', page) == [
        "verdict",
        "results",
        "findings",
        "provenance",
        "repeat",
    ]
    assert "OOM &lt;x&gt;" in page
    assert "No load point was measured." in page
