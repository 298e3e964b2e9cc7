"""A real browser, and pages for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from benchrun.cli.html_page import draw
from benchrun.report.html.page import page
from playwright.sync_api import Browser
from report_kit.browser import chromium
from unit.report.html.reported_runs import compared, reported


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="session")
def report_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a baseline, as one file."""
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(page(reported(compared()), draw, made_by="0.1.0"), encoding="utf-8")
    return file
