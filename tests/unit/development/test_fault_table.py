"""The page of faults has every fault of the catalogue, as it was measured and in time."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from cluster.faults import test_control_plane, test_played_pods, test_refusals
from kit.every_case import every
from kit.faults import (
    BY_NAME,
    FAULTS,
    FREED_SECONDS,
    TOLD_SECONDS,
    Fault,
    Measured,
    assert_as_declared,
    record,
)

from dev.fault_table import FAMILIES, faults_text

ROOT = Path(__file__).parents[3]
ROWS: list[dict[str, Any]] = json.loads((ROOT / "docs" / "faults.json").read_text())
EVICTED = BY_NAME["server-evicted"]
FULL = BY_NAME["quota-full"]


def test_every_fault_of_the_catalogue_was_measured() -> None:
    assert [row["name"] for row in ROWS] == [fault.name for fault in FAULTS]
    assert len(BY_NAME) == len(FAULTS)
    assert {fault.family for fault in FAULTS} == FAMILIES.keys()


@every("row", ROWS, ids=lambda row: str(row["name"]))
def test_what_was_measured_is_what_is_declared_and_in_time(
    row: dict[str, Any],
) -> None:
    fault = BY_NAME[row["name"]]
    declared = asdict(fault)
    if fault.or_reason and row["reason"] == fault.or_reason:
        declared["reason"] = fault.or_reason
    assert {key: row[key] for key in declared} == declared
    assert (row["told_seconds"] or 0) <= fault.told_within_seconds
    assert (row["freed_seconds"] or 0) <= fault.freed_within_seconds


def test_every_fault_is_tried() -> None:
    played = [
        *test_played_pods.PLAYS,
        *test_refusals.PLAYS,
        *test_control_plane.PLAYS,
        *test_control_plane.STEPS,
        *test_control_plane.RELEASES,
    ]
    assert sorted(f.name for f in played) == sorted(
        f.name for f in FAULTS if f.tried == "played"
    )
    with_real_pods = "".join(
        path.read_text() for path in (ROOT / "tests/e2e/faults").glob("*.py")
    )
    untried = [
        f.name
        for f in FAULTS
        if f.tried == "real" and f'"{f.name}"' not in with_real_pods
    ]
    assert untried == []


def test_every_fault_is_told_in_time_and_all_but_one_let_go_in_time() -> None:
    assert {fault.told_within_seconds for fault in FAULTS} == {TOLD_SECONDS}
    longer = {f.name: f.freed_within_seconds for f in FAULTS}
    assert {name: s for name, s in longer.items() if s != FREED_SECONDS} == {
        "namespace-deleted": 15.0,
    }
    assert all(fault.decided_seconds < TOLD_SECONDS for fault in FAULTS)


def test_what_is_measured_again_takes_its_own_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "there" / "faults.json"
    monkeypatch.setenv("FAULTS_FILE", str(path))
    record(
        FULL,
        Measured(FULL.phase, FULL.reason, told_seconds=0.26, freed_seconds=None),
    )
    for seconds in (4.0, 1.24):
        measured = Measured(
            EVICTED.phase, EVICTED.reason, seconds, freed_seconds=-0.3
        )
        record(EVICTED, measured)
    found = json.loads(path.read_text())
    assert [row["name"] for row in found] == [EVICTED.name, FULL.name]
    assert [(row["told_seconds"], row["freed_seconds"]) for row in found] == [
        (1.2, 0.0),
        (0.3, None),
    ]


AS_DECLARED = Measured("Failed", "Late", told_seconds=1.0, freed_seconds=1.0)
LATE = Fault(
    "late", "server", "It is late", "Late", waits_as="Waits", waits_seconds=60
)


def test_what_is_as_declared_passes() -> None:
    assert_as_declared(LATE, AS_DECLARED)
    assert_as_declared(LATE, replace(AS_DECLARED, freed_seconds=None))


@pytest.mark.parametrize(
    "other",
    [
        {"phase": "Running"},
        {"reason": "Waits"},
        {"told_seconds": TOLD_SECONDS + 0.1},
        {"freed_seconds": FREED_SECONDS + 0.1},
        {"freed_seconds": -50.0},  # it did not wait
    ],
)
def test_what_is_not_does_not(other: dict[str, Any]) -> None:
    with pytest.raises(AssertionError):
        assert_as_declared(LATE, replace(AS_DECLARED, **other))


def _row(fault: Fault, **measured: Any) -> dict[str, Any]:
    return asdict(fault) | measured


def test_a_row_says_state_reason_and_seconds() -> None:
    gone = Fault("a", "server", "It is gone", "Gone", tried="real")
    full = Fault(
        "b", "refusal", "It is full", "Late", waits_as="Full", waits_seconds=60
    )
    page = faults_text(
        [
            _row(gone, told_seconds=0.4, freed_seconds=1.0),
            _row(full, told_seconds=2.0, freed_seconds=None),
        ]
    )
    assert "| It is gone * | Failed | Gone |  | 0.4 s | 1.0 s |\n" in page
    assert "| It is full | Failed | Full, then Late | 60 s | 2.0 s | – |\n" in page
    assert page.index("It is gone") < page.index("## What the API server refuses")
    assert page.index("## What the API server refuses") < page.index("It is full")
