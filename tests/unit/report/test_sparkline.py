"""Small bars."""

from __future__ import annotations

import pytest
from benchrun.report.rows import BARS, sparkline


@pytest.mark.parametrize(
    ("values", "top", "drawn"),
    [
        pytest.param([0, 50, 100], 100.0, "▁▅█", id="from nothing to the top"),
        pytest.param([0, 1, 2], None, "▁▅█", id="to the largest where no top is given"),
        pytest.param([1, None, 1], 1.0, "█ █", id="a gap is no low bar"),
        pytest.param([0, 0, 0], None, "▁▁▁", id="nothing at all"),
        pytest.param([200, -5, 1], 100.0, "█▁▁", id="beyond the scale"),
        pytest.param([1, 2, 3, 4], 4.0, "▅▇█", id="the last ones"),
        pytest.param([4], 4.0, "█  ", id="room to grow"),
        pytest.param([], None, "   ", id="no values"),
    ],
)
def test_drawn(values: list[float | None], top: float | None, drawn: str) -> None:
    assert sparkline(values, top=top, width=3) == drawn


def test_every_eighth_has_its_bar() -> None:
    assert sparkline([n + 0.5 for n in range(8)], top=8.0, width=8) == BARS


def test_no_room_is_no_bar() -> None:
    assert sparkline([1, 2], width=0) == ""
