"""Questions about a role's pods."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from benchrun.observe.failures.check import evidence_of
from benchrun.observe.views import Pod


def staying(pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """Those that are not being deleted and have not ended."""
    return tuple(pod for pod in pods if not pod.deleting and pod.phase not in ("Failed", "Succeeded"))


def is_ready(pods: Sequence[Pod], *, replicas: int = 1) -> bool:
    """Whether as many pods as asked for are ready."""
    return sum(pod.ready for pod in staying(pods)) >= replicas


def is_running(pods: Sequence[Pod]) -> bool:
    """Whether a main container runs, ready or not."""
    return any(pod.started_at is not None and pod.terminated is None for pod in staying(pods))


def has_restarted(pods: Sequence[Pod]) -> bool:
    """Whether any container was started more than once."""
    return any(pod.restarts > 0 for pod in pods)


def scheduled_at(pods: Sequence[Pod]) -> datetime | None:
    """When the last of the pods got its node; None while one still waits, or there is none."""
    instants = [pod.scheduled_at for pod in staying(pods)]
    known = [instant for instant in instants if instant is not None]
    return max(known) if known and len(known) == len(instants) else None


def find_pod_with_hidden_cause(pods: Sequence[Pod]) -> Pod | None:
    """A pod whose termination message only points further up in its log: that log is worth fetching.

    vLLM's API server ends with 2 kB of its own traceback; why the engine failed stands some 8 kB above.
    """
    return next((pod for pod in pods if evidence_of(pod, None).is_cause_hidden), None)
