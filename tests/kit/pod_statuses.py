"""Statuses that a kubelet or a scheduler writes of a failing pod, as patches."""

import json
import time
from typing import Any

from kit.kubectl import Object

IMAGES = {
    "server": "docker.io/vllm/vllm-openai:v0.32.0",
    "client": "docker.io/benchrun/client:scale",
}
HEAD = "0/3 nodes are available: "
NO_PREEMPTION = "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."


RAN_SECONDS = 600.0  # how long a container had run before it ended


def now(*, ago_seconds: float = 0.0) -> str:
    """Format an instant, now or so many seconds ago, as Kubernetes does."""
    return time.strftime(
        "%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago_seconds)
    )


def condition(
    type_: str, status: str, *, reason: str = "", message: str = ""
) -> Object:
    """Return a condition that holds from now on."""
    return {
        "type": type_,
        "status": status,
        "lastTransitionTime": now(),
        "reason": reason,
        "message": message,
    }


def no_node(message: str, *, reason: str = "Unschedulable") -> Object:
    """Return the status of a pod that the scheduler gives to no node."""
    scheduled = condition("PodScheduled", "False", reason=reason, message=message)
    return {"status": {"phase": "Pending", "conditions": [scheduled]}}


def waiting(container: str, reason: str, message: str = "") -> Object:
    """Return the status of a pod on a node whose container is not started yet."""
    return _pod(
        container,
        {"waiting": {"reason": reason, "message": message}},
        phase="Pending",
    )


def loading(container: str, address: str) -> Object:
    """Return the status of a pod whose container runs and is not ready."""
    found = _pod(container, {"running": {"startedAt": now()}}, phase="Running")
    found["status"] |= {"podIP": address, "podIPs": [{"ip": address}]}
    return found


def ended(
    container: str,
    *,
    code: int,
    reason: str = "Error",
    message: str = "",
    phase: str = "Running",
) -> Object:
    """Return the status of a pod whose container has ended.

    The phase is Failed or Succeeded where the container is not started again.
    """
    return _pod(
        container, {"terminated": _termination(code, reason, message)}, phase=phase
    )


def looping(container: str, *, code: int, message: str) -> Object:
    """Return the status of a container that has ended three times and waits to be started again."""
    back_off = {
        "reason": "CrashLoopBackOff",
        "message": "back-off 20s restarting failed container",
    }
    last = {"terminated": _termination(code, "Error", message)}
    return _pod(
        container, {"waiting": back_off}, phase="Running", restarts=2, last=last
    )


def restarted(container: str, address: str, *, code: int) -> Object:
    """Return the status of a container that has ended once and runs again."""
    last = {"terminated": _termination(code, "Error", "")}
    running = {"running": {"startedAt": now()}}
    found = _pod(container, running, phase="Running", restarts=1, last=last)
    found["status"] |= {"podIP": address, "podIPs": [{"ip": address}]}
    return found


def pod_failed(reason: str, message: str) -> Object:
    """Return the status of a pod that the kubelet ends, or does not accept."""
    return {"status": {"phase": "Failed", "reason": reason, "message": message}}


def disrupted(reason: str) -> Object:
    """Return the status of a pod that somebody is about to delete, with the reason."""
    target = condition(
        "DisruptionTarget", "True", reason=reason, message="taken away"
    )
    scheduled = condition("PodScheduled", "True")
    ready = condition("Ready", "True")
    return {"status": {"conditions": [scheduled, ready, target]}}


def by_a_clock(status: Object, *, ahead_seconds: float) -> Object:
    """Return the same status as written by a kubelet whose node's clock is so far ahead.

    The instant of scheduling stays, since the scheduler writes it.
    """
    found: Object = json.loads(json.dumps(status))
    then = now(ago_seconds=-ahead_seconds)
    found["status"]["startTime"] = then
    for each in found["status"]["conditions"]:
        if each["type"] != "PodScheduled":
            each["lastTransitionTime"] = then
    for each in found["status"]["containerStatuses"]:
        for state in (*each["state"].values(), *each.get("lastState", {}).values()):
            state |= dict.fromkeys(state.keys() & {"startedAt", "finishedAt"}, then)
    return found


def _pod(
    container: str,
    state: Object,
    *,
    phase: str,
    restarts: int = 0,
    last: Object | None = None,
) -> Object:
    image = IMAGES[container]
    of_container: dict[str, Any] = {
        "name": container,
        "image": image,
        "imageID": f"{image}@sha256:{'0' * 64}",
        "ready": False,
        "restartCount": restarts,
        "state": state,
        "lastState": last or {},
    }
    conditions = [condition("PodScheduled", "True"), condition("Ready", "False")]
    return {
        "status": {
            "phase": phase,
            "startTime": now(),
            "conditions": conditions,
            "containerStatuses": [of_container],
        }
    }


def _termination(code: int, reason: str, message: str) -> Object:
    return {
        "exitCode": code,
        "reason": reason,
        "message": message,
        "startedAt": now(ago_seconds=RAN_SECONDS),
        "finishedAt": now(),
        "containerID": "containerd://1",
    }
