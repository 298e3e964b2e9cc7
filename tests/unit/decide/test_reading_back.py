"""Records that are stored are not in memory: they are read back to be judged, and nothing is held meanwhile."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.decide.decision import Ending, LogRange
from benchrun.plan.stored import COMPILATIONS_KEY, stored_compilations
from unit.decide.saying import applied, deleted, standing
from unit.decide.scenes import HEALTHY, URL_ENDPOINT, Scene

STORED = Scene().measuring().stored(0, loaded=False).at(300)
LAST_RECORD = STORED.arrived(1)
CANCELLED = STORED.with_spec(cancel=True)


def test_the_last_record_releases_the_server_and_asks_for_the_others() -> None:
    decision = LAST_RECORD.decide()
    assert (deleted(decision), applied(decision)) == (["Deployment", "Service"], ["ConfigMap stage 1"])
    assert (decision.read_back, decision.forget, decision.acknowledge) == (True, False, 2)
    assert decision.status.phase == "Collecting"


def test_with_all_records_the_same_world_is_judged() -> None:
    decision = LAST_RECORD.stored(0).knowing(read_back=True).decide()
    assert (decision.read_back, decision.forget, decision.status.phase) == (False, True, "Completed")
    assert [r.verdict for r in decision.status.results] == ["Valid", "Valid"]


def test_a_record_that_is_gone_is_missed_and_not_waited_for() -> None:
    decision = LAST_RECORD.knowing(read_back=True).decide()
    assert (decision.forget, decision.status.phase, decision.status.verdict) == (True, "Completed", "Invalid")


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(Scene().measuring().arrived(0, 1), id="the last record has come"),
        pytest.param(Scene(spec=URL_ENDPOINT).measuring().arrived(0, 1), id="at an endpoint"),
        pytest.param(Scene().measuring().arrived(0).with_spec(cancel=True), id="the run is cancelled"),
    ],
)
def test_what_is_at_hand_is_judged_in_a_step_of_its_own(scene: Scene) -> None:
    """To judge takes seconds where much was measured: no server is held for it."""
    decision = scene.knowing(read_back=False).decide()
    assert (decision.read_back, decision.forget, decision.status.results) == (True, False, [])
    assert set(deleted(decision)) >= {k for k, role in ((c.kind, c.role) for c in scene.objects) if role == "server"}


def test_a_run_that_measured_nothing_has_nothing_to_read_back() -> None:
    decision = Scene().measuring().knowing(read_back=False).with_spec(cancel=True).decide()
    assert (decision.read_back, decision.forget, decision.status.phase) == (False, True, "Cancelled")


def test_a_run_that_ends_early_lets_go_first_too() -> None:
    decision = CANCELLED.decide()
    assert deleted(decision) == ["Deployment", "Service", "Job"]
    assert (decision.read_back, decision.forget) == (True, False)
    assert decision.ending == Ending("Cancelled", "cancelled by spec.cancel")
    assert standing(decision.status, "Failed", "Complete") == {
        "Failed": "False (Cancelled)",
        "Complete": "False (Cancelled)",
    }
    judged = CANCELLED.stored(0).knowing(read_back=True).decide()
    assert (judged.status.phase, [r.repeats for r in judged.status.results]) == ("Cancelled", [1, 0])


def test_why_it_ends_is_not_forgotten_while_its_records_can_not_be_read() -> None:
    died = STORED.pod("server", restarts=1).knowing(log_tail_tried=True)
    first = died.decide()
    assert first.ending is not None
    later = died.settled().without("Deployment", "server").without("Job", "client").knowing(ending=first.ending).at(400)
    assert (later.decide().read_back, later.decide().status.phase) == (True, "Collecting")
    ended = later.stored(0).knowing(read_back=True).decide().status
    assert standing(ended, "Failed") == {"Failed": "True (ServerRestarted)"}
    assert ended.server_released_time == "2026-01-01T00:05:00Z"


# ---- the server's log ------------------------------------------------------------------------------------------------


def test_what_the_log_told_is_judged() -> None:
    measured = Scene().measuring().arrived(0, 1).at(300)
    within = measured.collected.records[0].first_send_unix_us / 1e6 + 0.1
    status = measured.knowing(compilations=(within,)).decide().status
    assert "CompilationInWindow" in {finding.code for finding in status.findings}


def stored_log(scene: Scene) -> list[Any]:
    """What is to be kept of the server's log, at the end."""
    kept = [m for m in scene.decide().apply if COMPILATIONS_KEY in m.get("binaryData", {})]
    return [(m["metadata"]["name"], stored_compilations(m)) for m in kept]


@pytest.mark.parametrize("told", [(), (1.0, 2.5)])
def test_what_the_log_told_is_stored_even_if_it_is_nothing(told: tuple[float, ...]) -> None:
    measured = Scene().measuring().arrived(0, 1).at(300)
    assert stored_log(measured.knowing(compilations=told)) == [("br-qwen-log-a1", told)]
    assert stored_log(measured.stored(0, 1).knowing(compilations=told)) == [("br-qwen-log-a1", told)]


def test_a_log_that_could_not_be_read_is_not_stored() -> None:
    assert stored_log(Scene().measuring().arrived(0, 1).at(300)) == []


def test_it_is_stored_with_the_end_and_not_before() -> None:
    assert stored_log(Scene().measuring().arrived(0).at(300).knowing(compilations=(1.0,))) == []


UNSEARCHED = Scene().measuring().arrived(0, 1).knowing(log_searched=False).at(300)


def test_the_log_of_the_measurement_is_searched_before_the_server_goes() -> None:
    decision = UNSEARCHED.decide()
    assert decision.log_search == LogRange("server-1", "vllm", since_seconds=300 - HEALTHY + 10)
    assert (deleted(decision), decision.read_back, decision.forget) == (["Deployment", "Service"], True, False)
    assert UNSEARCHED.knowing(log_searched=True, compilations=(1.0,)).decide().status.phase == "Completed"


@pytest.mark.parametrize(
    "scene",
    [
        pytest.param(Scene(spec=URL_ENDPOINT).measuring().arrived(0, 1), id="an endpoint's is not ours"),
        pytest.param(UNSEARCHED.without("Deployment", "server"), id="the server is gone"),
        pytest.param(UNSEARCHED.pod("server", started_at=None), id="it runs nothing"),
        pytest.param(UNSEARCHED.knowing(log_searched=True), id="it was searched"),
        pytest.param(UNSEARCHED.with_spec(cancel=True), id="the run ends early"),
        pytest.param(Scene().measuring().arrived(0).knowing(log_searched=False), id="it goes on"),
    ],
)
def test_no_log_is_searched(scene: Scene) -> None:
    assert scene.decide().log_search is None
