"""A proxy between two test servers that record their requests and give scripted answers."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web
from benchrun_client.proxy.readiness import Readiness
from benchrun_client.proxy.server import parse, running_proxy
from multidict import CIMultiDictProxy

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
COMPLETIONS = "/v1/completions"
ASKED = {"model": "m", "prompt": "hello", "max_tokens": 5}


@dataclass(frozen=True, slots=True)
class Asked:
    """One completion request that a server got."""

    path: str
    headers: CIMultiDictProxy[str]
    body: bytes
    json: Any


@dataclass(slots=True)
class Server:
    """A server of one role."""

    answer: Handler
    requests: list[Asked] = field(default_factory=list)
    healthy: bool = True
    resets: list[str] = field(default_factory=list)
    reset_answer: str = '{"success": true}'
    came: asyncio.Event = field(default_factory=asyncio.Event)
    given_up: asyncio.Event = field(default_factory=asyncio.Event)
    """Somebody has gone while the answer was on its way."""
    url: str = ""

    async def complete(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(
            Asked(
                request.path_qs,
                request.headers,
                await request.read(),
                await request.json(),
            )
        )
        self.came.set()
        try:
            return await self.answer(request)
        except (asyncio.CancelledError, ConnectionResetError):
            self.given_up.set()
            raise

    async def health(self, _: web.Request) -> web.Response:
        return web.Response(status=200 if self.healthy else 503)

    async def reset(self, request: web.Request) -> web.Response:
        self.resets.append(request.path_qs)
        return web.Response(text=self.reset_answer)

    @asynccontextmanager
    async def serving(
        self, *, address: str = "127.0.0.1", port: int = 0
    ) -> AsyncIterator[str]:
        """Serve, and yield the URL."""
        app = web.Application(client_max_size=1 << 26)
        app.add_routes(
            [
                web.post(COMPLETIONS, self.complete),
                web.post("/v1/chat/completions", self.complete),
                web.get("/health", self.health),
                web.get("/v1/models", models),
                web.get("/version", version),
                web.post("/tokenize", tokens),
                web.post("/reset_prefix_cache", self.reset),
            ]
        )
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, address, port).start()
            self.url = f"http://{address}:{runner.addresses[0][1]}"
            yield self.url
        finally:
            await runner.cleanup()


async def models(_: web.Request) -> web.Response:
    return web.json_response(
        {"object": "list", "data": [{"id": "m", "max_model_len": 4096}]}
    )


async def version(_: web.Request) -> web.Response:
    return web.json_response({"version": "0.32.0"})


async def tokens(request: web.Request) -> web.Response:
    body = await request.json()
    return web.json_response(
        {"count": len(body["prompt"]), "key": request.headers.get("Authorization")}
    )


def saying(
    text: str, *, status: int = 200, content_type: str = "application/json"
) -> Handler:
    """Build a handler that always gives the same answer."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, content_type=content_type)

    return answer


def prefilling(text: str = '{"id": "p", "kv_transfer_params": null}') -> Server:
    return Server(saying(text))


@dataclass(frozen=True, slots=True)
class Between:
    """A proxy and the servers and client on both sides of it."""

    url: str
    port: int
    prefill: Server
    decode: Server
    readiness: Readiness
    http: aiohttp.ClientSession

    async def ask(
        self, body: object = None, *, path: str = COMPLETIONS, **headers: str
    ) -> tuple[int, bytes]:
        async with self.http.post(
            self.url + path, json=ASKED if body is None else body, headers=headers
        ) as response:
            return response.status, await response.read()

    async def bare(self, body: bytes, *headers: str) -> bytes:
        """Send a completion request with no more headers than needed.

        Return all bytes until the connection ends.
        """
        lines = [
            f"POST {COMPLETIONS} HTTP/1.1",
            "Host: x",
            f"Content-Length: {len(body)}",
            *headers,
            "",
            "",
        ]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write("\r\n".join(lines).encode() + body)
        got = await reader.read()
        writer.close()
        return got

    async def metrics(self) -> dict[str, float]:
        async with self.http.get(f"{self.url}/metrics") as response:
            lines = (await response.text()).splitlines()
        return {
            name: float(value)
            for name, value in (
                line.rsplit(" ", 1) for line in lines if line[0] != "#"
            )
        }

    async def outcomes(self) -> dict[str, int]:
        """Return the number of ended requests by outcome, without those that did not occur."""
        found = await self.metrics()
        prefix = 'benchrun_proxy_requests_total{outcome="'
        return {
            k.removeprefix(prefix)[:-2]: int(v)
            for k, v in found.items()
            if k.startswith(prefix) and v
        }


@asynccontextmanager
async def between(
    prefill: Server, decode: Server, *flags: str
) -> AsyncIterator[Between]:
    """Yield a proxy between two servers that knows their addresses and is not watched."""
    async with (
        prefill.serving() as first,
        decode.serving() as second,
        aiohttp.ClientSession() as http,
    ):
        words = [
            "--engine=VLLM",
            f"--prefill={first}",
            f"--decode={second}",
            "--address=127.0.0.1",
            "--port=0",
            *flags,
        ]
        async with running_proxy(parse(words)) as proxy:
            await proxy.readiness.look_up()
            url = f"http://127.0.0.1:{proxy.port}"
            yield Between(url, proxy.port, prefill, decode, proxy.readiness, http)
