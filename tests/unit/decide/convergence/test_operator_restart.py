"""The operator starts anew, with the cluster and the status and nothing else: nothing is lost,
nothing is done twice."""

from dataclasses import replace

import pytest
from unit.decide.scenes import PLAN, SERVICE_ENDPOINT, Scene
from unit.decide.summaries import applied, deleted

POINTS = [
    pytest.param(Scene().client_created(), id="preparing"),
    pytest.param(Scene().client_ready(), id="client ready"),
    pytest.param(Scene().server_pending(), id="waiting for a node"),
    pytest.param(Scene().server_loading(), id="loading"),
    pytest.param(Scene().server_healthy(), id="warming up"),
    pytest.param(Scene().measuring(), id="measuring"),
    pytest.param(Scene().measuring().arrived(0), id="a record had come"),
    pytest.param(Scene().measuring().stored(0), id="a record was stored"),
    pytest.param(
        Scene(spec=SERVICE_ENDPOINT).measuring(), id="measuring an endpoint"
    ),
    pytest.param(
        Scene(spec=SERVICE_ENDPOINT).client_ready(), id="asking an endpoint"
    ),
]
"""All after a pass has written its status."""


@pytest.mark.parametrize("scene", POINTS)
def test_nothing_is_made_twice_and_nothing_is_let_go(scene: Scene) -> None:
    decision = scene.settled().operator_restarted().decide()
    assert (applied(decision), deleted(decision)) == ([], [])


@pytest.mark.parametrize("scene", POINTS)
def test_nothing_is_judged_before_the_client_is_heard_however_late_it_is(
    scene: Scene,
) -> None:
    late = (
        scene.settled()
        .operator_restarted()
        .with_spec(runDeadlineSeconds=1, startupDeadlineSeconds=0)
        .at(1_000_000)
    )
    assert late.decide().status.phase not in ("Failed", "Cancelled")


@pytest.mark.parametrize("scene", POINTS)
def test_conditions_do_not_flap(scene: Scene) -> None:
    before = scene.settled()
    after = before.operator_restarted().settled()
    types = (
        "ClientReady",
        "ServerReady",
        "Complete",
        "Failed",
        "Ready",
        "Reconciling",
    )
    states = [
        {
            c["type"]: c["status"]
            for c in s.status["conditions"]
            if c["type"] in types
        }
        for s in (before, after)
    ]
    assert states[0] == states[1]


def test_following_resumes_from_the_first_record_that_is_not_stored() -> None:
    pull = Scene().measuring().stored(0).operator_restarted().decide().pull
    assert pull is not None
    assert (pull.pod, pull.from_sequence) == ("client-1", 1)


def test_a_client_that_never_answers_is_not_waited_for_for_ever() -> None:
    late = (
        Scene()
        .measuring()
        .operator_restarted()
        .with_spec(runDeadlineSeconds=10)
        .at(5000)
    )
    assert late.decide().status.phase == "Running"
    assert late.client(silent=True).ended().status.phase == "Failed"


def test_a_server_that_vanished_meanwhile_is_not_restarted() -> None:
    gone = Scene().measuring().operator_restarted().without("Deployment", "server")
    assert applied(gone.decide()) == []
    assert gone.decide().status.phase == "Running"


def test_the_server_goes_as_soon_as_all_records_are_known_to_be_stored() -> None:
    """They are still to be judged: that takes a while, and the GPU does not wait."""
    all_stored = Scene().measuring().stored(0, 1).operator_restarted().at(400)
    decision = all_stored.decide()
    assert (decision.status.phase, deleted(decision)) == (
        "Collecting",
        ["Deployment"],
    )
    assert (decision.forget, decision.scrape) == (False, ())
    finished = (
        all_stored.settled().without("Deployment", "server").at(410).ended().status
    )
    assert (finished.phase, finished.server_released_time) == (
        "Completed",
        "2026-01-01T00:06:40Z",
    )


def test_a_released_server_is_not_missed_while_records_are_resent() -> None:
    """A quota refused them; the client has kept them, and gives 16 at a time."""
    released = Scene().measuring().arrived(0, 1).settled()
    repeated = (
        released.operator_restarted()
        .without("Deployment", "server")
        .reports(phase="Done", records=2)
    )
    assert released.status["serverReleasedTime"]
    assert repeated.arrived(0).decide().ending is None
    assert repeated.arrived(0, 1).ended().status.phase == "Completed"


def test_the_results_are_those_it_would_have_had() -> None:
    without_a_restart = Scene().measuring().stored(0).arrived(1).at(300)
    with_a_restart = without_a_restart.operator_restarted().arrived(1)
    assert (
        with_a_restart.ended().status.results
        == without_a_restart.ended().status.results
    )


def test_a_half_made_run_is_made_whole() -> None:
    assert applied(Scene().having(PLAN).operator_restarted().decide()) == [
        "Job client",
        "Service server",
    ]


def newer(scene: Scene) -> Scene:
    """As an operator of a later version left it before it was rolled back."""
    status = {**scene.settled().status, "phase": "Rebalancing", "someday": {"x": 1}}
    return replace(scene, status=status).operator_restarted()


@pytest.mark.parametrize("scene", POINTS)
def test_values_of_a_newer_operator_are_no_end(scene: Scene) -> None:
    """Once: an unknown phase raised in every pass, and the server was held for ever."""
    decision = newer(scene).decide()
    assert (deleted(decision), decision.ending, decision.forget) == (
        [],
        None,
        False,
    )
    assert (
        decision.status.phase
        == scene.settled().operator_restarted().decide().status.phase
    )


def test_newer_values_do_not_stop_a_cancelled_run_from_releasing_servers() -> None:
    assert deleted(newer(Scene().measuring()).with_spec(cancel=True).decide()) == [
        "Deployment",
        "Job",
    ]
