"""The deadlines: just before, at, and none where the spec says 0. Arithmetic in comments is seconds
of the scene."""

from dataclasses import replace

import pytest
from unit.decide.scenes import (
    CLIENT_READY,
    SERVICE_ENDPOINT,
    TWO_STAGES,
    URL_ENDPOINT,
    Scene,
)
from unit.plan.specs import Json

LIMITS = {
    "pendingDeadlineSeconds": 600,
    "startupDeadlineSeconds": 300,
    "runDeadlineSeconds": 1000,
}
NONE = dict.fromkeys(LIMITS, 0)

CASES = [
    # the client's pod was created at 1; 1 + 300
    pytest.param(
        "StartupDeadlineExceeded",
        301,
        Scene().client_created(),
        id="client does not get ready",
    ),
    # the server's pod was created at 11; 11 + 600
    pytest.param(
        "PendingDeadlineExceeded",
        611,
        Scene().server_pending(),
        id="no node for the server",
    ),
    # scheduled at 20; 20 + 300
    pytest.param(
        "StartupDeadlineExceeded",
        320,
        Scene().server_loading(),
        id="server does not get healthy",
    ),
    # healthy at 60; 60 + 1000
    pytest.param(
        "RunDeadlineExceeded",
        1060,
        Scene().server_healthy(),
        id="warm-up does not end",
    ),
    pytest.param(
        "RunDeadlineExceeded",
        1060,
        Scene().measuring(),
        id="measuring does not end",
    ),
    pytest.param(
        "RunDeadlineExceeded",
        1060,
        Scene().measuring().arrived(0).stored(0),
        id="half of it is measured",
    ),
    # the client was ready then, and has 300 and 30 more to say why
    pytest.param(
        "StartupDeadlineExceeded",
        CLIENT_READY + 330,
        Scene(spec=URL_ENDPOINT).client_ready(),
        id="endpoint does not get healthy",
    ),
    # accepted at 0, no client yet; 0 + 300
    pytest.param(
        "StartupDeadlineExceeded",
        300,
        Scene(spec=SERVICE_ENDPOINT).endpoint_found().settled(),
        id="service has no pods",
    ),
    pytest.param(
        "RunDeadlineExceeded",
        1060,
        Scene(spec=URL_ENDPOINT).measuring(),
        id="endpoint is too slow",
    ),
]


@pytest.mark.parametrize(("reason", "ends_at", "scene"), CASES)
def test_deadline(reason: str, ends_at: int, scene: Scene) -> None:
    limited = scene.with_spec(**LIMITS).log_read()
    before = limited.at(ends_at - 1).decide().status
    at = limited.at(ends_at).ended().status
    assert before.phase not in ("Failed", "Cancelled")
    failed = next(c for c in at.conditions if c.type == "Failed")
    assert (failed.status, failed.reason) == ("True", reason)


@pytest.mark.parametrize(
    "kind_and_role", [("Deployment", "server"), ("Job", "client")]
)
@pytest.mark.parametrize(("seconds", "late"), [(1059, False), (1060, True)])
def test_a_run_that_is_too_late_has_not_lost_what_was_released_for_that(
    seconds: int, late: bool, kind_and_role: tuple[str, str]
) -> None:
    """Another operator, or the CronJob, was faster: a sweep would measure it again."""
    gone = (
        Scene().measuring().with_spec(**LIMITS).log_read().without(*kind_and_role)
    )
    ending = gone.at(seconds).decide().ending
    assert ending is not None
    assert (ending.reason == "RunDeadlineExceeded") is late


def test_a_server_that_is_gone_before_it_was_ready_is_not_one_that_was_never_made() -> (
    None
):
    gone = (
        Scene()
        .server_loading()
        .with_spec(**LIMITS | {"startupDeadlineSeconds": 0})
        .log_read()
    )
    ending = gone.without("Deployment", "server").at(5000).decide().ending
    assert ending is not None
    assert ending.reason == "ServerGone"


