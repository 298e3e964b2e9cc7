"""Somebody deleted what the run needs. Once client and server have met, that is the end: never made again."""

from __future__ import annotations

import pytest
from unit.decide.saying import applied, standing
from unit.decide.scenes import DEPLOYMENT, JOB, PLAN, SERVICE, URL_ENDPOINT, Scene


@pytest.mark.parametrize("scene", [Scene().server_healthy(), Scene().measuring(), Scene().measuring().stored(0)])
@pytest.mark.parametrize(("reason", "gone"), [("ServerGone", DEPLOYMENT), ("ClientGone", JOB)])
def test_a_run_that_lost_half_of_itself_has_failed(reason: str, gone: tuple[str, str], scene: Scene) -> None:
    decision = scene.without(*gone).ended()
    assert (applied(decision), standing(decision.status, "Failed")) == ([], {"Failed": f"True ({reason})"})


def test_against_an_endpoint_only_the_client_can_vanish() -> None:
    decision = Scene(spec=URL_ENDPOINT).measuring().without(*JOB).ended()
    assert standing(decision.status, "Failed") == {"Failed": "True (ClientGone)"}


@pytest.mark.parametrize("gone", [PLAN, SERVICE])
def test_what_is_no_longer_needed_may_vanish(gone: tuple[str, str]) -> None:
    decision = Scene().measuring().without(*gone).ended()
    assert (applied(decision), decision.status.phase) == ([], "Running")


@pytest.mark.parametrize(
    ("made", "gone", "scene"),
    [
        ("ConfigMap plan", PLAN, Scene().client_created()),
        ("Service server", SERVICE, Scene().client_created()),
        ("Job client", JOB, Scene().client_created()),
        ("Deployment server", DEPLOYMENT, Scene().server_pending()),
    ],
)
def test_before_that_nothing_was_measured_and_it_is_made_again(made: str, gone: tuple[str, str], scene: Scene) -> None:
    assert applied(scene.without(*gone).ended()) == [made]


def test_an_object_on_its_way_out_is_not_made_again_under_its_name() -> None:
    leaving = Scene().server_pending().without(*DEPLOYMENT).having(DEPLOYMENT, deleting=True)
    assert applied(leaving.ended()) == []
