"""What ends a run early, which reason wins, and what is asked for first."""

from dataclasses import replace

import pytest
from benchrun.decide import Answer, LogTail
from benchrun.observe import Termination
from unit.decide.scenes import (
    FIRST_REQUEST,
    HEALTHY,
    SERVER_DIED,
    Scene,
    instant,
    unix_us,
)
from unit.decide.summaries import deleted, standing

LOG = f"INFO starting\n{SERVER_DIED.message}"
DIED_LOADING = Scene().server_loading().pod("server", terminated=SERVER_DIED)
RESTARTED = (
    Scene().measuring().pod("server", restarts=1, last_terminated=SERVER_DIED)
)
REPLACED = (
    Scene()
    .measuring()
    .pod("server", name="server-2", phase="Pending", started_at=None)
)
EVICTED = (
    Scene()
    .measuring()
    .pod("server", deleting=True, pod_reason="DeletionByTaintManager")
    .another_server(
        "server-2",
        deleting=False,
        pod_reason=None,
        created_at=instant(FIRST_REQUEST),
    )
)


def reason_of(scene: Scene) -> str:
    return standing(scene.log_read().ended().status, "Failed")["Failed"]


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param(
            "True (Conflict)",
            Scene().knowing(conflict="Job br-qwen-6316e01c-client"),
            id="a name is taken",
        ),
        pytest.param(
            "True (UsageError)", DIED_LOADING, id="server can never start"
        ),
        pytest.param(
            "True (DatasetNotFound)",
            Scene().client_created().fails("DatasetNotFound", "no file"),
            id="client's word",
        ),
        pytest.param(
            "True (ServerRestarted)", RESTARTED, id="server restarted mid-stage"
        ),
        pytest.param(
            "True (ServerRestarted)",
            Scene()
            .measuring()
            .pod("server", terminated=Termination(1, "Error", "")),
            id="server ended mid-stage, and is not started again yet",
        ),
        pytest.param(
            "True (ServerRestarted)",
            REPLACED,
            id="server's pod was replaced mid-stage",
        ),
        pytest.param(
            "True (Evicted)", EVICTED, id="server's pod was evicted, and replaced"
        ),
        pytest.param(
            "True (UsageError)",
            DIED_LOADING.fails("CanaryFailed", "refused"),
            id="server's end explains the client's",
        ),
        pytest.param(
            "True (ServerRestarted)",
            RESTARTED.fails("CanaryFailed", "refused"),
            id="so does its restart",
        ),
        pytest.param(
            "False (WarmingUp)",
            Scene().server_healthy().pod("server", ready=False),
            id="not ready for a moment",
        ),
        pytest.param(
            "False (Measuring)",
            Scene().measuring().pod("server", ready=False),
            id="too busy for its probe",
        ),
    ],
)
def test_reason(expected: str, scene: Scene) -> None:
    assert reason_of(scene) == expected


@pytest.mark.parametrize(
    "scene",
    [
        DIED_LOADING,
        RESTARTED,
        Scene().client_created().fails("DatasetInvalid", "not JSON"),
    ],
)
def test_everything_is_let_go_the_gpu_first(scene: Scene) -> None:
    kinds = [ref.kind for ref in scene.decide().delete]
    assert kinds == [
        kind
        for kind in ("Deployment", "Job")
        if any(c.kind == kind for c in scene.objects)
    ]


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param(
            LogTail("server-1", "server", previous=False),
            DIED_LOADING,
            id="ended just now",
        ),
        pytest.param(
            LogTail("server-1", "server", previous=True),
            Scene()
            .measuring()
            .pod("server", restarts=1, last_terminated=SERVER_DIED),
            id="runs again: the one before",
        ),
        pytest.param(None, REPLACED, id="the new pod has no log yet"),
        pytest.param(
            None,
            Scene().client_created().fails("DatasetInvalid", "not JSON"),
            id="no server",
        ),
    ],
)
def test_the_servers_last_words_are_requested(
    expected: LogTail | None, scene: Scene
) -> None:
    assert scene.decide().last_words == expected


