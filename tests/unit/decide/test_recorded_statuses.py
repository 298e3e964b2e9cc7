"""The recording for GitOps tools leaves out no phase, no reason, and no fault of the catalogue."""

import json
from pathlib import Path
from typing import get_args

import pytest
from benchrun.api import Reason
from benchrun.api.status import Phase
from benchrun.api.sweep.status import SweepPhase, SweepReason
from benchrun.names import KIND
from unit.decide.recorded_statuses import Recorded, recordings

FAULTS = json.loads(
    (Path(__file__).parents[3] / "docs" / "faults.json").read_text()
)
COMPARED = {"NotRegressed", "Regressed", "Underpowered"}
"""Reasons of NotRegressed that need several servers a side; with one, its status is the same."""


@pytest.fixture(scope="module")
def seen() -> list[Recorded]:
    """Runs that an operator has seen."""
    runs = [each for each in recordings() if each.body["kind"] == KIND]
    return [each for each in runs if each.status.get("conditions")]


def test_every_fault_of_the_catalogue_is_recorded(seen: list[Recorded]) -> None:
    ends = {
        (row["phase"], row["reason"]) for row in FAULTS if row["phase"] != "Gone"
    }
    assert ends - {(each.status["phase"], each.reason) for each in seen} == set()
    waits = {row["waits_as"] for row in FAULTS} - {""}
    going_on = {each.reason for each in seen if each.standing == "going on"}
    assert waits - going_on == set()


def test_every_phase_and_reason_is_recorded(seen: list[Recorded]) -> None:
    assert {each.status["phase"] for each in seen} == set(get_args(Phase))
    sweeps = [each for each in recordings() if each.body["kind"] != KIND]
    assert {each.status.get("phase", "Pending") for each in sweeps} == set(
        get_args(SweepPhase)
    )
    reasons = {
        value for name, value in vars(Reason).items() if not name.startswith("_")
    }
    assert reasons - set().union(*(each.reasons for each in seen)) == COMPARED
    own = {
        value
        for name, value in vars(SweepReason).items()
        if not name.startswith("_")
    }
    assert own - set().union(*(each.reasons for each in sweeps)) == set()


def test_every_status_is_recorded_under_its_own_name() -> None:
    assert len({each.name for each in recordings()}) == len(recordings())
