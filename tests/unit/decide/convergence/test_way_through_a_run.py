"""From a fresh object to its results: what is created at each step, and in which order."""

import pytest
from benchrun import plan
from unit.decide.scenes import (
    DEPLOYMENT,
    JOB,
    PLAN,
    SERVICE,
    TWO_STAGES,
    URL_ENDPOINT,
    Scene,
)
from unit.decide.summaries import applied, deleted

RESETTING = {**TWO_STAGES, "measurement": {"cachePolicy": "Reset"}}


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param(
            ["ConfigMap plan", "Job client", "Service server"],
            Scene(),
            id="fresh: all but the server",
        ),
        pytest.param(
            ["ConfigMap plan", "Job client"],
            Scene(spec=URL_ENDPOINT),
            id="fresh, against an endpoint",
        ),
        pytest.param(
            [
                "NetworkPolicy server",
                "ConfigMap plan",
                "Job client",
                "Service server",
            ],
            Scene(spec=RESETTING),
            id="fresh, in development mode: the fence comes long before the server",
        ),
        pytest.param(
            ["NetworkPolicy server", "Deployment server"],
            Scene(spec=RESETTING).client_ready(),
            id="the fence is gone: made again, and before the server",
        ),
        pytest.param(
            ["Job client", "Service server"],
            Scene().having(PLAN),
            id="cut short after the plan: the rest",
        ),
        pytest.param(
            [], Scene().client_created(), id="client not ready: no server"
        ),
        pytest.param(
            ["Deployment server"],
            Scene().client_ready(),
            id="client ready: the server",
        ),
        pytest.param(
            [], Scene().server_pending(), id="server waits for a node: nothing"
        ),
        pytest.param([], Scene().server_loading(), id="server loads: nothing"),
        pytest.param([], Scene().server_healthy(), id="warming up: nothing"),
        pytest.param([], Scene().measuring(), id="measuring: nothing"),
        pytest.param(
            ["ConfigMap stage 0"],
            Scene().measuring().arrived(0),
            id="a record came: it is stored",
        ),
        pytest.param(
            [],
            Scene().measuring().arrived(0).stored(0),
            id="a record is stored: nothing",
        ),
    ],
)
def test_applied(expected: list[str], scene: Scene) -> None:
    assert applied(scene.decide()) == expected
    assert deleted(scene.decide()) == []


def test_the_fence_is_left_standing_when_the_server_is_released() -> None:
    """The pods it keeps strangers from take their time to end."""
    scene = (
        Scene(spec=RESETTING)
        .client_created()
        .having(("NetworkPolicy", "server"))
        .client_ready()
        .having(DEPLOYMENT)
    )
    gone = deleted(scene.with_spec(cancel=True).decide())
    assert "Deployment" in gone
    assert "NetworkPolicy" not in gone


def test_a_client_that_was_never_heard_gets_no_server() -> None:
    """It may have measured already, while nobody was there to follow."""
    assert applied(Scene().client_ready().operator_restarted().decide()) == []


def test_a_client_that_is_leaving_gets_no_server() -> None:
    assert (
        applied(Scene().client_ready().pod("client", deleting=True).decide()) == []
    )


@pytest.mark.parametrize(
    ("phase", "reason", "scene"),
    [
        ("Preparing", "PreparingClient", Scene()),
        ("Preparing", "PreparingClient", Scene().client_created()),
        ("WaitingForNode", "WaitingForNode", Scene().client_ready()),
        ("WaitingForNode", "WaitingForNode", Scene().server_pending()),
        ("Starting", "ServerStarting", Scene().server_loading()),
        ("Starting", "WaitingForEndpoint", Scene(spec=URL_ENDPOINT).client_ready()),
        ("WarmingUp", "WarmingUp", Scene().server_healthy()),
        ("Running", "Measuring", Scene().measuring()),
        ("Running", "Measuring", Scene().measuring().arrived(0)),
        ("Collecting", "Collecting", Scene().measuring().stored(0, 1)),
        ("Suspended", "Suspended", Scene().with_spec(suspend=True)),
    ],
)
def test_phase_and_reason(phase: str, reason: str, scene: Scene) -> None:
    status = scene.decide().status
    ready = next(c for c in status.conditions if c.type == "Ready")
    assert (status.phase, ready.reason) == (phase, reason)


def test_objects_that_exist_are_left_as_they_are() -> None:
    """A change mid-run, of a default by an upgrade for example, would void the measurement."""
    made_by_an_older_operator = Scene().having(
        PLAN, JOB, SERVICE, plan_digest="o" * 64
    )
    assert applied(made_by_an_older_operator.pod("client").decide()) == []


def test_a_plan_that_stands_is_not_rewritten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of 256 stages takes longer than all the rest of a decision."""

    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(plan, "plan_of_client", never)
    assert applied(Scene().client_ready().decide()) == ["Deployment server"]
