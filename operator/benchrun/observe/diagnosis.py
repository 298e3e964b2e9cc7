"""Why a server can't serve and why a client can't measure: lists of checks, the surest first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from benchrun_client.contract import Failure
from benchrun_client.engines import ENGINE, LogCause
from pydantic import ValidationError

from benchrun.api import Reason
from benchrun.observe.last_words import bounded
from benchrun.observe.pod_failures import (
    Check,
    Evidence,
    container_config,
    crash_loop,
    diagnosed,
    diagnosis_of,
    evicted,
    evidence_of,
    image_pull,
    out_of_memory,
    refused_by_node,
    rejected,
    unschedulable,
)
from benchrun.observe.views import Child, Diagnosis, Pod


def log_check(cause: LogCause) -> Check:
    """Whether the container has ended and its log names this cause."""

    def check(evidence: Evidence) -> Diagnosis | None:
        if evidence.ending is None or cause.exit_code not in (None, evidence.exit_code):
            return None
        begins, words = cause.error_begins, evidence.words
        if begins is not None and evidence.is_cause_hidden:
            return None
        if not evidence.mentions(*cause.phrases) and (begins is None or not words.startswith(begins)):
            return None
        if cause.unless is not None and evidence.mentions(cause.unless):
            return None
        terminal = evidence.endings >= cause.tries
        return diagnosed(cause.reason, f"{cause.what}: {words}", cause.remedy, terminal=terminal)

    return check


SERVER_CHECKS: tuple[Check, ...] = (
    evicted,  # how the pod ended explains how its container did
    refused_by_node,
    out_of_memory,  # ended by the kernel, whatever the log has
    *map(log_check, ENGINE.log_causes),
    image_pull,
    container_config,
    unschedulable,
    crash_loop,  # last: knows only that it ends
)


def diagnose_server(pods: Iterable[Pod], deployment: Child | None, *, log_tail: str | None = None) -> Diagnosis | None:
    """What is wrong with the server, or None. `log_tail` is the end of the failed container's log, once fetched."""
    listed = list(pods)
    found = diagnosis_of(listed, SERVER_CHECKS, if_deleted=evicted, log_tail=log_tail)
    return found or (rejected(deployment) if all(pod.deleting for pod in listed) else None)


_BY_SIGNAL = (137, 143)
"""128 + SIGKILL, 128 + SIGTERM."""


def reported_failure(evidence: Evidence) -> Diagnosis | None:
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
    """A signal from outside ended it: it reports every failure of its own."""
    ended = evidence.pod.terminated
    if ended is None or ended.exit_code not in _BY_SIGNAL:
        return None
    remedy = "The events of its pod and its node may show by whom."
    return diagnosed(Reason.CLIENT_GONE, f"The client was killed (exit code {ended.exit_code})", remedy)


def exited(evidence: Evidence) -> Diagnosis | None:
    """It ended in another way; a client is not restarted."""
    ended = evidence.pod.terminated
    if ended is None or ended.exit_code == 0:
        return None
    what = f"The client ended with exit code {ended.exit_code}: {evidence.words or ended.reason or 'its log is empty'}"
    remedy = "kubectl logs of the client pod has more."
    return diagnosed(Reason.CLIENT_FAILED, what, remedy)


CLIENT_CHECKS: tuple[Check, ...] = (
    reported_failure,
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
    found = diagnosis_of(listed, CLIENT_CHECKS, if_deleted=evicted, log_tail=None)
    if found is not None and found.terminal:
        return found
    return job_failed(job, deleted=all(pod.deleting for pod in listed)) or found


def job_failed(job: Child | None, *, deleted: bool) -> Diagnosis | None:
    """The Job gave up, and no pod shows why. `deleted`: since its pod is gone, or going."""
    if job is None or job.failure is None:
        return None
    if job.failure.startswith("DeadlineExceeded"):
        remedy = "Raise spec.runDeadlineSeconds, or measure less."
        return diagnosed(Reason.RUN_DEADLINE, "The client's Job reached its deadline", remedy)
    if deleted:
        return Diagnosis(Reason.CLIENT_GONE, f"The client's pod was deleted: {bounded(job.failure)}", True)
    return Diagnosis(Reason.CLIENT_FAILED, f"The client's Job failed: {bounded(job.failure)}", True)


def find_pod_with_hidden_cause(pods: Sequence[Pod]) -> Pod | None:
    """A pod whose termination message only points further up in its log: that log is worth fetching. vLLM's API server ends with
    2 kB of its own traceback; why the engine failed stands some 8 kB above."""
    return next((pod for pod in pods if evidence_of(pod, None).is_cause_hidden), None)
