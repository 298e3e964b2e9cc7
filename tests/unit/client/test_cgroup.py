"""Throttled periods, from either version of cgroups; and the cores that a limit leaves."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from benchrun_client.cgroup import throttled_periods, usable_cores


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


MINE = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("expected", "limit"),
    [
        pytest.param(1, "100000 100000", id="one"),
        pytest.param(1, "50000 100000", id="half of one"),
        pytest.param(min(2, MINE), "250000 100000", id="two and a half"),
        pytest.param(MINE, "99900000 100000", id="more than there are"),
        pytest.param(MINE, "max 100000", id="no limit"),
        pytest.param(MINE, "", id="nothing told"),
    ],
)
def test_threads_have_the_cores_of_the_limit(tmp_path: Path, expected: int, limit: str) -> None:
    (tmp_path / "cpu.max").write_text(limit)
    assert usable_cores(tmp_path / "cpu.max") == expected
    assert usable_cores(tmp_path / "missing") == MINE
