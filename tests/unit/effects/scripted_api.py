"""A real HTTP server in place of the API server, with scripted answers.

It gives its answers one after the other, and records the requests it gets.
"""

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from benchrun.effects import Connection, KubernetesApi
from kubernetes.aio.client.configuration import Configuration

Json = dict[str, Any]
Told = Callable[[str | None], None]


@dataclass(frozen=True, slots=True)
class Request:
    """One request."""

    method: str
    path: str
    query: dict[str, str]
    content_type: str
    accept: str
    body: Json | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request."""

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Exchange:
    """The client's end of a connection, and what went over it."""

    api: KubernetesApi
    connection: Connection
    requests: list[Request]
    # verb, resource and code of every change that was counted
    writes: list[tuple[str, ...]]


def gives(body: Json) -> Answer:
    return Answer(body=json.dumps(body).encode())


def refuses(
    code: int, reason: str = "", message: str = "it said no", **headers: str
) -> Answer:
    """Build a refusal with a Status object, like the API server's."""
    body = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
    }
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(
        code,
        json.dumps(body).encode(),
        {"Content-Type": "application/json", **named},
    )


@asynccontextmanager
async def answering(
    *answers: Answer, told: Told | None = None
) -> AsyncIterator[Exchange]:
    """Yield a connection to a server that gives these answers.

    One request more than there are answers gets a 599.
    """
    left = list(answers)
    requests = list[Request]()

    async def answer(request: web.Request) -> web.Response:
        text = await request.text()
        requests.append(
            Request(
                request.method,
                request.rel_url.raw_path,
                dict(request.query),
                request.content_type,
                request.headers["Accept"],
                json.loads(text) if text else None,
            )
        )
        response = left.pop(0) if left else Answer(599)
        return web.Response(
            status=response.status, body=response.body, headers=response.headers
        )

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with connected(url, told=told) as exchange:
        exchange.requests = requests
        yield exchange
    await runner.cleanup()


@asynccontextmanager
async def connected(
    url: str, *, told: Told | None = None
) -> AsyncIterator[Exchange]:
    """Yield a connection to whatever server is at the URL."""
    writes: list[tuple[str, ...]] = []
    found = Configuration(host=url)
    found.api_key["BearerToken"] = "Bearer secret"
    found.retries = None
    connection = Connection(found, told=told)
    api = KubernetesApi(connection, count=lambda *call: writes.append(call))
    try:
        yield Exchange(api, connection, [], writes)
    finally:
        await connection.close()
