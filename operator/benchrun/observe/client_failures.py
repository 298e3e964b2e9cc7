"""Why the client can't measure: its own word first, then what the cluster saw of it."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun_client.contract import Failure
from pydantic import ValidationError

from benchrun.api.conditions import Reason
from benchrun.observe.failures.check import Check, Evidence, diagnosis_of, sentence
from benchrun.observe.failures.eviction import evicted, refused_by_node
from benchrun.observe.failures.image import container_config, image_pull
from benchrun.observe.failures.memory import out_of_memory
from benchrun.observe.failures.scheduling import unschedulable
from benchrun.observe.last_words import bounded
from benchrun.observe.views import Child, Diagnosis, Pod

_BY_SIGNAL = (137, 143)
"""128 + SIGKILL, 128 + SIGTERM."""


def own_word(evidence: Evidence) -> Diagnosis | None:
    """The client's termination message is a `Failure` as JSON: its reason and message, passed on."""
    ended = evidence.pod.terminated
    if ended is None or ended.exit_code == 0:
        return None
    try:
        failure = Failure.model_validate_json(ended.message.strip())
    except ValidationError:
        return None
    return Diagnosis(failure.reason, bounded(failure.message), True)


def killed(evidence: Evidence) -> Diagnosis | None:
    """A signal from outside ended it: it leaves its word however it fails by itself."""
    ended = evidence.pod.terminated
    if ended is None or ended.exit_code not in _BY_SIGNAL:
        return None
    remedy = "The events of its pod and its node may tell by whom."
    return Diagnosis(
        Reason.CLIENT_GONE, sentence(f"The client was killed (exit code {ended.exit_code})", remedy=remedy), True
    )


def exited(evidence: Evidence) -> Diagnosis | None:
    """It ended in another way; a client is not started again."""
    ended = evidence.pod.terminated
    if ended is None or ended.exit_code == 0:
        return None
    what = f"The client ended with exit code {ended.exit_code}: {evidence.words or ended.reason or 'its log is empty'}"
    remedy = "kubectl logs of the client pod has more."
    return Diagnosis(Reason.CLIENT_FAILED, sentence(what, remedy=remedy), True)


CHECKS: tuple[Check, ...] = (
    own_word,
    evicted,  # ahead of the exit code that eviction causes
    refused_by_node,
    out_of_memory,
    killed,
    exited,
    image_pull,
    container_config,
    unschedulable,
)


def diagnose_client(pods: Iterable[Pod], job: Child | None) -> Diagnosis | None:
    """What is wrong with the client, or None."""
    listed = list(pods)
    found = diagnosis_of(listed, CHECKS, if_deleted=evicted, log_tail=None)
    if found is not None and found.terminal:
        return found
    return job_failed(job, deleted=all(pod.deleting for pod in listed)) or found


def job_failed(job: Child | None, *, deleted: bool) -> Diagnosis | None:
    """The Job gave up, and no pod says why. `deleted`: since its pod is gone, or going."""
    if job is None or job.failure is None:
        return None
    if job.failure.startswith("DeadlineExceeded"):
        remedy = "Raise spec.runDeadlineSeconds, or measure less."
        return Diagnosis(Reason.RUN_DEADLINE, sentence("The client's Job reached its deadline", remedy=remedy), True)
    if deleted:
        return Diagnosis(Reason.CLIENT_GONE, f"The client's pod was deleted: {bounded(job.failure)}", True)
    return Diagnosis(Reason.CLIENT_FAILED, f"The client's Job failed: {bounded(job.failure)}", True)
