"""Tables of figures stay readable on narrow terminals."""

import io

import pytest
from benchrun.cli.console_tables import parts_that_fit, show_figures
from benchrun.report.tables import Rows
from rich.console import Console

HEADERS = (
    "load point",
    "req/s",
    "tok/s",
    "TTFT p50",
    "p99",
    "running",
    "failed",
    "verdict",
)
ROWS = (
    ("arrivals/rate=1", "0.941", "60.8", "319?", "938?", "0.8", "0/60", "Valid"),
    (
        "users/concurrency=1024",
        "2.02",
        "131",
        "2230",
        "3110?",
        "3.6",
        "70/200, of 65 %",
        "Invalid",
    ),
)


def shown(width: int, *, failed: str = ROWS[1][6], wide: bool = False) -> list[str]:
    console = Console(file=io.StringIO(), width=width)
    rows = (ROWS[0], (*ROWS[1][:6], failed, ROWS[1][7]))
    show_figures(console, Rows(HEADERS, rows), names=("load point",), wide=wide)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(
    "failed", ["0/60", "70/200, latencies of 65 %", "many words " * 20]
)
@pytest.mark.parametrize("width", [80, 100, 120])
def test_no_load_point_is_broken_whatever_another_holds(
    width: int, failed: str
) -> None:
    lines = shown(width, failed=failed)
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for figure in (
        "users/concurrency=1024",
        "TTFT p50",
        "3110?",
        "running",
        "Invalid",
    ):
        assert figure in text


def test_parts_have_every_column_once_and_the_names_in_each() -> None:
    parts = list(parts_that_fit(Rows(HEADERS, ROWS), 50, names=("load point",)))
    assert len(parts) > 1
    assert {part.headers[0] for part in parts} == {"load point"}
    assert [header for part in parts for header in part.headers[1:]] == list(
        HEADERS[1:]
    )


def test_a_wide_table_is_in_one_piece() -> None:
    assert len(shown(40, wide=True)) == 3
