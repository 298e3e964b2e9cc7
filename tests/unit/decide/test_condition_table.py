"""The table of conditions, row by row: what pipelines and GitOps tools read."""

from typing import get_args

import pytest
from benchrun.api import Condition, ConditionType
from benchrun.judge import judged_run
from unit.decide.scenes import Scene
from unit.decide.summaries import standing
from unit.golden_messages import golden
from unit.measure.records import requests

ALL = tuple(
    t
    for t in get_args(ConditionType)
    if t not in ("ObjectivesMet", "NotRegressed", "Archived")
)
ROW = (
    "Complete",
    "Failed",
    "Succeeded",
    "Valid",
    "Ready",
    "Stalled",
    "Reconciling",
)
MET = [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 1000}]
MISSED = [*MET, {"metric": "TTFT", "percentile": "99", "maxMilliseconds": 1}]
NOBODY_ANSWERED = requests(ok=(0, 0), output_tokens=(0, 0))

MEASURED = Scene().measuring().arrived(0, 1)
EVERY_200_MS = range(0, 20_000_000, 200_000)
HUNDRED = requests(
    start_us=list(EVERY_200_MS),
    ttft_us=[20_000] * 100,
    e2el_us=[120_000] * 100,
    output_tokens=[11] * 100,
)
MEASURED_OFTEN = Scene().measuring().arrived(0, 1, requests=HUNDRED)
ONE_LOAD_POINT_INVALID = (
    Scene().measuring().arrived(0).arrived(1, requests=requests(ok=(1, 0)))
)
ALL_FAILED = (
    Scene()
    .measuring()
    .arrived(0, 1, requests=NOBODY_ANSWERED, diagnostic="404: no such model")
)
LATE = Scene().measuring().with_spec(runDeadlineSeconds=10).at(1000)


@pytest.mark.parametrize(
    ("phase", "row", "scene"),
    [
        pytest.param("Preparing", "F F U U F F T", Scene(), id="running"),
        pytest.param(
            "Running", "F F U U F F T", Scene().measuring(), id="measuring"
        ),
        pytest.param(
            "Suspended",
            "F F U U F F T",
            Scene().with_spec(suspend=True),
            id="suspended",
        ),
        pytest.param(
            "Completed", "T F T T T F F", MEASURED, id="measured and valid"
        ),
        pytest.param(
            "Completed",
            "T F F F F T F",
            ONE_LOAD_POINT_INVALID,
            id="measured, but a load point is invalid",
        ),
        pytest.param(
            "Completed",
            "T F T T T F F",
            MEASURED.with_spec(objectives=MISSED),
            id="objective missed",
        ),
        pytest.param(
            "Failed",
            "F T F F F T F",
            Scene().client_created().fails("DatasetInvalid", "no"),
            id="client failed",
        ),
        pytest.param(
            "Failed",
            "F T F F F T F",
            Scene().measuring().without("Deployment", "server"),
            id="server failed",
        ),
        pytest.param("Failed", "F T F F F T F", LATE, id="deadline"),
        pytest.param(
            "Failed", "F T F F F T F", ALL_FAILED, id="all requests failed"
        ),
        pytest.param(
            "Cancelled",
            "F T F U F T F",
            Scene().measuring().with_spec(cancel=True),
            id="cancelled",
        ),
        pytest.param(
            "Cancelled",
            "F T F U F T F",
            Scene().with_spec(cancel=True),
            id="cancelled before anything",
        ),
        pytest.param(
            "Failed", "F T F F F T F", Scene().with_spec(repeats=0), id="refused"
        ),
    ],
)
def test_row(phase: str, row: str, scene: Scene) -> None:
    status = scene.ended().status
    found = {c.type: c for c in status.conditions}
    assert " ".join(found[t].status[0] for t in ROW) == row
    assert status.phase == phase


