"""Containers that end and end again, for a reason that no other check knows."""

from __future__ import annotations

from benchrun.api.conditions import Reason
from benchrun.observe.failures.check import Evidence, sentence
from benchrun.observe.last_words import bounded
from benchrun.observe.views import Diagnosis

_ENOUGH_RESTARTS = 2
_CANNOT_START = ("RunContainerError", "StartError", "ContainerCannotRun")


def crash_loop(evidence: Evidence) -> Diagnosis | None:
    """Two restarts, or the kubelet's back-off. Where the log only points to a cause further up, that is looked at first."""
    pod = evidence.pod
    looping = pod.restarts >= _ENOUGH_RESTARTS or pod.waiting_reason == "CrashLoopBackOff"
    stuck = pod.waiting_reason in _CANNOT_START
    if evidence.ending is None or not (looping or stuck or evidence.is_cause_hidden):
        return None
    words = evidence.words or bounded(pod.waiting_message or "") or "its log is empty"
    what = f"The container ended with exit code {evidence.exit_code}, {pod.restarts} restarts so far: {words}"
    terminal = pod.restarts >= _ENOUGH_RESTARTS or (looping and not evidence.is_cause_hidden)
    return Diagnosis(Reason.CRASH_LOOP, sentence(what, remedy="The end of its log has more."), terminal)
