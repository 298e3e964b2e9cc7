"""Small HTTP requests to pods, bounded in bytes and seconds.

One httpx client a pod: a client shared by a hundred pods looks through all its connections at every request, which takes
most of a core.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Protocol

import httpx

CONNECTIONS_A_POD = 2
KEEP_ALIVE_SECONDS = 30.0
MAX_PODS = 1024
"""Pods that clients are kept for; beyond it, whoever was asked longest ago is let go."""
AS_IT_IS = "identity"
"""The only encoding taken: compressing costs the server that is measured time at every reading, and unpacking knows no bound."""
MAX_ANSWER_BYTES = 64 * 1024
"""Largest answer read to something that was posted."""


class FetchError(Exception):
    """The page could not be read; the text says why, in few words."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status
        """Of an answer that was no success; None: there was none, or it is not known."""


class Fetcher(Protocol):
    """Reads pages."""

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        """The page as text. Raises FetchError for anything but a complete answer 200 within the limits."""
        ...


class HttpFetcher:
    """`Fetcher` over httpx. Pods are reached directly: no proxy from the environment, no redirect followed, no cookie kept."""

    def __init__(self) -> None:
        self._clients: OrderedDict[str, httpx.AsyncClient] = OrderedDict()
        # Pods speak plain HTTP; httpx wants a TLS context all the same, and one for each client is 13 kB a pod.
        self._unused_tls = httpx.create_ssl_context(verify=False)

    async def close(self) -> None:
        """Close all connections."""
        while self._clients:
            _, client = self._clients.popitem()
            await client.aclose()

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        """The page as text. Raises FetchError for anything but a complete answer 200 within the limits."""
        page = await self.fetch_bytes(url, limit_bytes=limit_bytes, timeout_seconds=timeout_seconds)
        return page.decode(errors="replace")

    async def fetch_bytes(
        self, url: str, *, limit_bytes: int, timeout_seconds: float, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """The page as it is. Raises FetchError for anything but a complete answer 200 within the limits."""
        return await self._exchange("GET", url, None, limit_bytes, timeout_seconds, headers or {})

    async def post(
        self, url: str, body: str, *, timeout_seconds: float, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send JSON. Raises FetchError for anything but success."""
        told = {"Content-Type": "application/json", **(headers or {})}
        await self._exchange("POST", url, body, MAX_ANSWER_BYTES, timeout_seconds, told)

    async def _exchange(
        self,
        method: str,
        url: str,
        body: str | None,
        limit_bytes: int,
        timeout_seconds: float,
        headers: Mapping[str, str],
    ) -> bytes:
        try:
            client = await self._client(httpx.URL(url))
            async with (
                asyncio.timeout(timeout_seconds),
                client.stream(method, url, content=body, headers=headers) as answer,
            ):
                if not answer.is_success:
                    raise FetchError(f"HTTP {answer.status_code}", status=answer.status_code)
                encoding = answer.headers.get("Content-Encoding", AS_IT_IS)
                if encoding != AS_IT_IS:
                    raise FetchError(f"compressed: {encoding[:40]}")
                page = bytearray()
                async for chunk in answer.aiter_raw():
                    page += chunk
                    if len(page) > limit_bytes:
                        raise FetchError(f"more than {limit_bytes} bytes")
                return bytes(page)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError, OSError) as error:
            raise FetchError(str(error) or type(error).__name__) from error

    async def _client(self, url: httpx.URL) -> httpx.AsyncClient:
        origin = f"{url.scheme}://{url.netloc.decode()}"
        client = self._clients.pop(origin, None) or httpx.AsyncClient(
            verify=self._unused_tls,
            trust_env=False,
            timeout=None,
            limits=httpx.Limits(max_connections=CONNECTIONS_A_POD, keepalive_expiry=KEEP_ALIVE_SECONDS),
            headers={"User-Agent": "benchrun-operator", "Accept-Encoding": AS_IT_IS},
            cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        )
        self._clients[origin] = client
        if len(self._clients) > MAX_PODS:
            _, oldest = self._clients.popitem(last=False)
            await oldest.aclose()
        return client
