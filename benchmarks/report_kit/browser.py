"""Headless Chromium with nothing of its own going on: no updates, no look-ups, nothing but the
page."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # A browser that runs as root has no sandbox; the pages opened here are our own.
    "--no-sandbox",
)


class BrowserMissing(RuntimeError):
    """There is no browser to test with."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """The machine's own Chromium. Raises BrowserMissing."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise BrowserMissing("Chromium was not found on PATH; on Debian: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()
