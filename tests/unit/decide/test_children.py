"""What is ours is known by its owner, never by a label or a name."""

from dataclasses import replace
from typing import Any

import pytest
from unit.decide.scenes import (
    DEPLOYMENT,
    JOB,
    PLAN,
    SERVICE,
    URL_ENDPOINT,
    Scene,
    instant,
)
from unit.decide.summaries import applied, deleted, standing


@pytest.mark.parametrize(
    "owner",
    [
        pytest.param("another-run", id="another run's"),
        pytest.param(None, id="nobody's"),
    ],
)
def test_an_object_with_our_name_and_labels_is_not_ours(owner: str | None) -> None:
    scene = Scene().having(PLAN, JOB, SERVICE, DEPLOYMENT, owner_uid=owner)
    assert applied(scene.decide()) == [
        "ConfigMap plan",
        "Job client",
        "Service server",
    ]


def test_nothing_of_others_is_ever_deleted() -> None:
    scene = (
        Scene()
        .having(PLAN, JOB, SERVICE, DEPLOYMENT, owner_uid="another-run")
        .with_spec(cancel=True)
    )
    assert deleted(scene.decide()) == []
    assert deleted(scene.with_spec(repeats=0).decide()) == []
    assert deleted(scene.settled().at(1000).decide()) == []


def test_a_record_of_a_namesake_that_was_deleted_does_not_count() -> None:
    measured_before = tuple(
        replace(c, owner_uid="deleted-run") for c in Scene().stored(0, 1).objects
    )
    assert (
        replace(Scene(), objects=measured_before).decide().status.phase
        == "Preparing"
    )


def test_a_pod_of_another_run_reports_nothing_about_this_one() -> None:
    scene = (
        Scene().client_created().pod("client", ready=True, run_uid="another-run")
    )
    assert scene.decide().status.phase == "Preparing"
    assert scene.decide().pull is None


def test_deletion_names_the_uid_so_that_a_namesake_is_safe() -> None:
    refs = Scene().measuring().with_spec(cancel=True).decide().delete
    assert [(ref.kind, ref.uid) for ref in refs] == [
        ("Deployment", "Deployment-uid"),
        ("Job", "Job-uid"),
    ]


def test_a_taken_name_is_a_conflict_and_is_reported() -> None:
    status = (
        Scene()
        .knowing(
            conflict="Job br-qwen-6316e01c-client exists and has another owner"
        )
        .decide()
        .status
    )
    assert (
        status.phase,
        "Job br-qwen-6316e01c-client" in (status.message or ""),
    ) == (
        "Failed",
        True,
    )
    assert (status.message or "").count("exists") == 1


@pytest.mark.parametrize(
    "scene",
    [Scene().server_healthy(), Scene().measuring(), Scene().measuring().stored(0)],
)
@pytest.mark.parametrize(
    ("reason", "gone"), [("ServerGone", DEPLOYMENT), ("ClientGone", JOB)]
)
def test_a_run_that_lost_half_of_itself_has_failed(
    reason: str, gone: tuple[str, str], scene: Scene
) -> None:
    decision = scene.without(*gone).ended()
    result = [] if decision.status.result_document is None else ["ConfigMap result"]
    assert (applied(decision), standing(decision.status, "Failed")) == (
        result,
        {"Failed": f"True ({reason})"},
    )


@pytest.mark.parametrize(
    ("records", "failed"), [(1, "True (ServerGone)"), (2, "False (Measuring)")]
)
def test_a_server_is_not_missed_once_the_client_has_all_records(
    records: int, failed: str
) -> None:
    """An operator that had seen them let go of it, and ended before it stored them."""
    scene = (
        Scene().measuring().stored(0).reports(records=records).without(*DEPLOYMENT)
    )
    assert standing(scene.ended().status, "Failed") == {"Failed": failed}


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
def test_before_that_nothing_was_measured_and_it_is_recreated(
    made: str, gone: tuple[str, str], scene: Scene
) -> None:
    assert applied(scene.without(*gone).ended()) == [made]


def test_an_object_that_is_being_deleted_is_not_recreated_under_its_name() -> None:
    leaving = (
        Scene()
        .server_pending()
        .without(*DEPLOYMENT)
        .having(DEPLOYMENT, deleting=True)
    )
    assert applied(leaving.ended()) == []


@pytest.mark.parametrize(
    ("kind", "changed"),
    [
        pytest.param(
            "Deployment", {"role": "other"}, id="a server with another role's label"
        ),
        pytest.param(
            "Deployment",
            {"deleting": True},
            id="a server that somebody deletes in the background",
        ),
    ],
)
def test_what_the_run_owns_is_released_whatever_somebody_did_to_it(
    kind: str, changed: dict[str, Any]
) -> None:
    scene = Scene().measuring().with_spec(cancel=True)
    objects = tuple(
        replace(c, **changed) if c.kind == kind else c for c in scene.objects
    )
    scene = replace(scene, objects=objects)
    assert deleted(scene.decide()) == ["Deployment", "Job"]
    released = deleted(scene.knowing(released_at=instant(scene.seconds)).decide())
    assert released == (["Job"] if "deleting" in changed else ["Deployment", "Job"])
