"""Small HTTP requests to pods, bounded in bytes and seconds."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Protocol

import aiohttp

CONNECTIONS_A_POD = 2
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
    """`Fetcher` over aiohttp. Pods are reached directly: no proxy from the environment, no redirect followed, no cookie kept.
    To be made in a running loop."""

    def __init__(self) -> None:
        self._session = aiohttp.ClientSession(
            # A connection that is kept is read whether something was asked or not, and what comes then knows no bound.
            connector=aiohttp.TCPConnector(limit=0, limit_per_host=CONNECTIONS_A_POD, force_close=True, ssl=False),
            headers={"User-Agent": "benchrun-operator", "Accept-Encoding": AS_IT_IS},
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(),
            auto_decompress=False,
            trust_env=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

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
