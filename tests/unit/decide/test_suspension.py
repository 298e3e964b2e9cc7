"""A suspended run holds nothing, and its clock stands still."""

from __future__ import annotations

import pytest
from unit.decide.saying import applied, deleted, standing
from unit.decide.scenes import DEPLOYMENT, JOB, SERVICE_ENDPOINT, URL_ENDPOINT, Scene

SUSPENDED = Scene().with_spec(suspend=True)


def test_nothing_is_created() -> None:
    decision = SUSPENDED.decide()
    assert (applied(decision), deleted(decision), decision.requeue_after_seconds) == ([], [], None)


def test_a_client_that_waits_is_let_go() -> None:
    assert deleted(Scene().client_ready().with_spec(suspend=True).decide()) == ["Job"]


def test_a_client_that_is_stopped_by_it_has_not_failed() -> None:
    stopped = Scene().client_created().with_spec(suspend=True).pod("client", phase="Failed", ready=False, deleting=True)
    assert stopped.decide().status.phase == "Suspended"


def test_it_says_so() -> None:
    assert standing(SUSPENDED.decide().status, "Ready", "Reconciling", "Stalled", "Accepted") == {
        "Ready": "False (Suspended)",
        "Reconciling": "True (Suspended)",
        "Stalled": "False (Suspended)",
        "Accepted": "True (Accepted)",
    }


@pytest.mark.parametrize(
    "spec",
    [pytest.param(URL_ENDPOINT, id="url"), pytest.param(SERVICE_ENDPOINT, id="service"), pytest.param({}, id="server")],
)
def test_no_deadline_runs_while_suspended_nor_counts_that_time_afterwards(spec: dict[str, object]) -> None:
    scene = (Scene(spec=spec) if spec else Scene()).with_spec(suspend=True, startupDeadlineSeconds=60).settled()
    long_after = scene.at(100_000)
    assert long_after.decide().status.phase == "Suspended"
    assert long_after.settled().with_spec(suspend=False).decide().status.phase in ("Preparing", "Pending")


def test_going_on_starts_like_a_fresh_run() -> None:
    resumed = SUSPENDED.settled().with_spec(suspend=False)
    assert applied(resumed.decide()) == ["ConfigMap plan", "Job client", "Service server"]


def test_going_on_waits_until_the_old_client_has_left() -> None:
    leaving = Scene().client_ready().without(*JOB).having(JOB, deleting=True)
    resumed = leaving.with_spec(suspend=True).pod("client", deleting=True).settled().with_spec(suspend=False)
    assert applied(resumed.decide()) == []


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(Scene().client_ready().having(DEPLOYMENT), id="server exists"),
        pytest.param(Scene().measuring(), id="measuring"),
        pytest.param(Scene(spec=URL_ENDPOINT).server_healthy(), id="endpoint is being warmed up"),
    ],
)
def test_it_comes_too_late(scene: Scene) -> None:
    decision = scene.with_spec(suspend=True).decide()
    assert (decision.status.phase, deleted(decision)) == (scene.decide().status.phase, [])
