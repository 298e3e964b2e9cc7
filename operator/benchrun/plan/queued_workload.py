"""The Workload with which a run asks Kueue for quota, and what the answer adds to its pods.

Both are computed from the manifests of the objects that create the run's pods, of any kind.
"""

from collections.abc import Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

from benchrun import child_kinds, names
from benchrun.api import Placement
from benchrun.plan.child_objects import Manifest, Owner, metadata

_PLACING = (
    "affinity",
    "nodeSelector",
    "overhead",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "tolerations",
    "topologySpreadConstraints",
)
"""Fields of a pod that decide on which nodes it fits. Kueue does not need the other fields."""
_COUNTED = ("name", "image", "resources", "restartPolicy")
"""Fields of a container that decide how much it takes of a quota."""


def workload_manifest(
    owner: Owner,
    *,
    queue: str,
    attempt: int,
    makers: Iterable[Manifest],
    noted: Mapping[str, str],
) -> Manifest:
    """Build the Workload that asks for the quota of all pods that `makers` will make.

    `noted` has the platform's defaults, from which the pods are made once there is a quota.
    """
    kind = child_kinds.KINDS[child_kinds.WORKLOAD]
    name = names.queued_name(owner.name, owner.uid, attempt)
    about = metadata(owner, role=names.ROLE_QUEUE, name=name)
    return {
        "apiVersion": f"{kind.group}/{kind.version}",
        "kind": child_kinds.WORKLOAD,
        "metadata": {**about, "annotations": dict(noted)},
        "spec": {
            "queueName": queue,
            # Where one has none, Kueue 0.14 fails to tell the places of all that wait.
            "priority": 0,
            "podSets": [_pod_set(maker) for maker in makers],
        },
    }


def placed(maker: Manifest, placements: Iterable[Placement]) -> Manifest:
    """Return the manifest whose pods get the node labels and tolerations of their flavours.

    Node labels that the pods select themselves win: Kueue chose a flavour that agrees with them.
    """
    role = _role(maker)
    found = next((each for each in placements if each.role == role), None)
    if found is None:
        return maker
    given = [
        each.model_dump(by_alias=True, exclude_none=True)
        for each in found.tolerations
    ]
    placed_maker = deepcopy(maker)
    for template in _templates(placed_maker):
        pod = template["spec"]
        selected = {**found.node_selector, **pod.get("nodeSelector", {})}
        own = pod.get("tolerations", [])
        tolerated = [*own, *(each for each in given if each not in own)]
        if selected:
            pod["nodeSelector"] = selected
        if tolerated:
            pod["tolerations"] = tolerated
    return placed_maker


def _pod_set(maker: Manifest) -> Manifest:
    template = next(_templates(maker))
    return {
        "name": _role(maker),
        "count": _pods(maker),
        "template": {"spec": _as_counted(template["spec"])},
    }


def _as_counted(pod: Mapping[str, Any]) -> dict[str, Any]:
    """Return the part of a pod's spec that Kueue needs: where it fits and what it takes."""
    containers = {
        kind: [
            {name: each[name] for name in _COUNTED if name in each}
            for each in pod[kind]
        ]
        for kind in ("initContainers", "containers")
        if kind in pod
    }
    return {**{name: pod[name] for name in _PLACING if name in pod}, **containers}


def _role(maker: Manifest) -> str:
    return str(maker["metadata"]["labels"][names.LABEL_ROLE])


def _pods(maker: Manifest) -> int:
    """Return how many pods the object creates."""
    spec = maker["spec"]
    each = spec.get("leaderWorkerTemplate", {}).get("size", 1)
    return int(spec.get("replicas") or spec.get("parallelism") or 1) * int(each)


def _templates(maker: Manifest) -> Iterator[dict[str, Any]]:
    """Yield the pod templates of an object; a group has the leader's first."""
    spec = maker["spec"]
    if (group := spec.get("leaderWorkerTemplate")) is not None:
        yield group["leaderTemplate"]
        yield group["workerTemplate"]
    else:
        yield spec["template"]
