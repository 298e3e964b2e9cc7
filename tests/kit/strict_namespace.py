"""What a namespace of a shared cluster asks of pods: a LimitRange, quotas, and restricted Pod Security.

`problems` says so without a cluster; `manifests` are the objects that have an API server say it.
"""

from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction
from typing import Any

from kit.restricted_scc import Object, violations

AMOUNTS = ("cpu", "memory")
MOST_RATIO = 4
"""How many times its request a limit may be."""
POD_SECURITY = {
    f"pod-security.kubernetes.io/{mode}": "restricted"
    for mode in ("enforce", "warn", "audit")
}
GPUS = "requests.nvidia.com/gpu"
_USERS = ("runAsUser", "runAsGroup", "fsGroup")
_HARD = {f"{kind}.{name}" for kind in ("requests", "limits") for name in AMOUNTS}
_UNITS = {"m": Fraction(1, 1000), "": Fraction(1)} | {
    f"{letter}{suffix}": Fraction(base**power)
    for suffix, base in (("i", 1024), ("", 1000))
    for power, letter in enumerate("KMGTPE", start=1)
}


def quantity(text: str | int) -> Fraction:
    """Return a Kubernetes quantity as a number."""
    digits = str(text).rstrip("mKMGTPEi")
    return Fraction(Decimal(digits)) * _UNITS[str(text)[len(digits) :]]


def problems(pod: Object) -> list[str]:
    """Return what such a namespace refuses in the spec of a pod, by container and field.

    Users that the pod names are not looked at: Pod Security refuses root alone.
    """
    security = {
        name: value
        for name, value in pod.get("securityContext", {}).items()
        if name not in _USERS
    }
    containers = [*pod.get("initContainers", []), *pod["containers"]]
    amounts = [each for one in containers for each in _amounts(one)]
    return [
        *violations({**pod, "securityContext": security}),
        *_not_root(pod, containers),
        *amounts,
    ]


def _not_root(pod: Object, containers: list[Object]) -> Iterator[str]:
    for_all = pod.get("securityContext", {})
    for each in containers:
        security = {**for_all, **each.get("securityContext", {})}
        if (
            security.get("runAsNonRoot") is not True
            or security.get("runAsUser") == 0
        ):
            yield f"{each['name']}.runAsNonRoot"
        if "seccompProfile" not in security:
            yield f"{each['name']}.seccompProfile"


def _amounts(container: Object) -> Iterator[str]:
    given = container.get("resources", {})
    limits = given.get("limits", {})
    # Kubernetes takes a limit for the request that is left out.
    requests = {**limits, **given.get("requests", {})}
    for name in AMOUNTS:
        missing = [
            f"{container['name']}.{kind}.{name}"
            for kind, amounts in (("requests", requests), ("limits", limits))
            if name not in amounts
        ]
        yield from missing
        if missing:
            continue
        request, limit = quantity(requests[name]), quantity(limits[name])
        if not request <= limit <= MOST_RATIO * request:
            yield f"{container['name']}.ratio.{name}"


def manifests() -> list[Object]:
    """Build the LimitRange, which fills nothing in, and the quota, which has room for each pod."""
    limits: dict[str, Any] = {
        "type": "Container",
        "maxLimitRequestRatio": {name: str(MOST_RATIO) for name in AMOUNTS},
    }
    hard = {name: "1000" if name.endswith("cpu") else "10Ti" for name in _HARD}
    return [
        _object("LimitRange", "ratio", limits=[limits]),
        _object("ResourceQuota", "compute", hard={**hard, GPUS: "64"}),
    ]


def _object(kind: str, name: str, **spec: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": spec,
    }
