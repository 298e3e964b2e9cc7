"""The recording for GitOps tools leaves out no phase, no reason, and no fault of the catalogue."""

import json
from pathlib import Path
from typing import get_args

from benchrun.api import Reason
from benchrun.api.status import Phase
from benchrun.api.sweep.status import SweepPhase, SweepReason
from benchrun.names import KIND
from unit.decide.recorded_statuses import RECORDED

FAULTS = json.loads(
    (Path(__file__).parents[3] / "docs" / "faults.json").read_text()
)
RUNS = [each for each in RECORDED if each.body["kind"] == KIND]
SEEN = [each for each in RUNS if each.status.get("conditions")]
COMPARED = {"NotRegressed", "Regressed", "Underpowered"}
"""Reasons of NotRegressed that need several servers a side; with one, its status is the same."""


def test_every_fault_of_the_catalogue_is_recorded() -> None:
    ends = {
        (row["phase"], row["reason"]) for row in FAULTS if row["phase"] != "Gone"
    }
    assert ends - {(each.status["phase"], each.reason) for each in SEEN} == set()
    waits = {row["waits_as"] for row in FAULTS} - {""}
    going_on = {each.reason for each in SEEN if each.standing == "going on"}
    assert waits - going_on == set()


def test_every_phase_and_reason_is_recorded() -> None:
    assert {each.status["phase"] for each in SEEN} == set(get_args(Phase))
    sweeps = [each for each in RECORDED if each.body["kind"] != KIND]
    assert {each.status.get("phase", "Pending") for each in sweeps} == set(
        get_args(SweepPhase)
    )
    reasons = {
        value for name, value in vars(Reason).items() if not name.startswith("_")
    }
    assert reasons - set().union(*(each.reasons for each in SEEN)) == COMPARED
    own = {
        value
        for name, value in vars(SweepReason).items()
        if not name.startswith("_")
    }
    assert own - set().union(*(each.reasons for each in sweeps)) == set()


def test_every_status_is_recorded_under_its_own_name() -> None:
    assert len({each.name for each in RECORDED}) == len(RECORDED)
