"""The last record releases the server, in the same pass that stores and judges it."""

from __future__ import annotations

from unit.decide.saying import applied, deleted
from unit.decide.scenes import URL_ENDPOINT, Scene
from unit.measure.records import requests

LAST_RECORD = Scene().measuring().stored(0).arrived(1).at(300)


def test_everything_happens_in_one_pass() -> None:
    decision = LAST_RECORD.ended()
    assert deleted(decision) == ["Deployment"]
    assert (applied(decision), decision.acknowledge, decision.forget) == (["ConfigMap stage 1"], 2, True)
    status = decision.status
    assert (status.phase, status.verdict, status.completion_time) == ("Completed", "Valid", "2026-01-01T00:05:00Z")
    assert [(r.cell, r.verdict) for r in status.results] == [("chat/rate=1", "Valid"), ("chat/rate=4", "Valid")]
    assert status.server_released_time == "2026-01-01T00:05:00Z"


def test_the_end_of_the_job_is_not_waited_for() -> None:
    assert "Job" not in deleted(LAST_RECORD.ended())


def test_the_summary_counts_every_stage_and_names_none() -> None:
    progress = LAST_RECORD.ended().status.progress
    assert progress is not None
    assert (progress.summary, progress.stage) == ("2/2", None)


def test_an_endpoint_is_left_alone() -> None:
    decision = Scene(spec=URL_ENDPOINT).measuring().arrived(0, 1).ended()
    assert (deleted(decision), decision.status.phase, decision.status.server_released_time) == ([], "Completed", None)


def test_nothing_spoils_a_run_whose_records_are_all_here() -> None:
    spoiled = LAST_RECORD.pod("server", restarts=3).without("Deployment", "server").fails("ClientError", "port taken")
    assert spoiled.ended().status.phase == "Completed"


def test_a_name_that_is_taken_is_a_conflict_even_for_the_last_record() -> None:
    """Its record could not be kept."""
    assert LAST_RECORD.knowing(conflict="ConfigMap br-qwen-6316e01c-stage-001").ended().status.phase == "Failed"


def test_after_all_requests_failed_the_record_is_kept_all_the_same() -> None:
    none_answered = requests(ok=(0, 0), output_tokens=(0, 0))
    decision = Scene().measuring().arrived(0, 1, requests=none_answered).ended()
    assert applied(decision) == ["ConfigMap stage 0", "ConfigMap stage 1"]
    assert (decision.status.phase, decision.status.verdict) == ("Failed", "Invalid")
