"""Raw objects of a real API server (1.36), with one thing changed at a time."""

from typing import Any

from benchrun.names import child_name
from benchrun.observe import Child, Pod, pod_of

Body = dict[str, Any]
UID = "6a1f6a0e-0000-4000-8000-000000000001"


def condition(type_: str, status: str, reason: str = "", message: str = "") -> Body:
    """Build a condition since a fixed instant."""
    at = "2026-11-21T11:46:26Z"
    return {
        "type": type_,
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": at,
    }


def owner(
    kind: str,
    uid: str = "rs-uid",
    *,
    name: str = "x",
    api_version: str = "apps/v1",
    controller: bool = True,
) -> Body:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": controller,
    }


def maker(role: str) -> Body:
    """Build the reference that a pod of the run has to its controller."""
    child = child_name("r", UID, role)
    return (
        owner("Job", name=child)
        if role == "client"
        else owner("ReplicaSet", name=f"{child}-5d4f8")
    )


def pod_body(role: str = "server", **changes: Any) -> Body:
    """Build a pod whose main container is starting on node1.

    `status`, `container` and `reported` are merged in.
    """
    name = "client" if role == "client" else "server"
    container = {
        "name": name,
        "image": "vllm/vllm-openai:v0.32.0",
        "args": ["--max-model-len=12000"],
        "resources": {"limits": {"nvidia.com/gpu": "1", "memory": "64Gi"}},
    }
    reported = {
        "name": name,
        "imageID": "docker.io/vllm/vllm-openai@sha256:44b6",
        "restartCount": 0,
        "ready": False,
        "state": {"running": {"startedAt": "2026-11-21T11:46:30Z"}},
        "lastState": {},
    }
    status = {
        "phase": "Running",
        "podIP": "10.0.0.7",
        "conditions": [
            condition("PodScheduled", "True"),
            condition("Ready", "False", "ContainersNotReady"),
        ],
        "containerStatuses": [reported | changes.get("reported", {})],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"br-r-3f6c8c2a-{role}-x",
            "namespace": "ns",
            "uid": "pod-uid",
            "creationTimestamp": "2026-11-21T11:46:25Z",
            "labels": {
                "benchrun.dev/run": "r",
                "benchrun.dev/run-uid": UID,
                "benchrun.dev/role": role,
            },
            "ownerReferences": [maker(role)],
            **changes.get("metadata", {}),
        },
        "spec": {
            "nodeName": "node1",
            "containers": [container | changes.get("container", {})],
            **changes.get("spec", {}),
        },
        "status": status | changes.get("status", {}),
    }


def ended(
    exit_code: int,
    message: str = "",
    *,
    reason: str = "Error",
    restarts: int = 0,
    role: str = "server",
    restarted: bool = False,
) -> Pod:
    """Build a pod whose container ended so; with `restarted` it is running again."""
    ending = {
        "terminated": {
            "exitCode": exit_code,
            "reason": reason,
            "message": message,
            "startedAt": "2026-11-21T11:46:28Z",
            "finishedAt": "2026-11-21T11:46:58Z",
        }
    }
    running = {"running": {"startedAt": "2026-11-21T11:47:00Z"}}
    reported = {
        "restartCount": restarts,
        "state": running if restarted else ending,
        "lastState": ending if restarted else {},
    }
    return pod_of(pod_body(role, reported=reported))


def waiting(
    reason: str, message: str = "", *, role: str = "server", **reported: Any
) -> Pod:
    """Build a pod whose container waits for that reason."""
    state = {"state": {"waiting": {"reason": reason, "message": message}}}
    return pod_of(
        pod_body(role, reported=state | reported, status={"phase": "Pending"})
    )


def pending(message: str, *, role: str = "server") -> Pod:
    """Build a pod that the scheduler could not place."""
    status = {
        "phase": "Pending",
        "podIP": None,
        "conditions": [
            condition("PodScheduled", "False", "Unschedulable", message)
        ],
        "containerStatuses": [],
    }
    return pod_of(pod_body(role, spec={"nodeName": None}, status=status))


def gone(
    reason: str,
    message: str = "",
    *,
    phase: str = "Failed",
    role: str = "server",
    deleting: bool = False,
) -> Pod:
    """Build a pod that the cluster removed for a reason of its own."""
    metadata = {"deletionTimestamp": "2026-11-21T12:00:00Z"} if deleting else {}
    status = {
        "phase": phase,
        "reason": reason,
        "message": message,
        "containerStatuses": [],
    }
    return pod_of(pod_body(role, status=status, metadata=metadata))


def child(kind: str, failure: str | None = None) -> Child:
    """Build an object of the run; `failure` is its report of what is wrong."""
    return Child(
        kind=kind,
        name="x",
        uid="child-uid",
        role="server",
        owner_uid=UID,
        deleting=False,
        failure=failure,
    )
