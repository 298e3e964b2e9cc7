"""Small GET requests to pods, bounded in bytes and seconds."""

from __future__ import annotations

import asyncio
from typing import Protocol

import httpx

MAX_CONNECTIONS = 512
KEEP_ALIVE_SECONDS = 30.0


class FetchError(Exception):
    """The page could not be read; the text says why, in few words."""


class Fetcher(Protocol):
    """Reads pages."""

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        """The page as text. Raises FetchError for anything but a complete answer 200 within the limits."""
        ...


class HttpFetcher:
    """`Fetcher` over httpx. Pods are reached directly: no proxy from the environment, no redirect followed."""

    def __init__(self, *, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._client = httpx.AsyncClient(
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_SECONDS),
            headers={"User-Agent": "benchrun-operator"},
            timeout=None,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.aclose()

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        """The page as text. Raises FetchError for anything but a complete answer 200 within the limits."""
        return (await self._exchange("GET", url, None, limit_bytes, timeout_seconds)).decode(errors="replace")

    async def post(self, url: str, body: str, *, timeout_seconds: float) -> None:
        """Send JSON. Raises FetchError for anything but success."""
        await self._exchange("POST", url, body, 64 * 1024, timeout_seconds)

    async def _exchange(
        self, method: str, url: str, body: str | None, limit_bytes: int, timeout_seconds: float
    ) -> bytes:
        headers = {"Content-Type": "application/json"} if body is not None else None
        try:
            async with (
                asyncio.timeout(timeout_seconds),
                self._client.stream(method, url, content=body, headers=headers) as answer,
            ):
                if not answer.is_success:
                    raise FetchError(f"HTTP {answer.status_code}")
                page = bytearray()
                async for chunk in answer.aiter_bytes():
                    page += chunk
                    if len(page) > limit_bytes:
                        raise FetchError(f"more than {limit_bytes} bytes")
                return bytes(page)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
            raise FetchError(str(error) or type(error).__name__) from error
