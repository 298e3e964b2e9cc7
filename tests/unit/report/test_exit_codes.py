"""Exit codes of runs and sweeps."""

from itertools import product

import pytest
from benchrun.api import BenchmarkRunStatus, Condition, Reason
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.report.exit_codes import (
    CANCELLED,
    FAILED,
    INVALID,
    MISSED,
    PASSED,
    UNDECIDED,
    exit_code,
    sweep_exit_code,
    worst_code,
)
from hypothesis import given, strategies as st
from kit.every_case import every
from unit.report.finished_sweeps import Measured, finished_sweep
from unit.sweep.sweeps import decided, sweep_body

GOOD = Measured()
BAD = Measured(verdict="Invalid")


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
        pytest.param(
            0,
            {"base": GOOD, "wide": Measured(verdict="Suspect")},
            id="a row suspect",
        ),
        pytest.param(4, {"base": GOOD, "wide": BAD}, id="a row invalid"),
        pytest.param(2, {"base": GOOD, "wide": None}, id="a run failed"),
        pytest.param(
            2,
            {"base": GOOD, "wide": None, "wider": BAD},
            id="a run failed and a row is invalid",
        ),
        pytest.param(2, {"base": None, "wide": None}, id="nothing was measured"),
    ],
)
def test_an_ended_sweep_has_an_exit_code(
    code: int, measured: dict[str, Measured | None]
) -> None:
    assert sweep_exit_code(finished_sweep(measured).status) == code


def test_a_cancelled_sweep_has_an_exit_code() -> None:
    assert sweep_exit_code(decided(sweep_body(cancel=True)).status) == 5


def test_a_rejected_sweep_exits_with_2() -> None:
    assert sweep_exit_code(decided(sweep_body(baseline="nobody")).status) == 2


def test_a_sweep_that_goes_on_has_none() -> None:
    assert sweep_exit_code(decided().status) is None
    assert sweep_exit_code(BenchmarkSweepStatus()) is None


GATES = ("ObjectivesMet", "NotRegressed")


def status(**conditions: str) -> BenchmarkRunStatus:
    """Conditions by type; a word after a slash is the reason."""
    documented = {
        type_: (text.partition("/")[0], text.partition("/")[2] or "Any")
        for type_, text in conditions.items()
    }
    made = [
        Condition(type=type_, status=word, reason=why)
        for type_, (word, why) in documented.items()
    ]
    return BenchmarkRunStatus(conditions=tuple(made))


def test_the_codes_are_a_contract() -> None:
    assert (PASSED, FAILED, MISSED, INVALID, CANCELLED, UNDECIDED) == (
        0,
        2,
        3,
        4,
        5,
        6,
    )


@every(
    ("code", "conditions"),
    [
        pytest.param(None, {}, id="nobody-looked"),
        pytest.param(
            None, {"Complete": "False", "Failed": "False"}, id="under-way"
        ),
        pytest.param(None, {"Complete": "Unknown"}, id="not-known"),
        pytest.param(
            None, {"Valid": "False", "Complete": "False"}, id="invalid-so-far"
        ),
        pytest.param(0, {"Complete": "True"}, id="measured"),
        pytest.param(
            0, {"Complete": "True", "Valid": "True/Suspect"}, id="suspect"
        ),
        pytest.param(0, {"Complete": "True", "Valid": "Unknown"}, id="no-verdict"),
        pytest.param(
            4,
            {"Complete": "True", "Valid": f"Unknown/{Reason.NOT_JUDGED}"},
            id="not-judged",
        ),
        pytest.param(4, {"Complete": "True", "Valid": "False"}, id="invalid"),
        pytest.param(
            3, {"Complete": "True", "ObjectivesMet": "False"}, id="missed"
        ),
        pytest.param(
            3, {"Complete": "True", "NotRegressed": "False"}, id="regressed"
        ),
        pytest.param(
            3,
            {"Complete": "True", "ObjectivesMet": "True", "NotRegressed": "False"},
            id="met-and-regressed",
        ),
        pytest.param(
            6, {"Complete": "True", "ObjectivesMet": "Unknown"}, id="inconclusive"
        ),
        pytest.param(
            6,
            {"Complete": "True", "NotRegressed": "Unknown"},
            id="regression-unknown",
        ),
        pytest.param(
            6,
            {"Complete": "True", "NotRegressed": "Unknown/Underpowered"},
            id="underpowered",
        ),
        pytest.param(
            6,
            {"Complete": "True", "NotRegressed": "Unknown/OneServerASide"},
            id="one-server",
        ),
        pytest.param(
            3,
            {"Complete": "True", "NotRegressed": "False/RegressedHere"},
            id="regressed-here",
        ),
        pytest.param(
            3,
            {
                "Complete": "True",
                "ObjectivesMet": "False",
                "NotRegressed": "Unknown",
            },
            id="missed-first",
        ),
        pytest.param(0, {"Complete": "True", "NotRegressed": "True"}, id="passed"),
        pytest.param(
            4,
            {"Complete": "True", "Valid": "False", "ObjectivesMet": "False"},
            id="invalid-before-missed",
        ),
        pytest.param(2, {"Failed": "True/CrashLoop"}, id="failed"),
        pytest.param(5, {"Failed": f"True/{Reason.CANCELLED}"}, id="cancelled"),
        pytest.param(
            2, {"Failed": "True/cancelled"}, id="a-reason-is-a-stable-word"
        ),
        pytest.param(
            2,
            {"Failed": "True/OutOfMemory", "Complete": "True"},
            id="failed-before-complete",
        ),
        pytest.param(
            0, {"Failed": "False/Cancelled", "Complete": "True"}, id="did-not-fail"
        ),
    ],
)
def test_a_run_that_stands_so_ends_a_command_so(
    code: int | None, conditions: dict[str, str]
) -> None:
    assert exit_code(status(**conditions)) == code


@given(
    st.fixed_dictionaries(
        {gate: st.sampled_from(["True", "False", "Unknown"]) for gate in GATES}
    )
)
def test_whether_a_run_has_ended_does_not_hang_on_its_gates(
    gates: dict[str, str],
) -> None:
    assert exit_code(status(**gates)) is None
    undecided = UNDECIDED if "Unknown" in gates.values() else PASSED
    assert exit_code(status(Complete="True", **gates)) == (
        MISSED if "False" in gates.values() else undecided
    )


@pytest.mark.parametrize(
    ("complete", "valid"), list(product(["True", "False", "Unknown"], repeat=2))
)
def test_a_failure_outdoes_everything(complete: str, valid: str) -> None:
    assert (
        exit_code(status(Complete=complete, Valid=valid, Failed="True/NodeLost"))
        == FAILED
    )
