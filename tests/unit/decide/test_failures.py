"""What ends a run early, which reason wins, and what is asked for first."""

from __future__ import annotations

import pytest
from benchrun.decide.decision import LogWanted
from unit.decide.saying import deleted, standing
from unit.decide.scenes import FIRST_REQUEST, HEALTHY, SERVER_DIED, Scene, instant, unix_us

LOG = f"INFO starting\n{SERVER_DIED.message}"
DIED_LOADING = Scene().server_loading().pod("server", terminated=SERVER_DIED)
RESTARTED = Scene().measuring().pod("server", restarts=1, last_terminated=SERVER_DIED)
REPLACED = Scene().measuring().pod("server", name="server-2", phase="Pending", started_at=None)


def reason_of(scene: Scene) -> str:
    return standing(scene.knowing(log_tail_tried=True).decide().status, "Failed")["Failed"]


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param("True (Conflict)", Scene().knowing(conflict="Job br-qwen-client-a1"), id="a name is taken"),
        pytest.param("True (UsageError)", DIED_LOADING, id="server can never start"),
        pytest.param(
            "True (DatasetNotFound)", Scene().client_created().fails("DatasetNotFound", "no file"), id="client's word"
        ),
        pytest.param("True (ServerRestarted)", RESTARTED, id="server restarted mid-stage"),
        pytest.param("True (ServerRestarted)", REPLACED, id="server's pod was replaced mid-stage"),
        pytest.param(
            "True (UsageError)", DIED_LOADING.fails("CanaryFailed", "refused"), id="server's end explains the client's"
        ),
        pytest.param("True (ServerRestarted)", RESTARTED.fails("CanaryFailed", "refused"), id="so does its restart"),
        pytest.param(
            "False (WarmingUp)", Scene().server_healthy().pod("server", ready=False), id="not ready for a moment"
        ),
        pytest.param("False (Measuring)", Scene().measuring().pod("server", ready=False), id="too busy for its probe"),
    ],
)
def test_reason(expected: str, scene: Scene) -> None:
    assert reason_of(scene) == expected


@pytest.mark.parametrize(
    "scene", [DIED_LOADING, RESTARTED, Scene().client_created().fails("DatasetInvalid", "not JSON")]
)
def test_everything_is_let_go_the_gpu_first(scene: Scene) -> None:
    kinds = [ref.kind for ref in scene.knowing(log_tail_tried=True).decide().delete]
    assert kinds == [kind for kind in ("Deployment", "Service", "Job") if any(c.kind == kind for c in scene.objects)]


@pytest.mark.parametrize(
    ("expected", "scene"),
    [
        pytest.param(LogWanted("server-1", "vllm", previous=False), DIED_LOADING, id="ended just now"),
        pytest.param(
            LogWanted("server-1", "vllm", previous=True),
            Scene().measuring().pod("server", restarts=1, last_terminated=SERVER_DIED),
            id="runs again: the one before",
        ),
        pytest.param(None, REPLACED, id="the new pod has no log yet"),
        pytest.param(None, Scene().client_created().fails("DatasetInvalid", "not JSON"), id="no server"),
    ],
)
def test_the_servers_last_words_are_asked_for(expected: LogWanted | None, scene: Scene) -> None:
    assert scene.decide().log_wanted == expected


def test_the_log_is_asked_for_once_and_before_its_pod_is_gone() -> None:
    first = DIED_LOADING.decide()
    assert (first.status.phase, deleted(first), first.forget) == ("Starting", [], False)
    second = DIED_LOADING.settled().knowing(log_tail=LOG, log_tail_tried=True).decide()
    assert (second.status.phase, second.status.log_tail, second.log_wanted) == ("Failed", LOG, None)
    assert deleted(second) == ["Deployment", "Service", "Job"]


def test_a_log_that_can_not_be_read_keeps_nobody_waiting() -> None:
    decision = DIED_LOADING.knowing(log_tail=None, log_tail_tried=True).decide()
    assert (decision.status.phase, decision.status.log_tail) == ("Failed", None)


def test_of_a_long_log_the_end_is_kept() -> None:
    status = DIED_LOADING.knowing(log_tail="a" * 10_000 + LOG, log_tail_tried=True).decide().status
    assert (status.log_tail or "").endswith(LOG)
    assert len(status.log_tail or "") == 4096


def test_partial_results_are_kept_and_marked() -> None:
    scene = RESTARTED.arrived(0).stored(0).knowing(log_tail_tried=True)
    status = scene.decide().status
    assert [(r.cell, r.verdict, r.repeats) for r in status.results] == [
        ("chat/rate=1", "Valid", 1),
        ("chat/rate=4", "Invalid", 0),
    ]
    assert (status.verdict, status.results_ref) == ("Invalid", f"benchrun.dev/run-uid={scene.world().run.uid}")


def test_nothing_measured_has_no_results_and_no_verdict() -> None:
    status = DIED_LOADING.knowing(log_tail_tried=True).decide().status
    assert (status.results, status.findings, status.verdict, status.results_ref) == ([], [], "Unknown", None)


def test_a_restart_before_the_first_request_is_another_start_not_another_server() -> None:
    restarted_while_loading = Scene().server_loading().pod("server", restarts=1).settled()
    began = {"healthy_unix_us": unix_us(60), "first_request_unix_us": unix_us(70)}
    measured = restarted_while_loading.says(phase="Measuring", **began).at(70).settled()
    assert measured.decide().status.phase == "Running"


def test_what_the_client_says_is_kept_whole() -> None:
    status = Scene().client_created().fails("DatasetTooSmall", "20 rows, 400 requests; add rows").decide().status
    assert status.message == "20 rows, 400 requests; add rows"


def test_a_restart_that_nobody_counted_is_told_by_its_instant() -> None:
    """The operator was away; its first pass after that already counts the restart as known."""
    again = Scene().measuring().pod("server", restarts=1, started_at=instant(FIRST_REQUEST + 40))
    noticed_late = again.at(FIRST_REQUEST + 50).operator_restarted().settled().says(phase="Measuring")
    assert noticed_late.status["servers"][0]["restarts"] == 1
    assert reason_of(noticed_late) == "True (ServerRestarted)"


@pytest.mark.parametrize("started", [HEALTHY, FIRST_REQUEST - 1, FIRST_REQUEST + 2])
def test_a_start_before_the_first_request_is_none_whatever_two_clocks_say(started: int) -> None:
    assert reason_of(Scene().measuring().pod("server", started_at=instant(started))) == "False (Measuring)"
