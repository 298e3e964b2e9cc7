"""What is looked for before a run ends for want of it: records that another operator stored, which
no watch reports, and how the client's pod ended, which may be heard after its Job's failure."""

import pytest
from benchrun import names
from benchrun.api import Reason
from benchrun.decide import Decision, Ending, Facts, Ref
from benchrun.effects import Unavailable
from benchrun.runtime import run_reconciler
from benchrun.runtime.queue import Later
from unit.runtime.bodies import NAMESPACE, UID, Json, child_body, stage_body
from unit.runtime.scene import RUNNING, Scene

GONE = Ending(Reason.SERVER_GONE, "the server's Deployment was deleted")


JOB_REF = Ref("Job", NAMESPACE, "br-chat-4e20caa2-client", "job-1")


def _ends_without_records(facts: Facts) -> Decision:
    is_stored = any(child.sequence is not None for child in facts.children.objects)
    if is_stored:
        return Decision(status=RUNNING)
    return Decision(status=RUNNING, ending=GONE, delete=(JOB_REF,))


async def gone(*, stored: bool) -> Scene:
    """A run whose server is gone, after all was listed."""
    scene = Scene({"phase": "Running"})
    await scene.listed()
    if stored:
        scene.cluster.add("ConfigMap", stage_body())
    scene.decide = _ends_without_records
    return scene


@pytest.mark.parametrize(("stored", "ending"), [(True, None), (False, GONE)])
async def test_they_are_looked_for_before_the_run_ends(
    stored: bool, ending: Ending | None
) -> None:
    scene = await gone(stored=stored)
    await scene.once()
    assert scene.collected.ending == ending


async def test_it_does_not_end_before_they_could_be_looked_for() -> None:
    scene = await gone(stored=True)
    scene.cluster.broken["list"] = Unavailable("no answer")
    with pytest.raises(Later):
        await scene.once()
    assert scene.collected.ending is None
    assert [entry for entry in scene.cluster.log if entry[0] == "delete"] == []
    scene.cluster.broken.clear()
    await scene.once()
    assert scene.collected.ending is None


async def test_they_are_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(run_reconciler, "EVIDENCE_SECONDS", 0.0)
    scene = await gone(stored=True)
    scene.cluster.broken["list"] = Unavailable("no answer")
    await scene.once()
    assert scene.collected.ending == GONE


async def test_an_end_that_stands_is_not_looked_into_again() -> None:
    scene = await gone(stored=False)
    await scene.once()
    scene.cluster.log.clear()
    await scene.once()
    assert [entry for entry in scene.cluster.log if entry[0] == "list"] == []


JOB_FAILED = Ending(
    Reason.CLIENT_FAILED, "The client's Job failed: BackoffLimitExceeded"
)
EVICTED = Ending(Reason.EVICTED, "the client's pod was evicted")


def failed_client_pod() -> Json:
    body = child_body("br-chat-4e20caa2-client-0-x", role=names.ROLE_CLIENT)
    job: Json = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "uid": "job",
        "controller": True,
    }
    job["name"] = names.child_name("chat", UID, names.ROLE_CLIENT)
    body["metadata"]["ownerReferences"] = [job]
    return {**body, "spec": {}, "status": {"phase": "Failed", "reason": "Evicted"}}


def _ends_as_the_pod_says(facts: Facts) -> Decision:
    is_known = any(pod.phase == "Failed" for pod in facts.children.pods)
    return Decision(status=RUNNING, ending=EVICTED if is_known else JOB_FAILED)


async def test_how_the_clients_pod_ended_is_looked_for() -> None:
    scene = Scene({"phase": "Running"})
    await scene.listed()
    scene.cluster.add("Pod", failed_client_pod())
    scene.decide = _ends_as_the_pod_says
    await scene.once()
    assert scene.collected.ending == EVICTED


JOB: Json = {
    "kind": "Job",
    **child_body("br-chat-4e20caa2-client", role=names.ROLE_CLIENT),
}


def _makes_a_client(facts: Facts) -> Decision:
    has_measured = any(
        child.sequence is not None for child in facts.children.objects
    )
    return Decision(status=RUNNING, apply=() if has_measured else (JOB,))


@pytest.mark.parametrize(("planned", "looked"), [(True, True), (False, False)])
async def test_a_client_with_a_plan_is_made_anew_only_if_none_has_measured(
    planned: bool, looked: bool
) -> None:
    """Another operator may have let go of it, with no right to write the status."""
    scene = Scene({"phase": "Preparing"})
    if planned:
        scene.cluster.add(
            "ConfigMap", child_body("br-chat-4e20caa2-plan", role=names.ROLE_PLAN)
        )
    await scene.listed()
    scene.cluster.add("ConfigMap", stage_body())
    scene.decide = _makes_a_client
    await scene.once()
    made = any(entry[:2] == ("apply", "Job") for entry in scene.cluster.log)
    assert made != looked
