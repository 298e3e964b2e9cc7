"""What is read from now on, and when a pass is wanted without an event."""

from dataclasses import replace

import pytest
from benchrun.decide import PullTarget, ScrapeTarget
from benchrun.plan import token_of
from benchrun_client.engines import ENGINES
from unit.decide.scenes import CONTEXT, SERVICE_ENDPOINT, Scene
from unit.plan.specs import UID

VLLM = ENGINES["VLLM"]

CLIENT = PullTarget(
    pod="client-1",
    url="http://10.0.0.5:8090",
    run_uid=UID,
    from_sequence=0,
    token=token_of(CONTEXT.channel_key, UID),
)
SERVER = ScrapeTarget(
    role="server",
    pod="server-1",
    url="http://10.0.0.9:8000/metrics",
    interval_seconds=1,
    engine=VLLM,
)
NO_DEADLINES = {
    "pendingDeadlineSeconds": 0,
    "startupDeadlineSeconds": 0,
    "runDeadlineSeconds": 0,
}


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param(None, Scene(), id="no client"),
        pytest.param(
            None,
            Scene().client_created().pod("client", phase="Pending", ip=None),
            id="client pulls its image",
        ),
        pytest.param(CLIENT, Scene().client_created(), id="client prepares"),
        pytest.param(CLIENT, Scene().measuring(), id="measuring"),
        pytest.param(
            None,
            Scene().measuring().pod("client", phase="Succeeded"),
            id="client has left",
        ),
        pytest.param(
            None,
            Scene().measuring().pod("client", deleting=True),
            id="client is leaving",
        ),
    ],
)
def test_the_client_is_followed_while_it_runs(
    expected: PullTarget | None, scene: Scene
) -> None:
    assert scene.decide().pull == expected


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param(
            (), Scene().server_loading(), id="loading: it would only refuse"
        ),
        pytest.param((SERVER,), Scene().server_healthy(), id="warming up"),
        pytest.param((SERVER,), Scene().measuring(), id="measuring"),
        pytest.param(
            (), Scene().measuring().pod("server", deleting=True), id="leaving"
        ),
        pytest.param((), Scene().measuring().arrived(0, 1), id="all is measured"),
    ],
)
def test_the_server_is_read_while_it_answers(
    expected: tuple[ScrapeTarget, ...], scene: Scene
) -> None:
    assert scene.decide().scrape == expected


def test_the_spec_sets_the_scrape_interval() -> None:
    (target,) = (
        Scene()
        .with_spec(measurement={"scrapeIntervalSeconds": 7})
        .measuring()
        .decide()
        .scrape
    )
    assert target.interval_seconds == 7


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param(None, Scene().client_created(), id="nothing to wait for"),
        pytest.param(None, Scene().measuring(), id="not read yet"),
        pytest.param(5.0, Scene().measuring().sampled(70), id="live figures"),
        pytest.param(
            None,
            Scene().measuring().arrived(0, 1),
            id="all is measured: the judge wakes it",
        ),
    ],
)
def test_without_deadlines_a_pass_is_wanted_for_live_figures_only(
    expected: float | None, scene: Scene
) -> None:
    assert (
        scene.with_spec(**NO_DEADLINES).decide().requeue_after_seconds == expected
    )


def test_pods_are_reached_through_the_api_server_when_configured() -> None:
    decision = replace(
        Scene().measuring(), context=replace(CONTEXT, pod_road="Proxy")
    ).decide()
    assert [target.url for target in decision.scrape] == [
        "/api/v1/namespaces/lab/pods/server-1:8000/proxy/metrics"
    ]
    assert decision.pull is not None
    assert decision.pull.url == "/api/v1/namespaces/lab/pods/client-1:8090/proxy"


def test_an_address_of_six_parts_stands_in_brackets() -> None:
    decision = (
        Scene()
        .measuring()
        .pod("server", ip="fd00::5")
        .pod("client", ip="fd00::6")
        .decide()
    )
    assert [target.url for target in decision.scrape] == [
        "http://[fd00::5]:8000/metrics"
    ]
    assert decision.pull is not None
    assert decision.pull.url == "http://[fd00::6]:8090"


def test_an_endpoint_is_reached_directly_all_the_same() -> None:
    outside = replace(
        Scene(spec=SERVICE_ENDPOINT).measuring(),
        context=replace(CONTEXT, pod_road="Proxy"),
    )
    assert [target.url for target in outside.decide().scrape] == [
        "http://10.0.0.7:8000/metrics"
    ]


def test_the_clients_job_tells_by_which_plan_its_records_are_to_be() -> None:
    scene = (
        Scene()
        .client_created()
        .without("Job", "client")
        .having(("Job", "client"), plan_digest="p" * 64)
    )
    target = scene.pod("client").decide().pull
    assert target is not None
    assert (target.plan_digest, target.run_uid) == ("p" * 64, UID)
    assert list(target.stage_ids) == ["chat/rate=1/r1", "chat/rate=4/r1"]


def test_a_token_is_not_shown() -> None:
    assert CLIENT.token not in repr(CLIENT)
    assert len(CLIENT.token) == 64
