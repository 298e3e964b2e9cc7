"""Pods that the cluster took away, or would not have."""

from __future__ import annotations

from benchrun.api.conditions import Reason
from benchrun.observe.failures.check import Evidence, sentence
from benchrun.observe.last_words import bounded
from benchrun.observe.views import Child, Diagnosis

_TAKEN = (
    "Evicted",
    "Preempting",
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "TerminationByKubelet",
    "NodeLost",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
)
_NEVER_ADMITTED = ("violates PodSecurity", "admission webhook", "denied the request")


def evicted(evidence: Evidence) -> Diagnosis | None:
    """The node or the scheduler ended the pod, or the node is gone."""
    reason = evidence.pod.pod_reason
    if reason not in _TAKEN:
        return None
    words = bounded(f"{reason}: {evidence.pod.pod_message}" if evidence.pod.pod_message else reason)
    remedy = (
        f"Run again where it is left alone: requests equal to limits in {evidence.resources_path}, "
        f"and a priority class in {evidence.spec_path}.pod."
    )
    return Diagnosis(Reason.EVICTED, sentence(f"The cluster took the pod away ({words})", remedy=remedy), True)


def refused_by_node(evidence: Evidence) -> Diagnosis | None:
    """The kubelet would not start a pod that the scheduler gave it; another one is made."""
    reason = evidence.pod.pod_reason or ""
    if evidence.pod.phase != "Failed" or not reason.startswith(("OutOf", "UnexpectedAdmissionError", "NodeAffinity")):
        return None
    words = bounded(f"{reason}: {evidence.pod.pod_message}" if evidence.pod.pod_message else reason)
    remedy = "Another pod is tried; if it goes on, look at the node's device plugin."
    return Diagnosis(Reason.POD_REJECTED, sentence(f"The node refused the pod ({words})", remedy=remedy), False)


def rejected(child: Child | None) -> Diagnosis | None:
    """The API server refuses the pods of a Deployment: a quota (which may come free) or a policy (which won't)."""
    if child is None or child.failure is None:
        return None
    terminal = any(phrase in child.failure for phrase in _NEVER_ADMITTED)
    remedy = (
        "Change the spec so that the namespace's policy admits the pod."
        if terminal
        else "It goes on when the namespace's quota has room."
    )
    what = f"The pod was not admitted: {bounded(child.failure)}"
    return Diagnosis(Reason.POD_REJECTED, sentence(what, remedy=remedy), terminal)
