"""Headless Chromium that does nothing but show the page: no updates, no background requests."""

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
    # A browser that runs as root has no sandbox; the pages opened here are trusted.
    "--no-sandbox",
)


class BrowserMissing(RuntimeError):
    """There is no browser to test with."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """Yield the machine's own Chromium. Raises BrowserMissing when there is none."""
    found = next(filter(None, map(shutil.which, CHROMIUM)), None)
    if found is None:
        raise BrowserMissing(
            "Chromium was not found on PATH; on Debian: apt-get install chromium"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=found, args=list(ARGUMENTS)
        )
        try:
            yield browser
        finally:
            browser.close()
