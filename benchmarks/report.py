"""What the HTML report of a large run costs: its size, and how long a browser takes to open it.

A small report is opened for comparison. The run is simulated: 200 stages, with a comparison. Needs
the extra `report`, Chromium and playwright. Progress goes to standard error; the last line on
standard output is one JSON object. Exits 1 when a limit is not kept. With `--screenshots DIR` each
section is photographed, too: light, dark, and on a phone.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from _outcome import beyond, finish, say
from benchrun.cli.html_page import draw
from benchrun.observe import Run
from benchrun.report.html import Reported
from benchrun.report.html.page import page
from playwright.sync_api import Browser
from report_kit.browser import chromium
from report_kit.screenshots import take_screenshots
from report_kit.simulated_run import SimulatedRun, held_against, simulated_run

RATES = tuple(str(rate) for rate in (1, 2, 4, 6, 8, 10, 12, 14, 16, 18))
WORKLOADS = ("chat", "code", "rag", "search", "summary")
ROUNDS = 5
MAX_BYTES = 5_000_000
MAX_OPEN_MS = 2_000.0
MAX_RATIO = 10.0
"""The large run has 67 times as many stages. A page on which a browser works for each stage would
be far above the limit, on any machine."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The JSON object that is printed; times are medians."""

    stages: int
    page_bytes: int
    build_seconds: float
    """Time to make the page, including charts."""
    open_ms: float
    """Time from requesting the file to the frame that shows it."""
    small_open_ms: float
    """The same for a run with three stages."""
    ratio: float
    """Ratio of `open_ms` to `small_open_ms`, measured in one benchmark run: it does not depend on
    the machine."""

    def beyond_limits(self) -> Iterator[str]:
        """Yield a line for every limit that is not kept."""
        return beyond(
            self,
            below={"page_bytes": MAX_BYTES, "open_ms": MAX_OPEN_MS},
            at_most={"ratio": MAX_RATIO},
        )


def main() -> int:
    """Build both pages, open them in turn, print the figures and compare them with the limits.

    Return the exit status: 0, or 1 when a limit is not kept.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--screenshots",
        type=Path,
        metavar="DIR",
        help="photograph each section into this folder",
    )
    screenshots = parser.parse_args().screenshots
    large = _large()
    small = simulated_run("small", rates=("2", "8", "16"), repeats=1, requests=100)
    began = time.perf_counter()
    text = _page(large)
    build_seconds = time.perf_counter() - began
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        files = [Path(folder) / "large.html", Path(folder) / "small.html"]
        for file, each in zip(files, (text, _page(small)), strict=True):
            file.write_text(each, encoding="utf-8")
        opened = [
            [_open_ms(browser, file) for file in files] for _ in range(ROUNDS + 1)
        ][1:]
        if screenshots is not None:
            for line in take_screenshots(browser, files[0], screenshots):
                say(line)
    open_ms, small_ms = (
        statistics.median(times) for times in zip(*opened, strict=True)
    )
    figures = Figures(
        stages=len(large.records),
        page_bytes=len(text.encode()),
        build_seconds=round(build_seconds, 1),
        open_ms=round(open_ms),
        small_open_ms=round(small_ms),
        ratio=round(open_ms / small_ms, 2),
    )
    return finish(figures)


def _large() -> SimulatedRun:
    limits = [
        {"metric": "TTFT", "maxMilliseconds": 200},
        {"metric": "E2EL", "percentile": "95", "maxMilliseconds": 1500},
    ]
    run = simulated_run(
        "nightly",
        rates=RATES,
        workloads=WORKLOADS,
        repeats=4,
        requests=400,
        objectives=limits,
    )
    before = simulated_run(
        "last-week",
        rates=RATES,
        workloads=WORKLOADS,
        repeats=4,
        requests=400,
        slowness=1.1,
    )
    return held_against(run, before)


def _page(run: SimulatedRun) -> str:
    declared = Run("lab", run.name, run.uid, 1, run.body)
    reported = Reported(declared, run.spec, run.status, run.document)
    return page(reported, draw, made_by="benchmark")


def _open_ms(browser: Browser, file: Path) -> float:
    """Return the milliseconds until a tab of its own has drawn a frame with the whole page."""
    tab = browser.new_page()
    try:
        began = time.perf_counter()
        tab.goto(file.as_uri(), wait_until="load")
        tab.evaluate(
            "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        return 1000 * (time.perf_counter() - began)
    finally:
        tab.close()


if __name__ == "__main__":
    sys.exit(main())