@pytest.mark.parametrize(
    ("expected", "objectives", "scene"),
    [
        pytest.param("absent", [], MEASURED, id="none asked for"),
        pytest.param(
            "Unknown (Measuring)", MET, Scene().measuring(), id="not judged yet"
        ),
        pytest.param("True (ObjectivesMet)", MET, MEASURED_OFTEN, id="met"),
        pytest.param(
            "Unknown (ObjectivesInconclusive)",
            MET,
            MEASURED,
            id="too few requests to tell",
        ),
        pytest.param(
            "False (ObjectivesMissed)", MISSED, MEASURED_OFTEN, id="one is missed"
        ),
        pytest.param(
            "Unknown (ObjectivesInconclusive)",
            MET,
            ONE_LOAD_POINT_INVALID,
            id="a load point could not be judged",
        ),
    ],
)
def test_objectives(
    expected: str, objectives: list[dict[str, object]], scene: Scene
) -> None:
    status = scene.with_spec(objectives=objectives).ended().status
    assert standing(status, "ObjectivesMet") == {"ObjectivesMet": expected}
    golden(status.answer or "no answer", status.message)


@pytest.mark.parametrize("room", [80_000, 0])
def test_objectives_that_were_not_met_are_named_the_missed_ones_first(
    room: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also those that the rows have no room for."""
    monkeypatch.setattr(judged_run, "MAX_BYTES", room)
    one_long = Scene().measuring().arrived(0, requests=HUNDRED).arrived(1)
    status = one_long.with_spec(objectives=MISSED).ended().status
    (message,) = (
        each.message for each in status.conditions if each.type == "ObjectivesMet"
    )
    outcomes = [text.partition(":")[0] for text in message.split("; ")]
    assert outcomes == sorted(outcomes, key="Missed".__ne__)
    assert {"Missed", "Inconclusive"} == set(outcomes)
    assert "p99 at most 1 ms at " in message


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param("True (AllValid)", MEASURED, id="valid"),
        pytest.param(
            "False (InvalidLoadPoints)",
            ONE_LOAD_POINT_INVALID,
            id="a load point is invalid",
        ),
        pytest.param(
            "False (AllRequestsFailed)", ALL_FAILED, id="all requests failed"
        ),
        pytest.param(
            "Unknown (Cancelled)", Scene().with_spec(cancel=True), id="cancelled"
        ),
    ],
)
def test_reason_of_valid(expected: str, scene: Scene) -> None:
    assert standing(scene.ended().status, "Valid") == {"Valid": expected}


@pytest.mark.parametrize(
    "scene",
    [Scene(), Scene().measuring(), MEASURED.answered().settled(), LATE.log_read()],
)
def test_every_condition_is_there_from_the_first_pass_on(scene: Scene) -> None:
    assert {c.type for c in scene.settled().ended().status.conditions} == set(ALL)


def test_waiting_conditions_follow_the_way() -> None:
    def waits(scene: Scene) -> dict[str, str]:
        return {
            name: text.split()[0]
            for name, text in standing(
                scene.ended().status, "ClientReady", "ServerReady"
            ).items()
        }

    assert waits(Scene().client_created()) == {
        "ClientReady": "False",
        "ServerReady": "False",
    }
    assert waits(Scene().server_loading()) == {
        "ClientReady": "True",
        "ServerReady": "False",
    }
    assert waits(Scene().server_healthy()) == {
        "ClientReady": "True",
        "ServerReady": "True",
    }


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(MEASURED, id="measured"),
        pytest.param(ALL_FAILED, id="all requests failed"),
        pytest.param(LATE.log_read(), id="deadline"),
        pytest.param(Scene().measuring().with_spec(cancel=True), id="cancelled"),
        pytest.param(Scene().with_spec(repeats=0), id="refused"),
    ],
)
def test_nobody_is_ready_any_more_when_the_run_has_ended(scene: Scene) -> None:
    expected = {
        "ClientReady": "False (Finished)",
        "ServerReady": "False (Finished)",
    }
    assert standing(scene.ended().status, "ClientReady", "ServerReady") == expected


def test_a_transition_time_moves_only_with_the_status() -> None:
    first = Scene().settled()
    later = (
        Scene()
        .client_ready()
        .with_status(first.ended().status)
        .at(500)
        .ended()
        .status
    )
    times = {c.type: c.last_transition_time for c in later.conditions}
    assert times["ClientReady"] == "2026-01-01T00:08:20Z"
    assert times["Reconciling"] == times["Ready"] == "2026-01-01T00:00:00Z"


def test_every_condition_is_about_the_generation_that_was_seen() -> None:
    conditions: tuple[Condition, ...] = MEASURED.ended().status.conditions
    assert {c.observed_generation for c in conditions} == {1}


def test_the_servers_answer_tells_why_every_request_failed() -> None:
    assert "404: no such model" in (ALL_FAILED.ended().status.message or "")