def test_the_log_is_requested_once_and_the_server_goes_all_the_same() -> None:
    first = DIED_LOADING.decide()
    assert (first.status.phase, deleted(first), first.forget) == (
        "Collecting",
        ["Deployment", "Job"],
        False,
    )
    assert first.last_words is not None
    answered = (
        DIED_LOADING.knowing(ending=first.ending)
        .settled()
        .with_answers({first.last_words: Answer(LOG)})
    )
    second = (
        answered.without("Deployment", "server").without("Job", "client").decide()
    )
    assert (second.status.phase, second.status.log_tail, second.last_words) == (
        "Failed",
        LOG,
        None,
    )
    assert standing(second.status, "Failed") == {"Failed": "True (UsageError)"}


def test_what_the_log_tells_more_is_the_reason() -> None:
    """Of a server that crashes the pod tells an exit code; its log tells why."""
    ended = replace(SERVER_DIED, exit_code=1, message="")
    crashed = (
        Scene().server_loading().pod("server", restarts=3, last_terminated=ended)
    )
    first = crashed.decide()
    assert first.ending is not None
    words = (
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB."
    )
    second = crashed.knowing(ending=first.ending).log_read(words).decide()
    assert second.ending is not None
    assert (second.ending.reason, second.forget) == ("OutOfGPUMemory", True)
    assert first.ending.reason != second.ending.reason


def test_the_end_of_a_long_log_is_kept() -> None:
    status = DIED_LOADING.log_read("a" * 10_000 + LOG).ended().status
    assert (status.log_tail or "").endswith(LOG)
    assert len(status.log_tail or "") == 4096


def test_partial_results_are_kept_and_marked() -> None:
    scene = RESTARTED.arrived(0).stored(0)
    status = scene.ended().status
    assert [(r.load_point, r.verdict, r.repeats) for r in status.results] == [
        ("chat/rate=1", "Valid", 1),
        ("chat/rate=4", "Invalid", 0),
    ]
    assert (status.verdict, status.results_ref) == (
        "Invalid",
        f"benchrun.dev/run-uid={scene.facts().run.uid}",
    )


def test_nothing_measured_has_no_results_and_no_verdict() -> None:
    status = DIED_LOADING.log_read().ended().status
    assert (
        status.results,
        status.findings,
        status.verdict,
        status.results_ref,
    ) == (
        [],
        [],
        "Unknown",
        None,
    )


@pytest.mark.parametrize("settled", [True, False])
def test_a_restart_before_the_first_request_is_another_start_not_another_server(
    settled: bool,
) -> None:
    """`told`: in time. With many runs a status waits its turn, and the operator may have been
    away."""
    loading = Scene().server_loading().pod("server", restarts=1)
    began = {"healthy_unix_us": unix_us(60), "first_request_unix_us": unix_us(70)}
    measured = (
        (loading.settled() if settled else loading)
        .reports(phase="Measuring", **began)
        .at(70)
        .settled()
    )
    assert reason_of(measured) == "False (Measuring)"


def test_what_the_client_says_is_kept_whole() -> None:
    status = (
        Scene()
        .client_created()
        .fails("DatasetTooSmall", "20 rows, 400 requests; add rows")
        .ended()
        .status
    )
    assert status.message == "20 rows, 400 requests; add rows"


def test_a_restart_that_nobody_counted_is_reported_by_its_instant() -> None:
    """The operator was away; its first pass after that already counts the restart as known."""
    repeated = (
        Scene()
        .measuring()
        .pod("server", restarts=1, started_at=instant(FIRST_REQUEST + 40))
    )
    noticed_late = (
        repeated.at(FIRST_REQUEST + 50)
        .operator_restarted()
        .settled()
        .reports(phase="Measuring")
    )
    assert noticed_late.status["servers"][0]["restarts"] == 1
    assert reason_of(noticed_late) == "True (ServerRestarted)"


@pytest.mark.parametrize("ahead", [60, 30 * 86400])
def test_a_container_that_never_restarted_is_the_same_by_any_clock(
    ahead: int,
) -> None:
    scene = (
        Scene().measuring().pod("server", started_at=instant(FIRST_REQUEST + ahead))
    )
    assert reason_of(scene) == "False (Measuring)"


@pytest.mark.parametrize("started", [HEALTHY, FIRST_REQUEST - 1, FIRST_REQUEST + 2])
def test_a_start_before_the_first_request_is_none_whatever_two_clocks_say(
    started: int,
) -> None:
    assert (
        reason_of(Scene().measuring().pod("server", started_at=instant(started)))
        == "False (Measuring)"
    )
