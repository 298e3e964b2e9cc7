"""The exit code of a sweep, and one for several."""

from __future__ import annotations

import pytest
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.report.exit_codes import sweep_exit_code, worst_code
from unit.report.finished_sweeps import Measured, finished_sweep
from unit.sweep.sweeps import decided, sweep_body

GOOD, BAD = Measured(), Measured(verdict="Invalid")


@pytest.mark.parametrize(
    ("codes", "worst"),
    [
        ([], 0),
        ([0, 0], 0),
        ([0, 5], 5),
        ([5, 3], 3),
        ([3, 4], 4),
        ([4, 2, 3], 2),
        ([2, 1], 1),
    ],
)
def test_the_worst_decides(codes: list[int], worst: int) -> None:
    assert worst_code(codes) == worst
    assert worst_code(reversed(codes)) == worst


@pytest.mark.parametrize(
    ("code", "measured"),
    [
        pytest.param(0, {"base": GOOD, "wide": GOOD}, id="every row valid"),
        pytest.param(0, {"base": GOOD, "wide": Measured(verdict="Suspect")}, id="a row suspect"),
        pytest.param(4, {"base": GOOD, "wide": BAD}, id="a row invalid"),
        pytest.param(2, {"base": GOOD, "wide": None}, id="a run failed"),
        pytest.param(2, {"base": GOOD, "wide": None, "wider": BAD}, id="a run failed and a row is invalid"),
        pytest.param(2, {"base": None, "wide": None}, id="nothing was measured"),
    ],
)
def test_of_a_sweep_that_has_ended(code: int, measured: dict[str, Measured | None]) -> None:
    assert sweep_exit_code(finished_sweep(measured).status) == code


def test_of_a_sweep_that_was_cancelled() -> None:
    assert sweep_exit_code(decided(sweep_body(cancel=True)).status) == 5


def test_of_a_sweep_that_was_refused() -> None:
    assert sweep_exit_code(decided(sweep_body(baseline="nobody")).status) == 2


def test_a_sweep_that_goes_on_has_none() -> None:
    assert sweep_exit_code(decided().status) is None
    assert sweep_exit_code(BenchmarkSweepStatus()) is None
