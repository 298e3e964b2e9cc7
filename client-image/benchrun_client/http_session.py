"""How the client uses HTTP: proxies and bounds.

It also has an event loop in a thread. With `trust_env`, aiohttp looks up netrc and proxy variables
in the default thread pool for every request, which adds to the measured TTFT (35 to 480 ms with 64
to 512 streams). So `trust_env` is on only if a proxy variable is set.
"""

import asyncio
import json
import os
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from benchrun_client.access import Access

MODELS_PATH = "/v1/models"  # Path of the list of models, as OpenAI's API has it.
MAX_ANSWER_BYTES = 256 * 1024
NETWORK_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
"""Exceptions of aiohttp about the other side or the network path to it."""


def proxies_set(environment: Mapping[str, str] = os.environ) -> bool:
    names = ("http_proxy", "https_proxy", "all_proxy")
    return any(
        environment.get(name) or environment.get(name.upper()) for name in names
    )


def open_session(*, access: Access, seconds: float) -> aiohttp.ClientSession:
    """Open a session for all requests but the load; a whole request may take `seconds`."""
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.tls or True),
        # Nothing is to be compressed: it would take the server's time, which is what is measured.
        headers={"Accept-Encoding": "identity"},
        timeout=aiohttp.ClientTimeout(total=seconds),
        trust_env=proxies_set(),
        request_class=access.request_class(),
    )


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """An HTTP answer with at most `MAX_ANSWER_BYTES` of its body."""

    status: int
    content_type: str
    body: str
    location: str | None = None  # Where the answer redirects to, if it does.

    @property
    def is_html(self) -> bool:
        return "html" in self.content_type or self.body.lstrip()[:1] == "<"

    def json(self) -> Any:
        """Return the parsed body, or None if it is not JSON."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


async def answer_of(response: aiohttp.ClientResponse) -> HttpAnswer:
    """Read an answer, at most `MAX_ANSWER_BYTES` of its body."""
    body = await read_bounded(response, MAX_ANSWER_BYTES)
    return HttpAnswer(
        response.status,
        response.content_type,
        body.decode(errors="replace"),
        location=response.headers.get("Location"),
    )


async def read_bounded(response: aiohttp.ClientResponse, max_bytes: int) -> bytes:
    """Read the first `max_bytes` of a body, however long it is."""
    data = bytearray()
    async for chunk in response.content.iter_any():
        data += chunk
        if len(data) >= max_bytes:
            # What is left unread makes the connection useless; closing it also ends an endless
            # body.
            response.close()
            break
    return bytes(data[:max_bytes])


def host_and_port(url: str) -> str:
    """Return `host:port` of a URL, without a user."""
    return urlsplit(url).netloc.rpartition("@")[2]


async def listen(
    app: web.Application,
    *,
    address: str,
    port: int,
    backlog: int = 128,
    **options: Any,
) -> tuple[web.AppRunner, int]:
    """Open a port; return the runner, which the caller must clean up, and the port's number.

    `options` go to the runner. Raises OSError if the port cannot be opened.
    """
    runner = web.AppRunner(app, access_log=None, **options)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port, backlog=backlog).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner, runner.addresses[0][1]


def metric_family(
    name: str, kind: str, about: str, samples: Mapping[str, float]
) -> str:
    """Return one metric family in Prometheus text.

    The keys of `samples` follow the name of the metric: a suffix, labels or nothing.
    """
    lines = "".join(
        f"{name}{suffix} {value!r}\n" for suffix, value in samples.items()
    )
    return f"# HELP {name} {about}\n# TYPE {name} {kind}\n{lines}"


T = TypeVar("T")


class BackgroundLoop:
    """An event loop in a thread that runs coroutines for other threads; it ends with the process.

    The record server and the wait for the servers run here, because importing vLLM holds the main
    thread for half a minute, and the loop that measures must do nothing else.
    """

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(
            target=self._loop.run_forever, name="background", daemon=True
        ).start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine and wait for its result.

        Never call this from the background thread itself: it would wait for ever.
        """
        return self.start(work).result()

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine; await its result in the caller's event loop."""
        return await asyncio.wrap_future(self.start(work))
