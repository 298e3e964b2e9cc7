"""A real browser, and pages for it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchrun.cli.html_page import draw
from benchrun.report.html.page import page
from playwright.sync_api import Browser
from report_kit.browser import chromium
from unit.report.html.reported_runs import compared, reported
from unit.report.html.reported_sweeps import page_of as sweep_page_of, several
from unit.report.html.searched_runs import searched


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


PAGES: dict[str, Callable[[], str]] = {
    "run": lambda: page(reported(compared()), draw, made_by="0.1.0"),
    "search": lambda: page(searched(), draw, made_by="0.1.0"),
    "sweep": lambda: sweep_page_of(several(), draw),
}
"""A run with a baseline, one whose load was searched, and a sweep."""


@pytest.fixture(scope="session", params=list(PAGES))
def report_file(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Each of them, as one file."""
    file = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    file.write_text(PAGES[request.param](), encoding="utf-8")
    return file
