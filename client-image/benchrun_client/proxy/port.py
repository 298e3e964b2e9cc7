"""What the proxy answers, and how it is put together."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from benchrun_client.canary import reset_caches
from benchrun_client.http_session import open_session
from benchrun_client.proxy.figures import Figures
from benchrun_client.proxy.passage import Passages
from benchrun_client.proxy.readiness import Readiness
from benchrun_client.proxy.roles import Places, Role, Unreachable
from benchrun_client.proxy.steps import Broken, Steps, complaint, forwarding_session, passed_on, relay

# ---- aside ------------------------------------------------------------------------------------------------------------
# Requests that are no completions: what a decode server answers for all, and what every server has to do.


class Aside:
    """Requests that are no completions."""

    def __init__(self, prefill: Role, decode: Role, *, steps: Steps, own_session: aiohttp.ClientSession) -> None:
        self._prefill, self._decode = prefill, decode
        self._steps = steps
        self._own_session = own_session

    async def by_decode(self, request: web.Request) -> web.StreamResponse:
        """Have the first decode server answer. Completions take turns without regard to this."""
        if not self._decode.servers:
            return complaint(HTTPStatus.BAD_GATEWAY, "decode: no address yet")
        url = self._decode.servers[0] + request.path_qs
        body, headers = await request.read(), passed_on(request.headers)
        try:
            async with self._steps.open("decode", url, body=body, headers=headers, method=request.method) as (
                response,
                _,
            ):
                return await relay(request, response)
        except Broken as broken:
            return broken.response
        except Unreachable as error:
            return complaint(HTTPStatus.BAD_GATEWAY, str(error))

    async def by_all(self, _: web.Request) -> web.Response:
        """Empty every server's prefix cache; a success only if all say that they did."""
        servers = (*self._prefill.servers, *self._decode.servers)
        if not self._prefill.servers or not self._decode.servers:
            return complaint(HTTPStatus.BAD_GATEWAY, "not every role has an address yet")
        reset = await reset_caches(self._own_session, servers)
        return web.json_response({"success": reset.succeeded, "answer": reset.answer})


# ---- port -------------------------------------------------------------------------------------------------------------
# What the proxy answers.
#
# POST /v1/completions, /v1/chat/completions               through both roles
# GET  /v1/models, /version; POST /tokenize, /detokenize   by a decode server
# POST /reset_prefix_cache                                 done by every server of both roles
# GET  /health, /metrics                                   the proxy's own

MAX_BODY_BYTES = 64 * 1024 * 1024
PAGE_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def application(
    *,
    passages: Passages,
    readiness: Readiness,
    places: Places,
    figures: Figures,
    aside: Aside,
) -> web.Application:
    """All routes."""

    async def health(_: web.Request) -> web.Response:
        if readiness.problem is None:
            return web.Response()
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{readiness.problem}\n")

    async def metrics(_: web.Request) -> web.Response:
        page = figures.exposition(in_flight=places.in_flight, queued=places.queued)
        return web.Response(body=page.encode(), headers={"Content-Type": PAGE_TYPE})

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes(
        [
            web.post("/v1/completions", passages.serve),
            web.post("/v1/chat/completions", passages.serve),
            web.get("/v1/models", aside.by_decode),
            web.get("/version", aside.by_decode),
            web.post("/tokenize", aside.by_decode),
            web.post("/detokenize", aside.by_decode),
            web.post("/reset_prefix_cache", aside.by_all),
            web.get("/health", health),
            web.get("/metrics", metrics),
        ]
    )
    return app


# ---- arguments --------------------------------------------------------------------------------------------------------
# The proxy's command line.

MAX_IN_FLIGHT = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What the proxy was told."""

    prefill: str
    """Base URL; a name that stands for several addresses stands for as many servers."""
    decode: str
    prefill_replicas: int | None
    """How many addresses the name is to have before the proxy is ready; None: one at least."""
    decode_replicas: int | None
    address: str
    port: int
    max_in_flight: int


def parse(words: Sequence[str]) -> Arguments:
    """Read the command line; exits with code 2 where it makes no sense."""
    parser = argparse.ArgumentParser(prog="benchrun_client.proxy", description=__doc__)
    add = parser.add_argument
    add("--prefill", required=True, type=_base_url, help="http://HOST:PORT of the prefill servers")
    add("--decode", required=True, type=_base_url, help="http://HOST:PORT of the decode servers")
    add("--prefill-replicas", type=_positive, help="addresses that HOST must have (default: any number)")
    add("--decode-replicas", type=_positive, help="addresses that HOST must have (default: any number)")
    add("--address", default="0.0.0.0", help="address to listen on (default: %(default)s)")
    add("--port", type=int, default=8000, help="port to listen on (default: %(default)s)")
    add(
        *("--max-in-flight",),
        type=_positive,
        default=MAX_IN_FLIGHT,
        help="completions under way at once; as many again may wait (default: %(default)s)",
    )
    return Arguments(**vars(parser.parse_args(words)))


def _base_url(text: str) -> str:
    parts = urlsplit(text)
    # Servers are reached by their addresses, which no certificate names.
    if parts.scheme != "http" or not parts.hostname or parts.path not in ("", "/") or parts.query or parts.username:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form http://HOST:PORT")
    return text.rstrip("/")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


# ---- assembly ---------------------------------------------------------------------------------------------------------
# The proxy put together from its parts, and answering.

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
