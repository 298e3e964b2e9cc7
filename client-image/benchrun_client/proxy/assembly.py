"""The proxy put together from its parts, and answering."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from benchrun_client.http_session import open_session
from benchrun_client.proxy.arguments import Arguments
from benchrun_client.proxy.aside import Aside
from benchrun_client.proxy.figures import Figures
from benchrun_client.proxy.passage import Passages
from benchrun_client.proxy.places import Places
from benchrun_client.proxy.port import application
from benchrun_client.proxy.readiness import Readiness
from benchrun_client.proxy.roles import Role
from benchrun_client.proxy.steps import Steps, forwarding_session

OWN_REQUEST_SECONDS = 300.0
"""The first forward pass of a server may compile for minutes."""


BACKLOG = 2048
PARTING_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy that answers."""

    port: int
    readiness: Readiness
    """To be watched, or it will never be ready."""


@asynccontextmanager
async def answering(arguments: Arguments) -> AsyncIterator[Proxy]:
    """A proxy as it was told to be; with the block its port and all connections are closed.

    Raises:
        OSError: the port can't be had.
    """
    prefill = Role("prefill", arguments.prefill, replicas=arguments.prefill_replicas)
    decode = Role("decode", arguments.decode, replicas=arguments.decode_replicas)
    figures = Figures()
    places = Places(most=arguments.max_in_flight, most_queued=arguments.max_in_flight)
    async with forwarding_session() as load, open_session(tls=None, seconds=OWN_REQUEST_SECONDS) as own:
        readiness = Readiness(prefill, decode, session=own, steps=Steps(own))
        app = application(
            passages=Passages(prefill, decode, steps=Steps(load), places=places, figures=figures),
            readiness=readiness,
            places=places,
            figures=figures,
            aside=Aside(prefill, decode, steps=Steps(load), own_session=own),
        )
        # A client that goes away takes its request to the servers with it.
        runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=PARTING_SECONDS)
        await runner.setup()
        watched = figures.watch_loop(asyncio.get_running_loop())
        try:
            await web.TCPSite(runner, arguments.address, arguments.port, backlog=BACKLOG).start()
            yield Proxy(runner.addresses[0][1], readiness)
        finally:
            watched.stop()
            await runner.cleanup()
