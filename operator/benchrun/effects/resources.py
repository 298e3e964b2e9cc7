"""Where each kind lives in the API: the few kinds the operator speaks of."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote

from benchrun.api.base import GROUP, KIND, PLURAL, VERSION
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.api.sweep.spec import PLURAL as SWEEP_PLURAL


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind's address."""

    group: str
    version: str
    plural: str

    def path(self, namespace: str | None, name: str | None = None, subresource: str | None = None) -> str:
        """URL path of the collection, an object, or a subresource; without a namespace, of all namespaces."""
        parts = ["/apis", self.group, self.version] if self.group else ["/api", self.version]
        parts += ["namespaces", namespace] if namespace is not None else []
        parts += [self.plural, *(p for p in (name, subresource) if p is not None)]
        return "/".join([parts[0], *(quote(part, safe="") for part in parts[1:])])


RUN = Resource(GROUP, VERSION, PLURAL)
LEADER_WORKER_SET = "LeaderWorkerSet"
RESOURCES = {
    KIND: RUN,
    SWEEP_KIND: Resource(GROUP, VERSION, SWEEP_PLURAL),
    LEADER_WORKER_SET: Resource("leaderworkerset.x-k8s.io", "v1", "leaderworkersets"),
    "Deployment": Resource("apps", "v1", "deployments"),
    "Job": Resource("batch", "v1", "jobs"),
    "Service": Resource("", "v1", "services"),
    "ConfigMap": Resource("", "v1", "configmaps"),
    "Pod": Resource("", "v1", "pods"),
    "Event": Resource("", "v1", "events"),
    "NetworkPolicy": Resource("networking.k8s.io", "v1", "networkpolicies"),
    "EndpointSlice": Resource("discovery.k8s.io", "v1", "endpointslices"),
}
CHILD_KINDS = ("Deployment", "Job", "Service", "ConfigMap", "NetworkPolicy", "Pod")
"""Kinds that carry our run label, and are watched."""
EXTENSION_KINDS = (LEADER_WORKER_SET,)
"""Kinds that a cluster may lack. They carry our run label, too, but a watch would want them there when the operator starts:
they are listed with the others, and looked up for the runs that have one."""
