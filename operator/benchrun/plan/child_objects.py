"""What all objects that a run creates have in common.

This is their name, labels and owner, where their pods run and with which rights, and how long they
may live.
"""

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun import names
from benchrun.api import BenchmarkRunSpec, EnvVar, PodOverrides, Resources

STAY = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations that keep autoscalers from moving a pod, because a move would spoil the measurement.
"""

CONTAINER_SECURITY: dict[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
}


def with_capabilities(added: Sequence[str]) -> dict[str, Any]:
    """Return `CONTAINER_SECURITY` with these capabilities, which the platform adds."""
    if not added:
        return CONTAINER_SECURITY
    return {
        **CONTAINER_SECURITY,
        "capabilities": {"drop": ["ALL"], "add": [*added]},
    }


@dataclass(frozen=True, slots=True)
class Mounted:
    """Files for a pod: volumes, where they are mounted, and environment variables."""

    volumes: tuple[dict[str, Any], ...] = ()
    mounts: tuple[dict[str, Any], ...] = ()
    env: tuple[dict[str, Any], ...] = ()


def mounted_at(
    directory: str, name: str, volume: dict[str, Any], *, read_only: bool = True
) -> Mounted:
    """Mount one volume in this directory."""
    mount = {
        "name": name,
        "mountPath": directory,
        **({"readOnly": True} if read_only else {}),
    }
    return Mounted(({"name": name, **volume},), (mount,))


TMP = mounted_at("/tmp", "tmp", {"emptyDir": {}}, read_only=False)


def pod_spec(
    container: dict[str, Any],
    mounted: Iterable[Mounted],
    pod: PodOverrides,
    *,
    user: int | None,
    grace_seconds: int = 5,
) -> dict[str, Any]:
    """Build the spec of a pod without a ServiceAccount's token, scheduled as `pod` says.

    It runs under restricted pod security unless `pod` has a securityContext of its own. `user`:
    None if the namespace gives the pod a user and its groups.
    """
    every = (
        *mounted,
        Mounted(tuple(pod.volumes or ()), tuple(pod.volume_mounts or ())),
    )
    ids = (
        {}
        if user is None
        else {"runAsUser": user, "runAsGroup": user, "fsGroup": user}
    )
    restricted = {
        "runAsNonRoot": True,
        **ids,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    elsewhere = {
        "security_context",
        "volumes",
        "volume_mounts",
        "image_pull_secrets",
        "labels",
        "annotations",
    }
    secrets = (
        {"imagePullSecrets": [{"name": name} for name in pod.image_pull_secrets]}
        if pod.image_pull_secrets
        else {}
    )
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": grace_seconds,
        "securityContext": restricted
        if pod.security_context is None
        else pod.security_context,
        "containers": [
            {
                **container,
                "volumeMounts": [mount for each in every for mount in each.mounts],
            }
        ],
        "volumes": [volume for each in every for volume in each.volumes],
        **pod.model_dump(by_alias=True, exclude=elsewhere, exclude_none=True),
        **secrets,
    }


def resources(
    given: Resources, *, requests: dict[str, str] | None = None
) -> dict[str, Any]:
    """Build container resources. `requests` are defaults for what the spec does not set."""
    defaults = {k: v for k, v in (requests or {}).items() if k not in given.limits}
    merged = {"limits": given.limits, "requests": {**defaults, **given.requests}}
    return {name: amounts for name, amounts in merged.items() if amounts}


def as_listed(env: Iterable[EnvVar]) -> list[dict[str, Any]]:
    """Return environment variables as the list in a pod's spec."""
    return [
        variable.model_dump(by_alias=True, exclude_none=True) for variable in env
    ]


