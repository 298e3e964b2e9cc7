"""What takes the place of parts of vLLM's benchmark, which trusts every server and every environment."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

from benchrun_client.snapshot import read_page


async def always_ready(*_: Any, **__: Any) -> SimpleNamespace:
    """In place of vLLM's readiness check: the canary has proved the path, with a prompt of its own."""
    return SimpleNamespace(success=True, error="")


PageReader = Callable[[Any, str], Awaitable[str | None]]


def reading_bounded(
    reader: Callable[..., Awaitable[Any]], read: PageReader = read_page
) -> Callable[..., Awaitable[Any]]:
    """vLLM's reader of a metrics page, given one that was read within our bounds of size and time.

    Its own reading would wait six hours for an endless page, and end the run on one that is not UTF-8.
    """

    async def bounded(base_url: str, session: Any) -> Any:
        return await reader(base_url, _OnePage(await read(session, f"{base_url}/metrics")))

    return bounded


class SharedPage:
    """One page for all of vLLM's readers, which it calls one right after the other while the server idles."""

    def __init__(self) -> None:
        self._page: str | None = None

    async def read(self, session: Any, url: str) -> str | None:
        """For the first reader."""
        self._page = await read_page(session, url)
        return self._page

    async def again(self, session: Any, url: str) -> str | None:
        """For those after it."""
        return self._page


class _OnePage:
    """A session that answers every GET with one page; with 503 where there is none."""

    def __init__(self, page: str | None) -> None:
        self._page = page

    @asynccontextmanager
    async def get(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield self

    @property
    def status(self) -> int:
        return 503 if self._page is None else 200

    async def text(self) -> str:
        return self._page or ""


class Sessions:
    """Stands in for the aiohttp module inside vLLM's benchmark, which asks for proxy look-ups and the system's certificates.

    It also closes what vLLM leaves open when a load is cut short.
    """

    def __init__(self, module: Any, *, tls: ssl.SSLContext | None, trust_env: bool) -> None:
        self._module = module
        self._tls = tls
        self._trust_env = trust_env
        self._opened: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def ClientSession(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802 (the name it stands in for)
        session = self._module.ClientSession(*args, **{**kwargs, "trust_env": self._trust_env})
        self._opened.append(session)
        return session

    def TCPConnector(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        if self._tls is not None and kwargs.get("ssl") is True:
            kwargs["ssl"] = self._tls
        return self._module.TCPConnector(*args, **kwargs)

    async def close(self) -> None:
        """Close every session opened since the last call; closing twice is harmless."""
        while self._opened:
            await self._opened.pop().close()
