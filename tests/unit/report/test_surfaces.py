"""What people read, whole: the terminal, Markdown and the text of the HTML pages. Wording is pinned
here and nowhere else.

After a wanted change: `UPDATE_GOLDEN=1 pytest tests/unit/report/test_surfaces.py`, then read the
diff. Such a run fails."""

import io
import os
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest
from benchrun.api import (
    BenchmarkRunStatus,
    Finding,
    ObjectiveResult,
    Price,
    Truncated,
)
from benchrun.cli.console_tables import show_comparison, show_result, show_sweep
from benchrun.report.markdown import markdown, sweep_markdown
from rich.console import Console
from unit.report.html.reported_runs import compared, page_of, reported, with_status
from unit.report.html.reported_sweeps import page_of as sweep_page_of, several
from unit.report.statuses import PROFILE, result, status

GOLDEN = Path(__file__).parent / "golden"
PRICE = Price(requests=1640, repeats=3, minutes=6.83, gpu_seconds=819.5)


class Text(HTMLParser):
    """The text of a page: a line an element, or a row of a table; of a drawing, what screen readers
    say of it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._tag = ""
        self._row = ""
        self.feed(page)

    def handle_starttag(
        self, tag: str, attributes: list[tuple[str, str | None]]
    ) -> None:
        self._tag = tag
        self._row = "|" if tag == "tr" else self._row
        if tag == "svg":
            self.lines.append(f"[drawing: {dict(attributes)['aria-label']}]")

    def handle_data(self, text: str) -> None:
        if self._row:
            self._row += f" {text.strip()} |" if text.strip() else ""
        elif text.strip() and self._tag != "style":
            self.lines.append(text.strip())

    def handle_endtag(self, tag: str) -> None:
        if tag == "tr":
            self.lines.append(self._row)
            self._row = ""


def small() -> BenchmarkRunStatus:
    """A run with a finding, objectives, a comparison, a log and a list that was cut."""
    finding = Finding(
        code="RecordMissing",
        severity="Suspect",
        count=2,
        worst_stage="chat/concurrency=8/r2",
        meaning="A record is missing.",
        evidence={"planned": 3.0, "measured": 2.0},
        sentence="2 of 3 repeats were measured.",
        remedy="Measure again.",
    )
    objectives = [
        ObjectiveResult(
            metric="TTFT",
            percentile="99",
            max_milliseconds=200,
            measured_milliseconds=118.4,
            outcome="Inconclusive",
            price=PRICE,
        )
    ]
    comparison = compared().status.comparison
    assert comparison is not None
    update = {
        "findings": [finding],
        "comparison": comparison.model_copy(
            update={"load_points": comparison.load_points[:2]}
        ),
        "profile": PROFILE,
        "log_tail": "INFO ready\n<b>ERROR</b> gone",
        "truncated": [Truncated(field="findings", included=1, total=9)],
    }
    return status(
        result(objectives=objectives, prices={"p99_ttft_ms": PRICE}),
        result("chat/concurrency=16", verdict="Suspect"),
    ).model_copy(update=update)


def on_terminal(show: Callable[[Console], None]) -> str:
    text = io.StringIO()
    show(Console(file=text, width=140))
    return "".join(f"{line.rstrip()}\n" for line in text.getvalue().splitlines())


def terminal_comparison(console: Console) -> None:
    found = small().comparison
    assert found is not None
    show_comparison(console, found, before="slower", after="measured")


SURFACES: dict[str, Callable[[], str]] = {
    "run.terminal.txt": lambda: on_terminal(
        lambda console: show_result(
            console,
            "chat",
            small().model_copy(update={"comparison": None}),
            wide=True,
        )
    ),
    "sweep.terminal.txt": lambda: on_terminal(
        lambda console: show_sweep(console, "seqs", several().status)
    ),
    "comparison.terminal.txt": lambda: on_terminal(terminal_comparison),
    "run.md": lambda: markdown("chat", small(), wide=True),
    "sweep.md": lambda: sweep_markdown("seqs", several().status),
    "run.html.txt": lambda: (
        "\n".join(
            Text(page_of(with_status(reported(compared()), profile=PROFILE))).lines
        )
        + "\n"
    ),
    "sweep.html.txt": lambda: (
        "\n".join(Text(sweep_page_of(several())).lines) + "\n"
    ),
}


@pytest.mark.parametrize("name", SURFACES)
def test_each_surface_matches_its_golden_file(name: str) -> None:
    # Which digest it is changes with every threshold, and says nothing to a reader.
    file = GOLDEN / name
    text = re.sub(r"sha256:[0-9a-f]{64}", "sha256:DIGEST", SURFACES[name]())
    if os.environ.get("UPDATE_GOLDEN"):
        file.write_text(text, encoding="utf-8")
        pytest.fail(f"{file.name} was written anew; read its diff")
    assert text.splitlines() == file.read_text(encoding="utf-8").splitlines()
