"""A Lease in memory with what electors rely on.

A write of a version that has been replaced is a conflict.
"""

import asyncio
import copy

from benchrun.effects import (
    ClusterError,
    Conflict,
    Exists,
    Json,
    LeaseApi,
    NotFound,
)


class MemoryLease(LeaseApi):
    """A Lease shared by all that are given it."""

    def __init__(self) -> None:
        self.lease: Json | None = None
        self.broken: ClusterError | None = None  # what every request fails with
        self.hangs = False
        # writes are carried out and then nothing is heard of them
        self.loses_answers = False
        self.writes = 0
        self._version = 0

    @property
    def holder(self) -> str:
        return (
            "" if self.lease is None else str(self.lease["spec"]["holderIdentity"])
        )

    async def read(self) -> Json | None:
        await self._answer()
        return copy.deepcopy(self.lease)

    async def create(self, spec: Json) -> Json:
        await self._answer()
        if self.lease is not None:
            raise Exists("it exists", code=409)
        return self._written(
            {"metadata": {"name": "lease", "labels": {"kept": "yes"}}, "spec": spec}
        )

    async def replace(self, lease: Json) -> Json:
        await self._answer()
        if self.lease is None:
            raise NotFound("gone", code=404)
        if (
            lease["metadata"]["resourceVersion"]
            != self.lease["metadata"]["resourceVersion"]
        ):
            raise Conflict("the object has been modified", code=409)
        return self._written(lease)

    async def _answer(self) -> None:
        # Other requests of the same time are answered first.
        await asyncio.sleep(0)
        if self.hangs:
            await asyncio.Event().wait()
        if self.broken is not None:
            raise self.broken

    def _written(self, lease: Json) -> Json:
        self._version += 1
        self.writes += 1
        self.lease = copy.deepcopy(lease)
        self.lease["metadata"]["resourceVersion"] = str(self._version)
        if self.loses_answers:
            raise ClusterError("no answer")
        return copy.deepcopy(self.lease)
