"""The proxy's HTTP server and command line.

POST /v1/completions, /v1/chat/completions               pass through both roles
GET  /v1/models, /version; POST /tokenize, /detokenize   are answered by a decode server
POST /reset_prefix_cache                                 goes to every server of both roles
GET  /health, /metrics                                   are answered by the proxy itself
"""

import argparse
import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from benchrun_client.access import key_access
from benchrun_client.engines import ENGINES, EngineName
from benchrun_client.http_session import listen, open_session
from benchrun_client.load.client_cost import LoopWatch
from benchrun_client.proxy import upstream
from benchrun_client.proxy.forwarding import Forwarder
from benchrun_client.proxy.metrics import ProxyMetrics
from benchrun_client.proxy.readiness import Readiness
from benchrun_client.server.cache_reset import reset_caches
from benchrun_client.server.readiness import FIRST_REQUEST_SECONDS

MAX_IN_FLIGHT = 2048
MAX_BODY_BYTES = 64 * 1024 * 1024
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
BACKLOG = 2048
LAST_ANSWERS_SECONDS = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    engine: EngineName
    prefill: (
        str  # Base URL; a name with several addresses stands for as many servers.
    )
    decode: str
    prefill_replicas: int | None
    """Number of addresses that the name must have before the proxy is ready; None: at least one."""
    decode_replicas: int | None
    address: str
    port: int
    max_in_flight: int


def parse(argv: Sequence[str]) -> Arguments:
    """Read the command line; exit with code 2 if it is not valid."""
    parser = argparse.ArgumentParser(
        prog="benchrun_client.proxy", description=__doc__
    )
    add = parser.add_argument
    add("--engine", required=True, choices=ENGINES, help="engine of the servers")
    add(
        "--prefill",
        required=True,
        type=_base_url,
        help="http://HOST:PORT of the prefill servers",
    )
    add(
        "--decode",
        required=True,
        type=_base_url,
        help="http://HOST:PORT of the decode servers",
    )
    add(
        "--prefill-replicas",
        type=_positive,
        help="addresses that HOST must have (default: any number)",
    )
    add(
        "--decode-replicas",
        type=_positive,
        help="addresses that HOST must have (default: any number)",
    )
    add(
        "--address",
        default="0.0.0.0",
        help="address to listen on (default: %(default)s)",
    )
    add(
        "--port",
        type=int,
        default=8000,
        help="port to listen on (default: %(default)s)",
    )
    most = "completions under way at once; as many again may wait (default: %(default)s)"
    add("--max-in-flight", type=_positive, default=MAX_IN_FLIGHT, help=most)
    return Arguments(**vars(parser.parse_args(argv)))


def _base_url(text: str) -> str:
    parts = urlsplit(text)
    # Servers are reached by their addresses, which no certificate names.
    if (
        parts.scheme != "http"
        or not parts.hostname
        or parts.path not in ("", "/")
        or parts.query
        or parts.username
    ):
        raise argparse.ArgumentTypeError(
            f"{text!r} is not of the form http://HOST:PORT"
        )
    return text.rstrip("/")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


class ProxyServer:
    """A proxy between two roles.

    `load` is the session for requests of clients, `own` the session for the proxy's own requests.
    """

    port = 0

    def __init__(
        self,
        arguments: Arguments,
        *,
        load: aiohttp.ClientSession,
        own: aiohttp.ClientSession,
    ) -> None:
        self._prefill = upstream.UpstreamRole(
            "prefill", arguments.prefill, replicas=arguments.prefill_replicas
        )
        self._decode = upstream.UpstreamRole(
            "decode", arguments.decode, replicas=arguments.decode_replicas
        )
        self._engine = ENGINES[arguments.engine]
        self._load = load
        self._own = own
        self._places = upstream.InFlightLimit(
            most=arguments.max_in_flight, most_queued=arguments.max_in_flight
        )
        self.metrics = ProxyMetrics()
        self.readiness = Readiness(self._prefill, self._decode, session=own)
        """The readiness check; it must be watched, or the proxy never becomes ready."""

    def application(self) -> web.Application:
        forwarder = Forwarder(
            self._prefill,
            self._decode,
            session=self._load,
            places=self._places,
            metrics=self.metrics,
        )
        app = web.Application(client_max_size=MAX_BODY_BYTES)
        app.add_routes(
            web.post(path, forwarder.forward)
            for path in ("/v1/completions", "/v1/chat/completions")
        )
        app.add_routes(
            web.get(path, self._by_decode) for path in ("/v1/models", "/version")
        )
        app.add_routes(
            web.post(path, self._by_decode) for path in ("/tokenize", "/detokenize")
        )
        app.router.add_post("/reset_prefix_cache", self._by_all)
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._metrics)
        return app

    async def _by_decode(self, request: web.Request) -> web.StreamResponse:
        """Let the first decode server answer; whose turn the next completion is stays the same."""
        if not self._decode.servers:
            return upstream.refusal(
                HTTPStatus.BAD_GATEWAY, "decode: no address yet"
            )
        url = self._decode.servers[0] + request.path_qs
        body = await request.read()
        headers = upstream.passed_on(request.headers)
        opened = upstream.open_answer(
            self._load,
            "decode",
            url,
            body=body,
            headers=headers,
            method=request.method,
        )
        try:
            async with opened as (answer, _):
                return await upstream.relay(request, answer)
        except upstream.Broken as broken:
            return broken.response
        except upstream.Unreachable as error:
            return upstream.refusal(HTTPStatus.BAD_GATEWAY, str(error))

    async def _by_all(self, _: web.Request) -> web.Response:
        """Empty every server's prefix cache; report success only if all servers confirm it."""
        if not self._prefill.servers or not self._decode.servers:
            return upstream.refusal(
                HTTPStatus.BAD_GATEWAY, "not every role has an address yet"
            )
        reset = await reset_caches(
            self._own, (*self._prefill.servers, *self._decode.servers), self._engine
        )
        return web.json_response(
            {"success": reset.succeeded, "answer": reset.answer}
        )

    async def _health(self, _: web.Request) -> web.Response:
        problem = self.readiness.problem
        return (
            web.Response()
            if problem is None
            else web.Response(status=503, text=f"{problem}\n")
        )

    async def _metrics(self, _: web.Request) -> web.Response:
        text = self.metrics.exposition(
            in_flight=self._places.in_flight, queued=self._places.queued
        )
        return web.Response(
            body=text.encode(), headers={"Content-Type": METRICS_TYPE}
        )


@asynccontextmanager
async def running_proxy(arguments: Arguments) -> AsyncIterator[ProxyServer]:
    """Run a proxy within a `with` block, whose end closes its port and all connections.

    Raises OSError if the port is taken.
    """
    async with (
        upstream.forwarding_session() as load,
        open_session(access=key_access(), seconds=FIRST_REQUEST_SECONDS) as own,
    ):
        proxy = ProxyServer(arguments, load=load, own=own)
        # A client that goes away takes its request to the servers with it.
        runner, proxy.port = await listen(
            proxy.application(),
            address=arguments.address,
            port=arguments.port,
            backlog=BACKLOG,
            handler_cancellation=True,
            shutdown_timeout=LAST_ANSWERS_SECONDS,
        )
        watch = LoopWatch(
            asyncio.get_running_loop(), note=proxy.metrics.lag.observe
        )
        try:
            yield proxy
        finally:
            watch.stop()
            await runner.cleanup()
