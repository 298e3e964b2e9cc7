"""Why a client can't measure: its own word, else what the cluster saw."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchrun.observe.failures.diagnosis import diagnose_client
from benchrun.observe.last_words import MAX_CHARS
from benchrun.observe.trim import pod_of
from benchrun.observe.views import Child, Diagnosis, Pod
from benchrun_client.contract import Failure
from unit.observe.bodies import child, ended, gone, pending, pod_body, waiting

OWN = Failure(reason="TokenizerNotFound", message="no tokenizer at /model").model_dump_json()
DEADLINE = child("Job", "DeadlineExceeded: Job was active longer than specified deadline")
BACKOFF = child("Job", "BackoffLimitExceeded: Job has reached the specified backoff limit")


@pytest.mark.parametrize(
    ("reason", "terminal", "said", "pod"),
    [
        pytest.param("TokenizerNotFound", True, "no tokenizer at /model", ended(3, OWN, role="client"), id="its own word"),
        pytest.param("TokenizerNotFound", True, "no tokenizer", ended(3, f"\n{OWN}\n", role="client"), id="with space around"),
        pytest.param("ClientFailed", True, "exit code 3", ended(3, '{"reason": "x y"}', role="client"), id="JSON of another kind"),
        pytest.param("ClientFailed", True, "KeyError: 'a'", ended(1, "Traceback (most recent call last):\nKeyError: 'a'", role="client"),
                     id="a crash"),
        pytest.param("ClientFailed", True, "exit code 139: Error", ended(139, role="client"), id="not a word"),
        pytest.param("ClientGone", True, "killed (exit code 137)", ended(137, role="client"), id="killed"),
        pytest.param("ClientGone", True, "killed (exit code 143)", ended(143, role="client"), id="told to end"),
        pytest.param("OutOfMemory", True, "spec.client.resources", ended(137, reason="OOMKilled", role="client"), id="memory"),
        pytest.param("ImagePull", True, "spec.client.image", waiting("ImagePullBackOff", "x", role="client"), id="its image"),
        pytest.param(
            "ContainerConfig",
            False,
            'configmap "plan" not found',
            waiting("CreateContainerConfigError", 'configmap "plan" not found', role="client"),
            id="something missing",
        ),
        pytest.param(
            "Unschedulable", False, "spec.client.resources", pending("0/1 nodes are available: 1 Insufficient cpu.", role="client"),
            id="no room",
        ),
        pytest.param("Evicted", True, "spec.client.pod", gone("Evicted", role="client"), id="evicted"),
        pytest.param("Evicted", True, "Preemption", gone("PreemptionByScheduler", deleting=True, role="client"), id="preempted"),
    ],
)  # fmt: skip
def test_a_failing_client(reason: str, terminal: bool, said: str, pod: Pod) -> None:
    found = diagnose_client([pod], child("Job"))
    assert found is not None
    assert (found.reason, found.terminal) == (reason, terminal)
    assert said in found.message


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([], id="no pod yet"),
        pytest.param([pod_of(pod_body("client"))], id="running"),
        pytest.param([ended(0, "done", reason="Completed", role="client")], id="ended well"),
        pytest.param([ended(0, OWN, reason="Completed", role="client")], id="ended well, whatever it wrote"),
        pytest.param([replace(ended(143, role="client"), deleting=True)], id="being deleted"),
    ],
)
def test_a_client_without_a_diagnosis(pods: list[Pod]) -> None:
    assert diagnose_client(pods, child("Job")) is None
    assert diagnose_client(pods, None) is None


@pytest.mark.parametrize(
    ("reason", "job", "pods"),
    [
        pytest.param("RunDeadlineExceeded", DEADLINE, [], id="the Job's deadline, its pods gone"),
        pytest.param("ClientGone", BACKOFF, [], id="a Job that gave up, its pods gone"),
        pytest.param("ClientGone", BACKOFF, [replace(ended(143, role="client"), deleting=True)], id="its pod going"),
        pytest.param("TokenizerNotFound", BACKOFF, [ended(3, OWN, role="client")], id="the pod knows better"),
        pytest.param(
            "ClientFailed", BACKOFF, [waiting("ErrImagePull", role="client")], id="the Job is more final than a wait"
        ),
    ],
)
def test_a_failed_job(reason: str, job: Child, pods: list[Pod]) -> None:
    found = diagnose_client(pods, job)
    assert found is not None
    assert (found.reason, found.terminal) == (reason, True)


def test_the_clients_word_is_passed_on_as_it_is() -> None:
    assert diagnose_client([ended(3, OWN, role="client")], None) == Diagnosis(
        "TokenizerNotFound", "no tokenizer at /model", True
    )


def test_the_clients_word_is_bounded_and_one_line() -> None:
    long = Failure(reason="X", message="line\n" * 300).model_dump_json()
    found = diagnose_client([ended(3, long, role="client")], None)
    assert found is not None
    assert len(found.message) <= MAX_CHARS
    assert "\n" not in found.message
