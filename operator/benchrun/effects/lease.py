"""The Lease by which operators agree who of them makes passes: read and written whole, always with its resourceVersion."""

from __future__ import annotations

from typing import Protocol

from benchrun.effects.connection import Connection, Json
from benchrun.effects.errors import NotFound
from benchrun.effects.resources import Resource

LEASE = Resource("coordination.k8s.io", "v1", "leases")


class Leases(Protocol):
    """One Lease. Every method raises ClusterError."""

    async def read(self) -> Json | None:
        """As it is; None where there is none."""
        ...

    async def create(self, spec: Json) -> Json:
        """Make it; Exists where somebody was faster."""
        ...

    async def replace(self, lease: Json) -> Json:
        """Write it; Conflict where it is not the version that was read, NotFound where it is gone."""
        ...


class LeaseApi:
    """`Leases`, for real."""

    def __init__(self, connection: Connection, *, namespace: str, name: str) -> None:
        self._connection = connection
        self._namespace = namespace
        self._name = name

    async def read(self) -> Json | None:
        """As it is; None where there is none."""
        try:
            return await self._connection.json("GET", LEASE.path(self._namespace, self._name))
        except NotFound:
            return None

    async def create(self, spec: Json) -> Json:
        """Make it; Exists where somebody was faster."""
        lease = {
            "apiVersion": f"{LEASE.group}/{LEASE.version}",
            "kind": "Lease",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": spec,
        }
        return await self._connection.json("POST", LEASE.path(self._namespace), body=lease)

    async def replace(self, lease: Json) -> Json:
        """Write it; Conflict where it is not the version that was read, NotFound where it is gone."""
        return await self._connection.json("PUT", LEASE.path(self._namespace, self._name), body=lease)
