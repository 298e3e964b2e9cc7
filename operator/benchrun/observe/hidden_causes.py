"""Pods whose last words point elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.observe.failures.check import evidence_of
from benchrun.observe.views import Pod


def find_pod_with_hidden_cause(pods: Sequence[Pod]) -> Pod | None:
    """A pod whose termination message only points further up in its log: that log is worth fetching.

    vLLM's API server ends with 2 kB of its own traceback; why the engine failed stands some 8 kB above.
    """
    return next((pod for pod in pods if evidence_of(pod, None).is_cause_hidden), None)
