"""Listing everything: before the first pass, so that nothing is made twice, and now and then, in case a watch missed something.

Kinds that the cluster may lack (`EXTENSION_KINDS`) are listed with the others, and one by one where a run needs one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from benchrun.api import names
from benchrun.api.base import KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.effects.errors import Forbidden, NotFound
from benchrun.effects.kubernetes_api import Cluster
from benchrun.effects.resources import CHILD_KINDS, EXTENSION_KINDS, LEADER_WORKER_SET
from benchrun.observe import raw
from benchrun.observe.views import Run
from benchrun.runtime.indexes import Indexes


async def list_everything(cluster: Cluster, indexes: Indexes, namespaces: Iterable[str]) -> None:
    """Bring the indexes up to date with the cluster. Raises ClusterError; what was listed until then is kept."""
    for namespace in tuple(namespaces) or (None,):
        for kind in EXTENSION_KINDS:
            # Not there, or not ours to read: then we have made none, either.
            with contextlib.suppress(NotFound, Forbidden):
                await _list_kind(cluster, indexes, kind, namespace)
        for kind in (*CHILD_KINDS, KIND, SWEEP_KIND):
            await _list_kind(cluster, indexes, kind, namespace)


async def look_up_groups(cluster: Cluster, indexes: Indexes, run: Run) -> None:
    """Bring what is known of the run's LeaderWorkerSet up to date: nobody tells of it. Does nothing for other runs."""
    if raw.number(raw.mapping(run.spec.get("server")).get("nodesPerReplica"), default=1) == 1:
        return
    name = names.group_name(run.name, run.uid)
    try:
        indexes.learnt(LEADER_WORKER_SET, await cluster.get(LEADER_WORKER_SET, namespace=run.namespace, name=name))
    except NotFound:
        indexes.drop(LEADER_WORKER_SET, run.namespace, name)
    except Forbidden:
        return  # its creation is refused as well, and then the status says why


async def _list_kind(cluster: Cluster, indexes: Indexes, kind: str, namespace: str | None) -> None:
    listing = indexes.begin_listing(kind, namespace)
    complete = False
    try:
        objects = cluster.list(
            kind,
            namespace=namespace,
            selector=names.LABEL_RUN if kind in (*CHILD_KINDS, *EXTENSION_KINDS) else None,
            metadata_only=kind == "ConfigMap",
        )
        async for body in objects:
            indexes.listed(listing, body)
        complete = True
    finally:
        indexes.end_listing(listing, complete=complete)
