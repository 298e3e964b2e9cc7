"""Pods that no node takes: because none ever could, or because none has room now.

The scheduler tells how many nodes failed for which reason: "0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2
node(s) didn't match Pod's node affinity/selector. preemption: ...". Only where every node fails for a reason that waiting
does not mend is it structural. A resource that no node has reads like one that is in use, so it is waited for.
"""

from __future__ import annotations

import re

from benchrun.api.conditions import Reason
from benchrun.api.names import ROLE_CLIENT
from benchrun.observe.failures.check import Evidence, sentence
from benchrun.observe.last_words import bounded
from benchrun.observe.views import Diagnosis

_HEAD = re.compile(r"^0/(?P<nodes>\d+) nodes are available: (?P<reasons>.*)", re.DOTALL)
_TAIL = re.compile(r"\.? (no new claims to deallocate|preemption: ).*", re.DOTALL)
_REASON = re.compile(r"^(?P<nodes>\d+) (?P<why>.+)$", re.DOTALL)
_STRUCTURAL = (
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match scheduler-enforced node affinity",
    "node(s) didn't match the requested node name",
)
_TAINT = re.compile(r"^node\(s\) had untolerated taint \{(?P<key>[^:}=]+)")
_PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "node.cluster.x-k8s.io/", "ToBeDeleted")
"""Set by the cluster on nodes that start, fail or go. From 1.34 the scheduler no longer names the taint; then we wait."""


def unschedulable(evidence: Evidence) -> Diagnosis | None:
    """The scheduler found no node."""
    message = evidence.pod.unschedulable
    if message is None or evidence.pod.node is not None:
        return None
    words = bounded(_TAIL.sub("", message))
    if is_structural(message):
        remedy = f"Correct nodeSelector, affinity and tolerations in {evidence.spec_path}.pod, or add such a node."
        return Diagnosis(Reason.UNSCHEDULABLE, sentence(f"No node can ever take the pod: {words}", remedy=remedy), True)
    if "persistentvolumeclaim" in words.lower():
        data = "the files of spec.workloads, " if evidence.pod.role == ROLE_CLIENT else ""
        places = f"{data}spec.model.source.pvc and {evidence.spec_path}.pod.volumes"
        remedy = f"It goes on when the claim exists and has its volume; check {places}."
    else:
        remedy = f"It goes on when a node has room; if none ever will, lower {evidence.resources_path}."
    return Diagnosis(Reason.UNSCHEDULABLE, sentence(f"No node can take the pod now: {words}", remedy=remedy), False)


def is_structural(message: str) -> bool:
    """Whether every node of the cluster fails for a reason that only another spec or another node mends."""
    head = _HEAD.match(_TAIL.sub("", message))
    if head is None:
        return False
    reasons = [_REASON.match(part) for part in head["reasons"].rstrip(". ").split(", ")]
    if not all(reason is not None and _never_mends(reason["why"]) for reason in reasons):
        return False
    return 0 < int(head["nodes"]) == sum(int(reason["nodes"]) for reason in reasons if reason is not None)


def _never_mends(why: str) -> bool:
    taint = _TAINT.match(why)
    if taint is not None:
        return not taint["key"].strip().startswith(_PASSING_TAINTS)
    return why.rstrip(". ") in _STRUCTURAL
