"""A run of an engine without API server goes the way of a run with a server; what it says names its
own field."""

import pytest
from benchrun.decide import ScrapeTarget
from unit.decide.scenes import OFFLINE, SERVER_DIED, Scene
from unit.decide.summaries import standing

RUN = Scene(spec=OFFLINE)


def test_no_gpu_is_taken_before_the_client_has_found_its_data() -> None:
    early = RUN.client_created().ended().apply
    assert "Deployment" not in [manifest["kind"] for manifest in early]
    (deployment,) = [
        m for m in RUN.client_ready().ended().apply if m["kind"] == "Deployment"
    ]
    (engine,) = deployment["spec"]["template"]["spec"]["containers"]
    assert engine["command"][0] == "python3"


def test_its_figures_are_scraped_like_a_servers() -> None:
    (target,) = RUN.measuring().ended().scrape
    assert isinstance(target, ScrapeTarget)
    assert (target.role, target.url.rsplit("/", 1)[1]) == ("server", "metrics")


def test_what_it_died_of_is_reported_at_the_field_that_describes_it() -> None:
    status = (
        RUN.server_loading()
        .pod("server", terminated=SERVER_DIED)
        .log_read()
        .ended()
        .status
    )
    assert standing(status, "Failed")["Failed"] == "True (UsageError)"
    assert "spec.offline.args" in str(status.message)
    assert "spec.server" not in str(status.message)


@pytest.mark.parametrize(
    ("reason", "scene"),
    [
        pytest.param(
            "PendingDeadlineExceeded",
            RUN.with_spec(pendingDeadlineSeconds=50).server_pending(),
            id="no node takes it",
        ),
        pytest.param(
            "StartupDeadlineExceeded",
            RUN.with_spec(startupDeadlineSeconds=50).server_loading(),
            id="it never loads",
        ),
    ],
)
def test_deadlines_hold_for_it(reason: str, scene: Scene) -> None:
    late = scene.at(scene.seconds + 10_000).log_read()
    assert standing(late.ended().status, "Failed")["Failed"] == f"True ({reason})"


def test_with_the_last_record_the_gpu_is_let_go() -> None:
    done = RUN.measuring().arrived(0, 1).ended()
    assert "Deployment" in [ref.kind for ref in done.delete]


def test_a_restart_in_the_middle_is_another_engine() -> None:
    restarted = (
        RUN.measuring()
        .pod("server", restarts=1, last_terminated=SERVER_DIED)
        .log_read()
    )
    assert (
        standing(restarted.ended().status, "Failed")["Failed"]
        == "True (ServerRestarted)"
    )


def test_its_row_among_the_servers_has_its_image_and_gpus() -> None:
    (server,) = RUN.measuring().ended().status.servers
    assert server.role == "server"
    assert server.ready
