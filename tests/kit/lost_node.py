"""A node whose kubelet can't be reached: pods are bound to it, and no log of theirs can be read."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from runs_kit.cluster import PATHS, Cluster

from kit.kubectl import Object

NOBODY_LISTENS = 1  # the port at which its kubelet would be


@asynccontextmanager
async def lost_node(api: Cluster) -> AsyncIterator[str]:
    """Yield the name of a lost node, which exists while the context is open.

    Nothing is scheduled to it.
    """
    name = f"lost-{uuid.uuid4().hex[:8]}"
    taint = {"key": "benchrun.dev/test", "effect": "NoSchedule"}
    node = {
        "metadata": {"name": name},
        "spec": {"unschedulable": True, "taints": [taint]},
    }
    await api.ask("POST", "/api/v1/nodes", node)
    status = {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": NOBODY_LISTENS}},
    }
    await api.ask(
        "PATCH", f"/api/v1/nodes/{name}/status", {"status": status}, merge=True
    )
    try:
        yield name
    finally:
        await api.ask("DELETE", f"/api/v1/nodes/{name}")


async def bind(api: Cluster, namespace: str, pod: Object, *, node: str) -> None:
    """Put the pod onto the node, as a scheduler would."""
    path = f"{PATHS['Pod'].format(namespace)}/{pod['metadata']['name']}/binding"
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    await api.ask(
        "POST",
        path,
        {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod["metadata"]["name"]},
            "target": target,
        },
    )