@pytest.mark.parametrize(("reason", "ends_at", "scene"), CASES)
def test_zero_is_no_limit(reason: str, ends_at: int, scene: Scene) -> None:
    assert scene.with_spec(**NONE).at(
        ends_at + 10_000_000
    ).decide().status.phase not in (
        "Failed",
        "Cancelled",
    )


@pytest.mark.parametrize(("reason", "ends_at", "scene"), CASES)
def test_a_pass_is_requested_when_it_ends(
    reason: str, ends_at: int, scene: Scene
) -> None:
    wait = scene.with_spec(**LIMITS).at(ends_at - 3).decide().requeue_after_seconds
    assert wait == pytest.approx(3.0)


@pytest.mark.parametrize(
    ("words", "scene"),
    [
        pytest.param(
            "0/3 nodes: insufficient gpu",
            Scene()
            .server_pending()
            .pod("server", unschedulable="0/3 nodes: insufficient gpu"),
            id="scheduler",
        ),
        pytest.param(
            "the server was still loading", Scene().server_loading(), id="loading"
        ),
        pytest.param(
            "1 of 2 stages",
            Scene().measuring().arrived(0).stored(0),
            id="measuring",
        ),
    ],
)
def test_the_message_says_what_was_waited_for(words: str, scene: Scene) -> None:
    late = scene.with_spec(**LIMITS).log_read().at(5000).ended().status
    assert words in (late.message or "")


def test_starting_late_is_not_the_servers_fault_while_it_has_no_node() -> None:
    waiting_long = (
        Scene()
        .server_pending()
        .with_spec(**LIMITS | {"pendingDeadlineSeconds": 0})
        .at(5000)
    )
    assert waiting_long.decide().status.phase == "WaitingForNode"


def test_a_record_that_came_in_time_is_not_lost_to_a_deadline() -> None:
    assert (
        Scene()
        .measuring()
        .with_spec(**LIMITS)
        .arrived(0, 1)
        .at(5000)
        .ended()
        .status.phase
        == "Completed"
    )


def test_a_deadline_that_cannot_be_judged_yet_does_not_make_the_operator_spin() -> (
    None
):
    unheard = Scene().measuring().with_spec(**LIMITS).operator_restarted().at(5000)
    assert (unheard.decide().requeue_after_seconds or 0) >= 1.0


def test_an_instant_that_cannot_be_read_takes_no_deadline_away() -> None:
    """The endpoint's counts from the client being ready, or from the accepting of the spec, both at
    10; and 300 and 30 more."""
    scene = Scene(spec=URL_ENDPOINT).client_ready().with_spec(**LIMITS).log_read()
    conditions = [
        {**each, "lastTransitionTime": "yesterday"}
        for each in scene.status["conditions"]
    ]
    spoilt = replace(scene, status={**scene.status, "conditions": conditions})
    assert spoilt.at(339).decide().status.phase != "Failed"
    assert spoilt.at(340).ended().status.phase == "Failed"


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        pytest.param("startupDeadlineSeconds", {}, id="it takes long to end"),
        pytest.param(
            "pendingDeadlineSeconds",
            {"node": None, "scheduled_at": None},
            id="no node",
        ),
    ],
)
@pytest.mark.parametrize(
    "spec", [TWO_STAGES, URL_ENDPOINT], ids=["server", "endpoint"]
)
def test_a_client_of_before_a_suspension_takes_no_time_from_the_next(
    spec: Json, field: str, changes: dict[str, None]
) -> None:
    """It was made at 1, and is still on its way out when the run is resumed at 1000."""
    suspended = (
        Scene(spec=spec)
        .client_created()
        .with_spec(**{field: 300}, suspend=True)
        .at(900)
    )
    going = suspended.settled().pod("client", deleting=True, **changes)
    job = replace(next(c for c in going.objects if c.kind == "Job"), deleting=True)
    resumed = replace(going.without("Job", "client"), pods=going.pods)
    resumed = replace(resumed, objects=(*resumed.objects, job)).with_spec(
        suspend=False
    )
    accepted = resumed.at(1000).settled()
    assert accepted.at(1299).decide().ending is None
    ending = accepted.at(1300).decide().ending
    assert ending is not None
    assert field in ending.message
