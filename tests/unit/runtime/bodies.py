"""Small objects in the API server's form: valid by default, changed by name."""

from typing import Any

from benchrun import names
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.names import API_VERSION, KIND
from benchrun.observe import run_key
from unit.measure.records import sealed_bytes

Json = dict[str, Any]

NAMESPACE = "lab"
UID = "run-uid-1"
KEY = run_key(NAMESPACE, "chat")


def run_body(
    name: str = "chat",
    *,
    uid: str = UID,
    version: int = 100,
    status: Json | None = None,
    **meta: Any,
) -> Json:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": "2026-11-21T12:00:00Z",
            **meta,
        },
        "spec": {"model": {"name": "m"}},
        "status": status or {},
    }


def swept_body(
    name: str = "s-v1-r1", *, sweep: str = "s", sweep_uid: str = "u1", **more: Any
) -> Json:
    """Build a run whose owner reference names a sweep."""
    controller = {**owner(sweep_uid, sweep), "kind": SWEEP_KIND}
    meta = {"uid": f"uid-of-{name}", "ownerReferences": [controller]}
    return run_body(name, **{**meta, **more})


def owner(uid: str = UID, run: str = "chat") -> Json:
    """Build the reference that a child has to its run."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": run,
        "uid": uid,
        "controller": True,
    }


def child_body(
    name: str = "br-chat-4e20caa2-server",
    *,
    uid: str = "child-1",
    version: int = 200,
    role: str = names.ROLE_SERVER,
    run: str | None = "chat",
    owner_uid: str | None = UID,
    labels: Json | None = None,
    annotations: Json | None = None,
    **more: Any,
) -> Json:
    """Build an object of a run."""
    marked = (
        {} if run is None else names.labels(run=run, uid=owner_uid or "", role=role)
    )
    return {
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "resourceVersion": str(version),
            "generation": 1,
            "creationTimestamp": "2026-11-21T12:00:00Z",
            "labels": marked | (labels or {}),
            "annotations": annotations or {},
            "ownerReferences": [] if owner_uid is None else [owner(owner_uid)],
        },
        **more,
    }


def stage_body(
    sequence: int = 0,
    *,
    digest: str = "d" * 64,
    uid: str = "",
    version: int = 300,
    **more: Any,
) -> Json:
    """Build the ConfigMap of a stage."""
    return child_body(
        names.stage_name("chat", UID, sequence),
        uid=uid or f"stage-{sequence}",
        version=version,
        role=names.ROLE_STAGE,
        labels={names.LABEL_SEQUENCE: str(sequence)},
        annotations={
            names.ANNOTATION_ENVELOPE: sealed_bytes(
                sequence, digest=digest
            ).envelope.model_dump_json()
        },
        **more,
    )


def pod_body(
    name: str = "br-chat-4e20caa2-server-x",
    *,
    uid: str = "pod-1",
    version: int = 400,
    ip: str = "10.0.0.1",
) -> Json:
    """Build a running pod of the server."""
    body = child_body(
        name,
        uid=uid,
        version=version,
        spec={
            "nodeName": "node-1",
            "containers": [{"name": "server", "image": "vllm/vllm-openai:v0.32.0"}],
        },
        status={
            "phase": "Running",
            "podIP": ip,
            "conditions": [],
            "containerStatuses": [],
        },
    )
    body["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "name": "br-chat-4e20caa2-server-5d4f8",
            "uid": "rs",
            "controller": True,
        }
    ]
    return body
