"""Requests to pods through the API server, for an operator that their addresses can't be reached from.

A URL that is a path of the API server (`/api/v1/namespaces/NS/pods/NAME:PORT/proxy/...`) goes there; any other, an
endpoint's for example, is reached directly. It takes the right to get and create `pods/proxy`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import parse_qsl

from benchrun.effects.client_link import Exchanger
from benchrun.effects.connection import Connection
from benchrun.effects.errors import ClusterError
from benchrun.effects.scraper import MAX_ANSWER_BYTES, FetchError

PROXY_CONNECTIONS = 256
"""A followed client holds one for as long as it has nothing new to say."""


class ProxyFetcher:
    """`Exchanger` over the API server."""

    def __init__(self, connection: Connection, *, direct: Exchanger) -> None:
        self._connection = connection
        self._direct = direct

    async def fetch(self, url: str, *, limit_bytes: int, timeout_seconds: float) -> str:
        """The page as text. Raises FetchError for anything but a complete answer 200 within the limits."""
        page = await self.fetch_bytes(url, limit_bytes=limit_bytes, timeout_seconds=timeout_seconds)
        return page.decode(errors="replace")

    async def fetch_bytes(
        self, url: str, *, limit_bytes: int, timeout_seconds: float, headers: Mapping[str, str] | None = None
    ) -> bytes:
        """The page as it is. Raises FetchError for anything but a complete answer 200 within the limits."""
        if url.startswith("/"):
            return await self._exchange("GET", url, None, limit_bytes, timeout_seconds, headers)
        return await self._direct.fetch_bytes(
            url, limit_bytes=limit_bytes, timeout_seconds=timeout_seconds, headers=headers
        )

    async def post(
        self, url: str, body: str, *, timeout_seconds: float, headers: Mapping[str, str] | None = None
    ) -> None:
        """Send JSON. Raises FetchError for anything but success."""
        if url.startswith("/"):
            await self._exchange("POST", url, body, MAX_ANSWER_BYTES, timeout_seconds, headers)
        else:
            await self._direct.post(url, body, timeout_seconds=timeout_seconds, headers=headers)

    async def _exchange(
        self,
        method: str,
        url: str,
        body: str | None,
        limit_bytes: int,
        timeout_seconds: float,
        headers: Mapping[str, str] | None,
    ) -> bytes:
        path, _, query = url.partition("?")
        try:
            page = await self._connection.through(
                method,
                path,
                body=json.loads(body) if body is not None else None,
                query=tuple(parse_qsl(query)),
                limit_bytes=limit_bytes + 1,
                timeout_seconds=timeout_seconds,
                headers=headers,
            )
        except ClusterError as error:
            raise FetchError(f"through the API server: {error}", status=error.code) from error
        if len(page) > limit_bytes:
            raise FetchError(f"more than {limit_bytes} bytes")
        return page
