"""Small HTTP requests to pods, bounded in bytes and seconds: directly, or through the API server.

A URL that is a path of the API server (`/api/v1/namespaces/NS/pods/NAME:PORT/proxy/...`) goes there; any other, an
endpoint's for example, is requested directly. It takes the right to get and create `pods/proxy`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from urllib.parse import parse_qsl

import aiohttp

from benchrun.effects.connection import Connection
from benchrun.effects.errors import ClusterError

Headers = Mapping[str, str]
CONNECTIONS_A_POD = 2
AS_IT_IS = "identity"
"""The only encoding taken: compressing costs the server that is measured time at every scrape, and unpacking knows no bound."""
MAX_ANSWER_BYTES = 64 * 1024  # largest answer read to something that was posted


class FetchError(Exception):
    """The request failed; the text says why, in few words."""

    def __init__(self, message: str, *, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status  # of an answer that was no success; None: there was none, or it is not known


class Fetcher:
    """Reads and posts. Every method raises FetchError for anything but a complete answer within the limits."""

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        answer = await self.fetch_bytes(url, limit_bytes=limit_bytes, timeout_seconds=timeout_seconds)
        return answer.decode(errors="replace")

    async def fetch_bytes(
        self, url: str, *, limit_bytes: int, timeout_seconds: float, headers: Headers | None = None
    ) -> bytes:
        return await self.exchange("GET", url, None, limit_bytes, timeout_seconds, headers or {})

    async def post(self, url: str, body: str, *, timeout_seconds: float, headers: Headers | None = None) -> None:
        sent = {"Content-Type": "application/json", **(headers or {})}
        await self.exchange("POST", url, body, MAX_ANSWER_BYTES, timeout_seconds, sent)

    async def exchange(
        self, method: str, url: str, body: str | None, limit_bytes: int, timeout_seconds: float, headers: Headers
    ) -> bytes:
        """One request and the bytes of its answer."""
        raise NotImplementedError


class HttpFetcher(Fetcher):
    """Over aiohttp. Pods are reached directly: no proxy from the environment, no redirect followed, no cookie kept.
    To be made in a running loop."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            # A connection that is kept is read whether there is a request or not, and what comes then knows no bound.
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=CONNECTIONS_A_POD, force_close=True, ssl=False),
            headers={"User-Agent": "benchrun-operator", "Accept-Encoding": AS_IT_IS},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        await self._session.close()

    async def exchange(
        self, method: str, url: str, body: str | None, limit_bytes: int, timeout_seconds: float, headers: Headers
    ) -> bytes:
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._session.request(method, url, data=body, headers=headers, allow_redirects=False) as answer,
            ):
                if not 200 <= answer.status < 300:
                    raise FetchError(f"HTTP {answer.status}", status=answer.status)
                encoding = answer.headers.get("Content-Encoding", AS_IT_IS)
                if encoding != AS_IT_IS:
                    raise FetchError(f"compressed: {encoding[:40]}")
                page = bytearray()
                async for chunk in answer.content.iter_any():
                    page += chunk
                    if len(page) > limit_bytes:
                        raise FetchError(f"more than {limit_bytes} bytes")
                return bytes(page)
        except (aiohttp.ClientError, TimeoutError, ValueError, OSError) as error:
            raise FetchError(str(error) or type(error).__name__) from error


PROXY_CONNECTIONS = 256  # a followed client holds one for as long as it has nothing new to say


class ProxyFetcher(Fetcher):
    """Through the API server."""

    def __init__(self, connection: Connection, *, direct: Fetcher) -> None:
        self._connection = connection
        self._direct = direct

    async def exchange(
        self, method: str, url: str, body: str | None, limit_bytes: int, timeout_seconds: float, headers: Headers
    ) -> bytes:
        if not url.startswith("/"):  # from the pod itself, without the operator's credentials
            return await self._direct.exchange(method, url, body, limit_bytes, timeout_seconds, headers)
        path, _, query = url.partition("?")
        try:
            page = await self._connection.request(
                method,
                path,
                body=json.loads(body) if body is not None else None,
                query=tuple(parse_qsl(query)),
                accept="*/*",
                limit_bytes=limit_bytes + 1,
                timeout_seconds=timeout_seconds,
                headers=headers,
            )
        except ClusterError as error:
            raise FetchError(f"through the API server: {error}", status=error.code) from error
        if len(page) > limit_bytes:
            raise FetchError(f"more than {limit_bytes} bytes")
        return page
