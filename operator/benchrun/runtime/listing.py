"""Listing everything: before the first pass, so that nothing is made twice, and now and then, in case a watch missed something."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api import names
from benchrun.api.base import KIND
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.effects.kubernetes_api import Cluster
from benchrun.effects.resources import CHILD_KINDS
from benchrun.runtime.indexes import Indexes


async def list_everything(cluster: Cluster, indexes: Indexes, namespaces: Iterable[str]) -> None:
    """Bring the indexes up to date with the cluster. Raises ClusterError; what was listed until then is kept."""
    for namespace in tuple(namespaces) or (None,):
        for kind in (*CHILD_KINDS, KIND, SWEEP_KIND):
            await _list_kind(cluster, indexes, kind, namespace)


async def _list_kind(cluster: Cluster, indexes: Indexes, kind: str, namespace: str | None) -> None:
    listing = indexes.begin_listing(kind, namespace)
    complete = False
    try:
        objects = cluster.list(
            kind,
            namespace=namespace,
            selector=names.LABEL_RUN if kind in CHILD_KINDS else None,
            metadata_only=kind == "ConfigMap",
        )
        async for body in objects:
            indexes.listed(listing, body)
        complete = True
    finally:
        indexes.end_listing(listing, complete=complete)
