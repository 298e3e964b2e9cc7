"""A claim for the model: no server before it is complete, and then at its commit, without the hub."""

from typing import Any

import pytest
from benchrun.api import Reason
from benchrun.decide import Answer, Decision, ServerStart
from benchrun_client.contract import ModelFiles
from unit.decide.scenes import Scene, instant, text, unix_us
from unit.decide.summaries import applied
from unit.plan.specs import Json

COMMIT = "0123456789abcdef" * 2 + "01234567"
HUB: Json = {"cacheClaim": "models", "tokenSecretRef": {"name": "hf"}}
SCENE = Scene().with_spec(model={"name": "org/tiny", "source": {"hub": HUB}})
LIMITS = {"pendingDeadlineSeconds": 600, "startupDeadlineSeconds": 100}
DONE: dict[str, Any] = {
    "state": "Complete",
    "commit": COMMIT,
    "start": "Cold",
    "total_bytes": 16 * 10**9,
    "done_bytes": 16 * 10**9,
}


def filling(scene: Scene = SCENE, **files: Any) -> Scene:
    """Return the scene with a client that reports this of the claim, and is not ready."""
    scene = scene.client_created()
    return scene.reports(model=ModelFiles(**files)).settled()


def filled(scene: Scene = SCENE, *, at: float = 5, **files: Any) -> Scene:
    """Return the scene with a client that is ready, and has completed the claim at this second."""
    done = DONE | {"completed_unix_us": unix_us(at)} | files
    return filling(scene, **done).client_ready()


def deployment(decision: Decision) -> Json:
    (found,) = (m for m in decision.apply if m["kind"] == "Deployment")
    pod: Json = found["spec"]["template"]["spec"]
    return pod


def test_the_server_is_made_with_the_commit_and_without_hub_and_token() -> None:
    pod = deployment(filled().decide())
    (server,) = pod["containers"]
    assert f"--revision={COMMIT}" in server["args"]
    env = {each["name"]: each.get("value") for each in server["env"]}
    assert (env["HF_HUB_OFFLINE"], env["HF_HUB_CACHE"]) == ("1", "/model-cache/hub")
    assert "HF_TOKEN" not in env
    mounts = {m["name"]: m for m in server["volumeMounts"]}
    assert mounts["model-cache"]["readOnly"] is True


def test_no_server_is_made_before_the_claim_is_known_to_be_complete() -> None:
    waiting = filling(state="Downloading", commit=COMMIT, total_bytes=9)
    # The kubelet may be faster than the poll.
    ahead = waiting.pod("client", ready=True).at(10)
    assert "Deployment server" not in applied(ahead.decide())
    never = SCENE.client_ready()
    assert "Deployment server" not in applied(never.decide())
    without_commit = filled(commit=None)
    assert "Deployment server" not in applied(without_commit.decide())
    assert "Deployment server" in applied(filled().decide())


def test_an_operator_that_restarts_knows_the_commit_and_waits_for_the_client() -> (
    None
):
    restarted = filled().settled().operator_restarted()
    assert "Deployment server" not in applied(restarted.decide())
    heard = restarted.reports(phase="Waiting")
    (server,) = deployment(heard.decide())["containers"]
    assert f"--revision={COMMIT}" in server["args"]


WORDS = [
    pytest.param({"state": "Resolving"}, "asked for the model's commit", id="asks"),
    pytest.param({"state": "Waiting", "commit": COMMIT}, "another run", id="waits"),
    pytest.param(
        {
            "state": "Downloading",
            "total_bytes": 16 * 10**9,
            "done_bytes": 3 * 10**9,
        },
        "3.0 of 16.0 GB",
        id="downloads",
    ),
    pytest.param(
        {"state": "Resolving", "problem": "it answers 429"}, "429", id="trouble"
    ),
]


@pytest.mark.parametrize(("files", "words"), WORDS)
def test_the_status_says_how_far_it_is(files: dict[str, Any], words: str) -> None:
    status = filling(**files).decide().status
    assert status.phase == "Preparing"
    assert {c.reason for c in status.conditions if c.type == "ClientReady"} == {
        Reason.DOWNLOADING_MODEL
    }
    assert words in (status.message or "")
    assert status.model is not None
    assert status.model.state == files["state"]


def test_what_was_complete_stays_in_the_status() -> None:
    scene = filled(SCENE.at(8), at=5).server_loading()
    model = scene.decide().status.model
    assert model is not None
    assert (model.commit, model.start) == (COMMIT, "Cold")
    assert model.completed_time == text(5)
    later = scene.reports(model=ModelFiles(state="Resolving")).decide().status.model
    assert later == model


def test_a_clock_of_the_client_that_is_ahead_moves_no_deadline() -> None:
    model = filled(at=10_000_000).decide().status.model
    assert model is not None
    assert model.completed_time is not None
    assert model.completed_time <= text(10)


def ended(scene: Scene, seconds: float) -> str | None:
    ending = scene.at(seconds).decide().ending
    return None if ending is None else ending.reason


def test_a_download_counts_against_waiting_and_not_against_starting() -> None:
    scene = filling(
        SCENE.with_spec(**LIMITS), state="Downloading", total_bytes=2, done_bytes=1
    ).pod("client", node="n0", created_at=instant(1))
    assert ended(scene, 500) is None
    assert ended(scene, 602) == Reason.PENDING_DEADLINE
    assert ended(scene.with_spec(pendingDeadlineSeconds=0), 100_000) is None


def test_from_the_completed_claim_the_client_has_its_time_to_start() -> None:
    done = DONE | {"completed_unix_us": unix_us(500)}
    scene = filling(SCENE.with_spec(**LIMITS).at(500), **done).pod(
        "client", node="n0", created_at=instant(1)
    )
    assert ended(scene, 590) is None
    assert ended(scene, 601) == Reason.STARTUP_DEADLINE


@pytest.mark.parametrize(
    "reason",
    ["CacheClaimFull", "CacheClaimReadOnly", "HubUnavailable", "CommitMismatch"],
)
def test_a_claim_that_cannot_be_filled_ends_the_run_without_a_server(
    reason: str,
) -> None:
    decision = filling(state="Resolving").fails(reason, "why").decide()
    assert decision.ending is not None
    assert decision.ending.reason == reason
    assert applied(decision) == []


def test_a_run_that_is_suspended_fills_the_claim_anew() -> None:
    scene = filled().with_spec(suspend=True)
    assert scene.decide().status.model is None


def test_servers_say_whether_the_claim_was_warm() -> None:
    scene = filled(start="Warm").server_healthy()
    (query,) = (q for q in scene.decide().lookups if isinstance(q, ServerStart))
    answered = scene.with_answers({query: Answer(None)}).decide().status
    startup = answered.servers[0].startup
    assert startup is not None
    assert startup.model == "Warm"
