"""Runs as their sweep sees them: where each stands, why it failed, and how long it held its
server."""

from typing import Any

import pytest
from benchrun.observe import Run, SweptRun, swept_runs
from hypothesis import given, strategies as st

T = "2026-01-01T12:{}Z"


def run(status: dict[str, Any] | None = None, **fields: Any) -> Run:
    return Run("lab", "r1", "uid-1", generation=1, status=status or {}, **fields)


def seen(status: dict[str, Any] | None = None, **fields: Any) -> SweptRun:
    return swept_runs([run(status, **fields)])["r1"]


def conditions(**types: tuple[str, str]) -> dict[str, Any]:
    listed = [
        {"type": type_, "status": status, "reason": why, "message": "m"}
        for type_, (status, why) in types.items()
    ]
    return {"conditions": listed}


@pytest.mark.parametrize(
    ("state", "reason", "status"),
    [
        pytest.param("Running", "", {}, id="new"),
        pytest.param(
            "Running",
            "",
            conditions(Complete=("False", "Measuring"), Failed=("False", "x")),
            id="under-way",
        ),
        pytest.param(
            "Running", "", conditions(Complete=("Unknown", "x")), id="not-known"
        ),
        pytest.param(
            "Completed",
            "",
            conditions(Complete=("True", "Measured")),
            id="completed",
        ),
        pytest.param(
            "Failed",
            "CrashLoop",
            conditions(Failed=("True", "CrashLoop")),
            id="failed",
        ),
        pytest.param(
            "Failed",
            "CrashLoop",
            conditions(Complete=("True", "x"), Failed=("True", "CrashLoop")),
            id="both",
        ),
        pytest.param(
            "Cancelled",
            "Cancelled",
            conditions(Failed=("True", "Cancelled")),
            id="cancelled",
        ),
        pytest.param(
            "Running",
            "",
            conditions(Failed=("False", "Cancelled")),
            id="was-not-cancelled",
        ),
        pytest.param("Running", "", {"conditions": "broken"}, id="nonsense"),
    ],
)
def test_the_state_of_a_run_follows_from_its_conditions(
    state: str, reason: str, status: dict[str, Any]
) -> None:
    found = seen(status)
    assert (found.state, found.reason, found.ended) == (
        state,
        reason,
        state != "Running",
    )
    assert found.message == ("m" if state in ("Failed", "Cancelled") else "")


@pytest.mark.parametrize(
    ("seconds", "status"),
    [
        pytest.param(
            90.0,
            {
                "scheduledTime": T.format("00:00"),
                "serverReleasedTime": T.format("01:30"),
            },
            id="released",
        ),
        pytest.param(
            90.0,
            {
                "scheduledTime": T.format("00:00"),
                "serverReleasedTime": T.format("01:30"),
                "completionTime": T.format("05:00"),
            },
            id="released-before-the-end",
        ),
        pytest.param(
            300.0,
            {
                "scheduledTime": T.format("00:00"),
                "completionTime": T.format("05:00"),
            },
            id="at-the-end",
        ),
        pytest.param(
            0.0, {"completionTime": T.format("05:00")}, id="never-had-a-node"
        ),
        pytest.param(
            0.0, {"scheduledTime": T.format("00:00")}, id="nobody-wrote-down-when"
        ),
        pytest.param(
            0.0,
            {
                "scheduledTime": T.format("05:00"),
                "completionTime": T.format("00:00"),
            },
            id="clocks-differ",
        ),
        pytest.param(
            0.0,
            {"scheduledTime": "soon", "completionTime": T.format("00:00")},
            id="nonsense",
        ),
    ],
)
def test_how_long_it_held_its_server(
    seconds: float, status: dict[str, Any]
) -> None:
    assert (
        seen({**conditions(Complete=("True", "Measured")), **status}).held_seconds
        == seconds
    )
    assert seen(status).held_seconds == 0.0, (
        "of a run that goes on nothing is counted yet"
    )


@pytest.mark.parametrize(
    ("cancel", "cancelling"),
    [(True, True), (False, False), ("true", False), (1, False), (None, False)],
)
def test_only_true_tells_a_run_to_end(cancel: object, cancelling: bool) -> None:
    assert seen(spec={"cancel": cancel}).cancelling is cancelling


def test_runs_by_name_with_their_uid() -> None:
    found = swept_runs(
        [
            Run("lab", "a", "u-a", generation=1, deleting=True),
            Run("lab", "b", "u-b", generation=1),
        ]
    )
    assert {
        name: (each.name, each.uid, each.deleting) for name, each in found.items()
    } == {
        "a": ("a", "u-a", True),
        "b": ("b", "u-b", False),
    }


def test_words_are_bounded() -> None:
    status = {
        "conditions": [
            {
                "type": "Failed",
                "status": "True",
                "reason": "r" * 500,
                "message": "m" * 50_000,
            }
        ]
    }
    assert (len(seen(status).reason), len(seen(status).message)) == (128, 2048)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = st.sampled_from(
    ["conditions", "scheduledTime", "completionTime", "serverReleasedTime"]
)


@given(st.dictionaries(KEYS, JSON), st.dictionaries(st.just("cancel"), JSON))
def test_no_status_raises(status: dict[str, Any], spec: dict[str, Any]) -> None:
    assert seen(status, spec=spec).held_seconds >= 0