def environment(
    defaults: Mapping[str, str], *given: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Merge environment variables by name: later lists override earlier ones and the defaults."""
    merged: dict[str, dict[str, Any]] = {
        name: {"name": name, "value": value} for name, value in defaults.items()
    }
    for variables in given:
        merged |= {v["name"]: v for v in variables}
    return list(merged.values())


def http_port(port: int, *, health_path: str) -> dict[str, Any]:
    """Build the port and readiness probe of a container that serves HTTP."""
    probe = {
        "httpGet": {"path": health_path, "port": "http"},
        "periodSeconds": 2,
        "timeoutSeconds": 5,
    }
    return {
        "ports": [{"name": "http", "containerPort": port}],
        "readinessProbe": probe,
    }


Manifest = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Owner:
    """The run or sweep that a child belongs to."""

    namespace: str
    name: str
    uid: str
    # Labels copied from it onto its objects and pods, never into a selector.
    labels: tuple[tuple[str, str], ...] = ()


def pod_metadata(owner: Owner, role: str, pod: PodOverrides) -> Manifest:
    """Build the metadata of a role's pods; no label of the user replaces one of benchrun's."""
    own = names.labels(run=owner.name, uid=owner.uid, role=role)
    return {
        "labels": {**dict(owner.labels), **(pod.labels or {}), **own},
        "annotations": {**STAY, **(pod.annotations or {})},
    }


def metadata(owner: Owner, *, role: str, name: str | None = None) -> Manifest:
    """Build the metadata of a child.

    The owner reference lets the garbage collector delete it, even while the operator is down.
    """
    return {
        "name": name or names.child_name(owner.name, owner.uid, role),
        "namespace": owner.namespace,
        "labels": {
            **dict(owner.labels),
            **names.labels(run=owner.name, uid=owner.uid, role=role),
        },
        "ownerReferences": controlled_by(names.KIND, owner),
    }


def controlled_by(kind: str, owner: Owner) -> list[Manifest]:
    """Build the owner references of an object whose only owner is a run or sweep."""
    reference = {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "name": owner.name,
        "uid": owner.uid,
    }
    return [{**reference, "controller": True, "blockOwnerDeletion": True}]


def headless_service(
    owner: Owner,
    role: str,
    *,
    port_name: str,
    port: int,
    selector: Mapping[str, str],
) -> Manifest:
    """Build a headless Service, which gives pods of a role their addresses before they are ready.

    `selector`: further labels of the pods, beside the role's.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(owner, role=role),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {
                **names.labels(run=owner.name, uid=owner.uid, role=role),
                **selector,
            },
            "ports": [
                {
                    "name": port_name,
                    "port": port,
                    "targetPort": port,
                    "protocol": "TCP",
                }
            ],
        },
    }


# Most seconds of a hold if the chart sets no other number.
MAX_HOLD_SECONDS = 86_400
MARGIN_SECONDS = 60
"""Seconds by which a deadline of Kubernetes is later than the operator's, so that the operator acts
first. Two releases at the same instant would only confuse."""
MAX_PENDING_SECONDS = 604_800
"""Seconds that stand for a pendingDeadlineSeconds of 0; the largest number that the field allows.
"""
LEEWAY_SECONDS = 86_400
"""Seconds beyond the operator's deadlines, to allow for times when it is down."""


def hold_seconds(
    spec: BenchmarkRunSpec, max_hold_seconds: int, *, starts: int
) -> int:
    """Return how many seconds a server may keep its node, from when its first pod is scheduled.

    The number is written when the server is created, and never changed. `starts` is 2 if there are
    several pods, because the last one may be scheduled just before the startup deadline of the
    first has passed, and then has a startup deadline of its own.
    """
    startup = spec.startup_deadline_seconds
    run = spec.run_deadline_seconds
    if startup == 0 or run == 0:
        return max_hold_seconds
    return min(starts * startup + run + MARGIN_SECONDS, max_hold_seconds)


def client_seconds(spec: BenchmarkRunSpec, max_hold_seconds: int) -> int:
    """Return the deadline of the client's Job, in seconds.

    It is later than any deadline of the run. It exists even if the run has no deadline.
    """
    pending = (
        0
        if spec.started is None
        else spec.pending_deadline_seconds or MAX_PENDING_SECONDS
    )
    startup = spec.startup_deadline_seconds or max_hold_seconds
    run = spec.run_deadline_seconds or max_hold_seconds
    return pending + startup + run + LEEWAY_SECONDS


_PURPOSE = b"benchrun.token/1\x1f"


def token_of(key: bytes, run_uid: str) -> str:
    """Derive the run's token, in hexadecimal, from the operator's key.

    Nobody without the key can derive the token; a restarted operator derives the same one. The
    plan holds only the token's digest, so the token is in no spec, argument or log.
    """
    return hmac.new(key, _PURPOSE + run_uid.encode(), hashlib.sha256).hexdigest()
