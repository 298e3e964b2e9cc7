"""The kinds of objects that the operator creates for a run, each declared once.

From here come their URL paths, what is watched, what is deleted first, and (by `dev.generate`) the
operator's rights and what the admission policy looks at.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildKind:
    """A kind of objects of a run, and how the operator treats them.

    No field has a default, so that nobody forgets to choose it for a new kind.
    """

    group: str
    version: str
    plural: str
    holds_gpu: bool
    """Whether its pods are servers: it is deleted first and in the foreground, and must be listed
    before any run is touched."""
    must_be_known: bool
    """Whether runs wait until it is listed. Objects of other kinds are created once more if they
    seem to be missing, and then found by their names."""
    is_watched: bool
    """Whether the operator hears of its changes. If not, it is read for the runs that have one."""
    has_pods: bool  # Whether it makes pods, which the admission policy looks into.
    is_deleted: bool
    """Whether the operator deletes it. If not, the garbage collector does, with the run."""
    switch: str | None
    """Value of the chart without which the operator may not use the kind, which a cluster may lack.
    Kopf does not watch it then, since that needs the kind to exist when the operator starts. None
    if every cluster has the kind."""


LEADER_WORKER_SET = "LeaderWorkerSet"
WORKLOAD = "Workload"
KINDS: Mapping[str, ChildKind] = {
    "Deployment": ChildKind(
        group="apps",
        version="v1",
        plural="deployments",
        holds_gpu=True,
        must_be_known=True,
        is_watched=True,
        has_pods=True,
        is_deleted=True,
        switch=None,
    ),
    LEADER_WORKER_SET: ChildKind(
        group="leaderworkerset.x-k8s.io",
        version="v1",
        plural="leaderworkersets",
        holds_gpu=True,
        must_be_known=True,
        is_watched=False,
        has_pods=True,
        is_deleted=True,
        switch="rbac.leaderWorkerSets",
    ),
    "Job": ChildKind(
        group="batch",
        version="v1",
        plural="jobs",
        holds_gpu=False,
        must_be_known=True,
        is_watched=True,
        has_pods=True,
        is_deleted=True,
        switch=None,
    ),
    "Service": ChildKind(
        group="",
        version="v1",
        plural="services",
        holds_gpu=False,
        must_be_known=False,
        is_watched=True,
        has_pods=False,
        is_deleted=True,
        switch=None,
    ),
    "ConfigMap": ChildKind(
        group="",
        version="v1",
        plural="configmaps",
        holds_gpu=False,
        must_be_known=True,
        is_watched=True,
        has_pods=False,
        is_deleted=True,
        switch=None,
    ),
    "NetworkPolicy": ChildKind(
        group="networking.k8s.io",
        version="v1",
        plural="networkpolicies",
        holds_gpu=False,
        must_be_known=False,
        is_watched=True,
        has_pods=False,
        is_deleted=False,
        switch=None,
    ),
    WORKLOAD: ChildKind(
        group="kueue.x-k8s.io",
        version="v1beta1",
        plural="workloads",
        holds_gpu=False,
        must_be_known=False,
        is_watched=True,
        has_pods=False,
        is_deleted=True,
        switch="kueue.enabled",
    ),
}
"""Every kind that a run's objects have. The pods that these make are watched beside them."""
SERVER_KINDS = tuple(name for name, kind in KINDS.items() if kind.holds_gpu)
"""Kinds of objects that make the pods of servers, which hold the GPU."""
EXTENSION_KINDS = tuple(
    name for name, kind in KINDS.items() if kind.switch is not None
)
"""Kinds that a cluster may lack. Kopf does not watch them. They are listed with the others, and
watched or read beside it. Their objects carry the label of their run, too."""
