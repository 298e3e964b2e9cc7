"""A profile comes after everything was measured: the server waits for it, and nothing that was
measured depends on it."""

import pytest
from benchrun_client.contract import (
    PROFILE_STAGE,
    GapCounts,
    ProfileResult,
    RequestColumns,
    StageRecord,
)
from unit.decide.deliveries import record
from unit.decide.scenes import FIRST_REQUEST, SERVER_DIED, Scene, plan_digest
from unit.decide.summaries import applied, deleted, standing
from unit.plan.specs import endpoint_body, rates, spec_body, workload

WORKLOADS = [workload("chat", load=rates("1", "4"))]
SPEC = spec_body(workloads=WORKLOADS, measurement={"profile": {}})
URL = endpoint_body(
    {"url": "http://llm.example"}, workloads=WORKLOADS, measurement={"profile": {}}
)
MEASURED = (
    Scene(spec=SPEC)
    .measuring()
    .stored(0)
    .at(300)
    .arrived(1)
    .reports(stage=PROFILE_STAGE)
)
ENDLESS = MEASURED.at(FIRST_REQUEST + 14_400)


def profile() -> StageRecord:
    nothing = RequestColumns.model_validate(
        dict.fromkeys(RequestColumns.model_fields, ())
    )
    found = ProfileResult(workload="chat", concurrency=4, problem="no room")
    fields = {
        "stage_id": PROFILE_STAGE,
        "requests": nothing,
        "gaps": GapCounts(),
        "profile": found,
    }
    document = record(
        2, "chat/rate=1/r1", plan_digest(MEASURED._accepted())
    ).model_copy(update=fields)
    return StageRecord.model_validate(document.model_dump(by_alias=True))


def test_the_server_stays_until_the_profile_is_there_and_measured_records_are_stored_meanwhile() -> (
    None
):
    decision = MEASURED.decide()
    assert (deleted(decision), applied(decision)) == ([], ["ConfigMap stage 1"])
    assert (decision.status.phase, decision.acknowledge) == ("Running", 2)
    assert decision.status.progress is not None
    assert (decision.status.progress.summary, decision.status.progress.stage) == (
        "2/3",
        PROFILE_STAGE,
    )
    assert decision.pull is not None
    assert decision.pull.stage_ids[-1] == PROFILE_STAGE


@pytest.mark.parametrize(
    "scene", [MEASURED, Scene(spec=URL).measuring().arrived(0, 1)]
)
def test_with_the_profile_the_run_has_ended(scene: Scene) -> None:
    done = scene.delivered(profile())
    assert deleted(done.decide()) == (["Deployment"] if scene is MEASURED else [])
    status = done.ended().status
    assert (status.phase, [row.verdict for row in status.results]) == (
        "Completed",
        ["Valid", "Valid"],
    )
    assert status.profile is not None
    assert "no room" in status.profile.sentence


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(
            MEASURED.pod("server", terminated=SERVER_DIED, phase="Failed"),
            id="the server died of it",
        ),
        pytest.param(
            MEASURED.pod("server", restarts=1, last_terminated=SERVER_DIED),
            id="and was started again",
        ),
        pytest.param(
            MEASURED.fails("ClientError", "out of memory"), id="the client failed"
        ),
        pytest.param(
            MEASURED.without("Deployment", "server"),
            id="somebody deleted the server",
        ),
        pytest.param(
            MEASURED.stored(1)
            .operator_restarted()
            .pod("client", phase="Succeeded"),
            id="client has ended",
        ),
        pytest.param(ENDLESS, id="the run's time is up"),
    ],
)
def test_what_would_have_ended_the_run_ends_it_as_measured(scene: Scene) -> None:
    decision = scene.decide()
    assert decision.ending is None
    assert set(deleted(decision)) <= {"Deployment"}
    status = scene.ended().status
    assert (status.phase, standing(status, "Succeeded")["Succeeded"]) == (
        "Completed",
        "True (AllValid)",
    )
    assert [row.verdict for row in status.results] == ["Valid", "Valid"]
    assert status.profile is not None
    assert "No profile" in status.profile.sentence


def test_the_gpu_is_let_go_when_the_runs_time_is_up() -> None:
    assert deleted(ENDLESS.decide()) == ["Deployment"]


def test_a_run_whose_server_was_released_for_it_never_goes_on() -> None:
    """What was wrong may not be seen any more once the server is gone."""
    released = MEASURED.with_status(ENDLESS.decide().status).without(
        "Deployment", "server"
    )
    assert released.decide().status.phase == "Collecting"


def test_an_unmeasured_figure_stays_missing() -> None:
    scene = (
        Scene(spec=SPEC)
        .measuring()
        .stored(0)
        .at(300)
        .pod("server", terminated=SERVER_DIED)
    )
    assert scene.log_read().ended().status.phase == "Failed"


def test_a_cancelled_run_is_cancelled() -> None:
    assert MEASURED.with_spec(cancel=True).ended().status.phase == "Cancelled"
