"""Throttled periods, from either version of cgroups."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchrun_client.load.self_watch import throttled_periods


@pytest.mark.parametrize(
    ("expected", "text"),
    [
        pytest.param(7, "usage_usec 5\nnr_periods 9\nnr_throttled 7\nthrottled_usec 12\n", id="limited"),
        pytest.param(None, "usage_usec 5\n", id="no-controller"),
        pytest.param(None, "nr_throttled many\n", id="no-number"),
        pytest.param(None, "\n", id="empty-line"),
    ],
)
def test_throttled_periods_are_read(tmp_path: Path, expected: int | None, text: str) -> None:
    file = tmp_path / "cpu.stat"
    file.write_text(text)
    assert throttled_periods([tmp_path / "missing", file]) == expected


def test_a_kernel_that_does_not_tell_gives_none(tmp_path: Path) -> None:
    assert throttled_periods([tmp_path / "missing"]) is None
