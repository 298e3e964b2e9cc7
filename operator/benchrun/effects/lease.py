"""The Lease by which operators agree which of them reconciles: the one that holds and renews it.

The other operators watch, stay ready and wait until the Lease has not changed for the duration that
it names. Each measures this by its own clock: clocks of nodes are never compared. The Lease is read
and written whole, and every write names the version that was read, so of two writers one fails.

A holder stops reconciling some seconds before another may begin, and resumes if it renews the Lease
after all. When somebody else holds it, this process ends. Two operators that both believe to hold
it do no harm (docs/architecture.md).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass
from datetime import datetime

from benchrun.effects.connection import Connection, Json, Resource
from benchrun.effects.errors import ClusterError, Conflict, NotFound
from benchrun.observe import untrusted_json as raw

logger = logging.getLogger(__name__)

LEASE = Resource("coordination.k8s.io", "v1", "leases")
LEASE_SECONDS = 10
RENEW_SECONDS = 3.0
# seconds between attempts to renew a Lease that could not be renewed
RETRY_SECONDS = 1.0
WATCH_SECONDS = 2.0  # seconds between reads of a Lease that another process holds
REQUEST_SECONDS = 3.0
GIVE_UP_SECONDS = 7.0
"""Seconds without renewal until this process stops leading: running handlers have the rest of
LEASE_SECONDS to end."""
# most seconds of a Lease; a longer duration is taken for a mistake
LONGEST_LEASE_SECONDS = 60


@dataclass(eq=False)
class LeaseApi:
    """One Lease. Every method raises ClusterError."""

    connection: Connection
    _: KW_ONLY
    namespace: str
    name: str

    async def read(self) -> Json | None:
        """Return the Lease; None if it does not exist."""
        try:
            return await self.connection.json(
                "GET", LEASE.path(self.namespace, self.name)
            )
        except NotFound:
            return None

    async def create(self, spec: Json) -> Json:
        """Create the Lease. Raises Exists if another process was faster."""
        metadata = {"name": self.name, "namespace": self.namespace}
        kind = {"apiVersion": f"{LEASE.group}/{LEASE.version}", "kind": "Lease"}
        lease = {**kind, "metadata": metadata, "spec": spec}
        return await self.connection.json(
            "POST", LEASE.path(self.namespace), body=lease
        )

    async def replace(self, lease: Json) -> Json:
        """Write the Lease.

        Raises Conflict if it is not the version that was read, NotFound if it is gone.
        """
        return await self.connection.json(
            "PUT", LEASE.path(self.namespace, self.name), body=lease
        )


@dataclass(eq=False)
class Elector:
    leases: LeaseApi
    _: KW_ONLY
    identity: str
    now: Callable[[], datetime]  # wall clock, for people who read the Lease
    monotonic: Callable[[], float]  # monotonic clock, for decisions

    def __post_init__(self) -> None:
        # the Lease as last written here; None while this process does not hold it
        self._ours: Json | None = None
        self._renewed_at = 0.0
        self._observed: Json | None = None
        self._observed_at = 0.0
        # why the last attempt to read or write the Lease failed
        self.trouble: str | None = None

    @property
    def leads(self) -> bool:
        """Return whether this process may reconcile now."""
        return (
            self._ours is not None
            and self.monotonic() - self._renewed_at < GIVE_UP_SECONDS
        )

    async def acquire(self) -> None:
        """Wait until this process holds the Lease."""
        while self._ours is None:
            await self._try(self._take)
            if self._ours is None:
                await asyncio.sleep(WATCH_SECONDS)
        logger.info("%s holds the Lease and leads", self.identity)

    async def hold(self) -> None:
        """Renew the Lease until somebody else has it."""
        while self._ours is not None:
            await asyncio.sleep(
                RENEW_SECONDS if self.trouble is None else RETRY_SECONDS
            )
            await self._try(self._renew)
        logger.warning(
            "%s has lost the Lease and does not lead any more", self.identity
        )

    async def release(self) -> None:
        """Give up the Lease, if this process holds it, so that another can begin at once."""
        if self._ours is None:
            return
        lease = self._ours
        self._ours = None
        spec = {**_spec_of(lease), "holderIdentity": "", "leaseDurationSeconds": 1}
        await self._try(lambda: self.leases.replace({**lease, "spec": spec}))

    async def _try(self, step: Callable[[], Awaitable[object]]) -> None:
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                await step()
        except (ClusterError, TimeoutError) as error:
            if self.trouble is None:
                logger.warning(
                    "the Lease can't be read or written: %s: %s",
                    type(error).__name__,
                    error,
                )
            self.trouble = f"{type(error).__name__}: {error}"[:200]
        else:
            self.trouble = None

    async def _take(self) -> None:
        if (lease := await self.leases.read()) is None or self._is_free(lease):
            await self._write(lease)

    async def _renew(self) -> None:
        if (lease := self._ours) is None:
            return
        try:
            await self._write(lease)
        except NotFound:
            await self._write(None)
        except Conflict:
            # Somebody wrote the Lease. Where it is still this process's own, its next renewal names
            # the new version.
            if (found := await self.leases.read()) is None or _holder(
                found
            ) == self.identity:
                self._ours = found or self._ours
                raise Conflict(
                    "the Lease was changed by somebody else", code=409
                ) from None
            self._ours = None

    async def _write(self, lease: Json | None) -> None:
        """Write the Lease with this process as its holder, over the version that was read.

        `lease` is that version; None creates the Lease.
        """
        began = self.monotonic()
        spec = self._spec({} if lease is None else _spec_of(lease))
        new = (
            self.leases.create(spec)
            if lease is None
            else self.leases.replace({**lease, "spec": spec})
        )
        self._ours = await new
        self._renewed_at = began

    def _is_free(self, lease: Json) -> bool:
        """Return whether this process may take the Lease.

        It may if nobody holds the Lease, if this process held it before a restart, or if the Lease
        has not changed for longer than the duration that it names.
        """
        spec = _spec_of(lease)
        if self._observed != spec:
            self._observed = spec
            self._observed_at = self.monotonic()
        if _holder(lease) in ("", self.identity):
            return True
        seconds = min(
            max(raw.number(spec.get("leaseDurationSeconds"), LEASE_SECONDS), 1),
            LONGEST_LEASE_SECONDS,
        )
        return self.monotonic() - self._observed_at > seconds

    def _spec(self, before: Json) -> Json:
        now = self.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {
            **before,
            "holderIdentity": self.identity,
            "leaseDurationSeconds": LEASE_SECONDS,
            "renewTime": now,
        }
        if before.get("holderIdentity") != self.identity:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = (
                raw.number(before.get("leaseTransitions"), default=-1) + 1
            )
        return spec


def _spec_of(lease: Json) -> Json:
    return dict(raw.mapping(lease.get("spec")))


def _holder(lease: Json) -> str:
    return raw.text(_spec_of(lease).get("holderIdentity"))
