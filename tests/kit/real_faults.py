"""Faults of real pods, measured by what a watch beside the test heard.

That is when a container's end could be seen, when the run said so, and when somebody requested the
deletion of the server's pod.
"""

from kit.faults import BY_NAME, Measured, assert_as_declared, record
from kit.kubectl import RUN, Object
from kit.runs import condition
from kit.watching import Watch

KINDS = ("pods", RUN)
HEARD_SECONDS = 30.0
"""What has been read of the run is heard by the watch within this time, on a busy host too."""


def check_real(name: str, run: Object, watch: Watch, *, restarts: int = 0) -> None:
    """Record what became of a run that has ended, and check that it is as declared.

    After so many `restarts` it is known that the server never starts.
    """
    uid = run["metadata"]["uid"]

    def shows(pod: Object) -> bool:
        return _is_server_of(pod, uid) and _has_ended(pod, restarts)

    def goes(pod: Object) -> bool:
        return _is_server_of(pod, uid) and _is_going(pod)

    shown_at = watch.first(shows, seconds=HEARD_SECONDS)
    told_at = watch.first(
        lambda each: _has_failed(each, uid), seconds=HEARD_SECONDS
    )
    freed_at = watch.first(goes, seconds=HEARD_SECONDS)
    measured = Measured(
        phase=run["status"]["phase"],
        reason=condition(run, "Failed")["reason"],
        told_seconds=told_at - shown_at,
        freed_seconds=freed_at - shown_at,
    )
    record(BY_NAME[name], measured)
    assert_as_declared(BY_NAME[name], measured)


def _is_server_of(each: Object, uid: str) -> bool:
    labels = each["metadata"].get("labels", {})
    return each["kind"] == "Pod" and (
        labels.get("benchrun.dev/run-uid"),
        labels.get("benchrun.dev/role"),
    ) == (uid, "server")


def _has_ended(pod: Object, restarts: int) -> bool:
    """Return whether the pod's container has ended, or is in the kubelet's back-off.

    It must have ended for the first time, or after so many restarts.
    """
    for each in pod["status"].get("containerStatuses", ()):
        states = (each.get("state", {}), each.get("lastState", {}))
        looping = states[0].get("waiting", {}).get("reason") == "CrashLoopBackOff"
        ended = any("terminated" in state for state in states)
        if looping or (ended and each["restartCount"] >= restarts):
            return True
    return False


def _has_failed(each: Object, uid: str) -> bool:
    return (
        each["metadata"]["uid"] == uid
        and condition(each, "Failed").get("status") == "True"
    )


def _is_going(pod: Object) -> bool:
    return "deletionTimestamp" in pod["metadata"]
