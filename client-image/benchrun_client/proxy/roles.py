"""The servers of one role, and how many completions are under way at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Literal
from urllib.parse import urlsplit

from benchrun_client.server.readiness import pinned, resolve

RoleName = Literal["prefill", "decode"]


class Unreachable(Exception):
    """A server of a role does not answer as it should, or there is none."""

    def __init__(self, role: RoleName, problem: str) -> None:
        super().__init__(f"{role}: {problem}")
        self.role: RoleName = role


class Role:
    """The prefill servers, or the decode servers."""

    def __init__(self, name: RoleName, url: str, *, replicas: int | None) -> None:
        self.name: RoleName = name
        self._url, self._host = url, urlsplit(url).hostname
        self._replicas = replicas
        self._turns = count()
        self.servers: tuple[str, ...] = ()
        """Base URLs that lead to one server each; none until its name has been looked up."""

    async def look_up(self) -> None:
        """Find all addresses of the name: a headless Service has those of its pods. Raises Unreachable: none, or not all."""
        addresses = await resolve(self._url)
        if not addresses or (self._replicas is not None and len(addresses) != self._replicas):
            expected = f" of {self._replicas}" if self._replicas is not None else ""
            raise Unreachable(self.name, f"{self._host} has {len(addresses)}{expected} addresses")
        self.servers = tuple(pinned(self._url, address) for address in addresses)

    def next_server(self) -> str:
        """Whose turn it is. Raises Unreachable: the name was not found yet."""
        if not self.servers:
            raise Unreachable(self.name, f"{self._host} has no address yet")
        return self.servers[next(self._turns) % len(self.servers)]


class Places:
    """Places for requests on their way; the others wait in the order of their arrival, and not without bound."""

    def __init__(self, *, most: int, most_queued: int) -> None:
        self._free = asyncio.Semaphore(most)
        self._most_queued = most_queued
        self.in_flight = self.queued = 0

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """Hold a place; waits for one. Raises asyncio.QueueFull: at once, where as many wait as may."""
        if self._free.locked() and self.queued >= self._most_queued:
            raise asyncio.QueueFull
        self.queued += 1
        try:
            await self._free.acquire()
        finally:
            self.queued -= 1
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1
            self._free.release()
