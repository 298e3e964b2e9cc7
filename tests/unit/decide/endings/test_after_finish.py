"""The last record releases the server, in the same pass that stores and judges it."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from benchrun.api import status_changes
from benchrun.decide import decide, rests
from unit.decide.scenes import SERVER_DIED, URL_ENDPOINT, Scene
from unit.decide.summaries import applied, deleted
from unit.measure.records import requests

LAST_RECORD = Scene().measuring().stored(0).arrived(1).at(300)


def test_everything_happens_in_one_pass() -> None:
    decision = LAST_RECORD.ended()
    assert deleted(decision) == ["Deployment"]
    assert (applied(decision), decision.acknowledge, decision.forget) == (
        ["ConfigMap stage 1", "ConfigMap result"],
        2,
        True,
    )
    status = decision.status
    assert (status.phase, status.verdict, status.completion_time) == (
        "Completed",
        "Valid",
        "2026-01-01T00:05:00Z",
    )
    assert [(r.load_point, r.verdict) for r in status.results] == [
        ("chat/rate=1", "Valid"),
        ("chat/rate=4", "Valid"),
    ]
    assert status.server_released_time == "2026-01-01T00:05:00Z"


def test_the_end_of_the_job_is_not_waited_for() -> None:
    assert "Job" not in deleted(LAST_RECORD.ended())


def test_the_summary_counts_every_stage_and_names_none() -> None:
    progress = LAST_RECORD.ended().status.progress
    assert progress is not None
    assert (progress.summary, progress.stage) == ("2/2", None)


def test_an_endpoint_is_left_alone() -> None:
    decision = Scene(spec=URL_ENDPOINT).measuring().arrived(0, 1).ended()
    assert (
        deleted(decision),
        decision.status.phase,
        decision.status.server_released_time,
    ) == (
        [],
        "Completed",
        None,
    )


def test_nothing_spoils_a_run_whose_records_are_all_here() -> None:
    spoiled = (
        LAST_RECORD.pod("server", restarts=3)
        .without("Deployment", "server")
        .fails("ClientError", "port taken")
    )
    assert spoiled.ended().status.phase == "Completed"


def test_a_name_that_is_taken_is_a_conflict_even_for_the_last_record() -> None:
    """Its record could not be kept."""
    assert (
        LAST_RECORD.knowing(conflict="ConfigMap br-qwen-6316e01c-stage-001")
        .ended()
        .status.phase
        == "Failed"
    )


def test_after_all_requests_failed_the_record_is_kept_all_the_same() -> None:
    none_answered = requests(ok=(0, 0), output_tokens=(0, 0))
    decision = Scene().measuring().arrived(0, 1, requests=none_answered).ended()
    assert applied(decision) == [
        "ConfigMap stage 0",
        "ConfigMap stage 1",
        "ConfigMap result",
    ]
    assert (decision.status.phase, decision.status.verdict) == ("Failed", "Invalid")


COMPLETED = (
    Scene().measuring().arrived(0, 1).at(300).answered().settled().stored(0, 1)
)
FAILED = Scene().measuring().without("Deployment", "server").at(300).settled()
CANCELLED = Scene().measuring().with_spec(cancel=True).at(300).settled()
ENDS = [
    pytest.param(COMPLETED, id="completed"),
    pytest.param(FAILED, id="failed"),
    pytest.param(CANCELLED, id="cancelled"),
]


@pytest.mark.parametrize("scene", ENDS)
@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s: s.at(1_000_000), id="time passes"),
        pytest.param(lambda s: s.operator_restarted(), id="operator restarts"),
        pytest.param(lambda s: s.with_spec(cancel=True), id="cancelled afterwards"),
        pytest.param(
            lambda s: s.with_spec(suspend=True), id="suspended afterwards"
        ),
        pytest.param(
            lambda s: s.with_spec(repeats=0), id="spec is no longer accepted"
        ),
        pytest.param(lambda s: s.without("Job", "client"), id="client is deleted"),
        pytest.param(
            lambda s: s.pod("server", terminated=SERVER_DIED), id="server dies"
        ),
        pytest.param(lambda s: s.fails("ClientError", "late"), id="client fails"),
        pytest.param(lambda s: s.knowing(conflict="Job x"), id="name is taken"),
    ],
)
def test_nothing_changes_how_it_ended(
    change: Callable[[Scene], Scene], scene: Scene
) -> None:
    decision = change(scene).decide()
    assert decision.status == scene.decide().status
    assert (applied(decision), decision.events, decision.pull, decision.scrape) == (
        [],
        (),
        None,
        (),
    )


@pytest.mark.parametrize("scene", ENDS)
@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"ttlSecondsAfterFinished": 900}, id="edited"),
        pytest.param({"repeats": 0}, id="spoiled"),
    ],
)
def test_an_edit_after_the_end_is_seen_and_changes_nothing_else(
    edit: dict[str, int], scene: Scene
) -> None:
    """Tools that wait for `observedGeneration` would call the run in progress for ever."""
    status = replace(scene.with_spec(**edit), generation=2).decide().status
    assert status.observed_generation == 2
    assert status == scene.decide().status.model_copy(
        update={"observed_generation": 2}
    )


@pytest.mark.parametrize("scene", [COMPLETED, CANCELLED])
def test_a_server_that_is_left_over_is_removed(scene: Scene) -> None:
    assert deleted(scene.operator_restarted().decide())[:1] == ["Deployment"]


def test_a_client_whose_records_are_stored_may_leave_by_itself() -> None:
    no_server = COMPLETED.without("Deployment", "server")
    assert deleted(no_server.at(310).decide()) == []
    assert no_server.at(310).decide().requeue_after_seconds == 20.0
    assert deleted(no_server.at(330).decide()) == ["Job"]


def test_a_client_that_has_left_stays_for_its_log() -> None:
    left = COMPLETED.without("Deployment", "server").pod(
        "client", phase="Succeeded"
    )
    assert deleted(left.at(10_000).decide()) == []


def test_a_client_of_a_failed_run_goes_at_once() -> None:
    assert "Job" in deleted(FAILED.decide())


@pytest.mark.parametrize(
    ("expected", "wait", "ttl", "now"),
    [
        pytest.param(
            False, None, None, 10_000, id="no TTL: kept, and nobody is woken"
        ),
        pytest.param(False, 1.0, 600, 899, id="a second before"),
        pytest.param(True, None, 600, 900, id="at"),
        pytest.param(True, None, 600, 10_000, id="the operator was away"),
        pytest.param(True, None, 0, 300, id="at once"),
    ],
)
def test_ttl(expected: bool, wait: float | None, ttl: int | None, now: int) -> None:
    bare = COMPLETED.without("Deployment", "server").without("Job", "client")
    decision = bare.with_spec(ttlSecondsAfterFinished=ttl).at(now).decide()
    assert (decision.delete_run, decision.requeue_after_seconds) == (expected, wait)


def test_nothing_is_remembered_of_it() -> None:
    assert COMPLETED.decide().forget


def test_a_run_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    facts = Scene().measuring().arrived(0).facts()
    decision = decide(replace(facts, run=replace(facts.run, deleting=True)))
    assert (applied(decision), deleted(decision), decision.forget) == ([], [], True)


LEFT = COMPLETED.without("Deployment", "server").pod("client", phase="Succeeded")


@pytest.mark.parametrize(
    ("scene", "at_rest"),
    [
        pytest.param(LEFT, True, id="all is over"),
        pytest.param(FAILED.without("Job", "client"), True, id="failed"),
        pytest.param(
            LEFT.with_spec(ttlSecondsAfterFinished=900), False, id="has a TTL"
        ),
        pytest.param(replace(LEFT, generation=2), False, id="edited"),
        pytest.param(COMPLETED, False, id="server is there"),
        pytest.param(
            COMPLETED.without("Deployment", "server"), False, id="client goes on"
        ),
        pytest.param(Scene().measuring(), False, id="goes on"),
    ],
)
def test_a_run_rests_when_there_is_nothing_to_decide(
    scene: Scene, at_rest: bool
) -> None:
    decision = scene.decide()
    is_idle = decision == replace(
        decision,
        delete=(),
        apply=(),
        lookups=(),
        delete_run=False,
        requeue_after_seconds=None,
    )
    is_idle = is_idle and status_changes(scene.status, decision.status) == {}
    assert rests(scene.facts()) is at_rest
    assert is_idle is at_rest
