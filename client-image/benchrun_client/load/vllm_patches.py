"""Replacements for parts of vLLM's benchmark that trust the server and the environment too much."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from benchrun_client.access import Access
from benchrun_client.load.streaming_session import STREAM_NOTES, StreamingSession
from benchrun_client.server.counter_snapshots import read_metrics

CONNECTS: ContextVar[list[float] | None] = ContextVar("CONNECTS", default=None)
"""List to which the task of a request adds how long its new connection took, in seconds. vLLM makes
a task for each request."""


async def always_ready(*_: Any, **__: Any) -> SimpleNamespace:
    """Report success in place of vLLM's readiness check.

    The canary (`server.first_request`) has already shown that requests are answered.
    """
    return SimpleNamespace(success=True, error="")


class SharedMetrics:
    """One metrics text for all of vLLM's functions that read metrics.

    They use it as a session, which answers every GET with that text, or with 503.
    """

    _text: str | None = None

    def bounded(
        self, reader: Callable[..., Awaitable[Any]], *, first: bool
    ) -> Callable[..., Awaitable[Any]]:
        """Return the reader with a session whose metrics text is bounded in size and time.

        The text is read when the `first` reader is called; the other readers share it.
        """

        async def read(base_url: str, session: Any) -> Any:
            if first:
                self._text = await read_metrics(session, f"{base_url}/metrics")
            return await reader(base_url, self)

        return read

    @asynccontextmanager
    async def get(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        yield self

    @property
    def status(self) -> int:
        return 503 if self._text is None else 200

    async def text(self) -> str:
        return self._text or ""


class PatchedAiohttp:
    """A replacement for the aiohttp module in vLLM's benchmark.

    Its sessions use the client's certificates and proxies, send what the endpoint asks for, and are
    all closed at the end.
    """

    def __init__(self, module: Any, *, access: Access, trust_env: bool) -> None:
        self._module = module
        self._access = access
        self._trust_env = trust_env
        self._opened: list[Any] = []
        self._ssl: Any = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    # By the name it stands in for.
    def ClientSession(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        traces = [
            *kwargs.get("trace_configs", ()),
            _noting_connects(self._module.TraceConfig()),
        ]
        options = {
            **kwargs,
            "trust_env": self._trust_env,
            "trace_configs": traces,
            "request_class": self._access.request_class(),
        }
        session = StreamingSession(
            self._module.ClientSession(*args, **options),
            open_another=lambda: self._unshared(options),
        )
        self._opened.append(session)
        return session

    def _unshared(self, options: dict[str, Any]) -> Any:
        """Open a session that makes a new connection for each request."""
        connector = self._module.TCPConnector(
            ssl=self._ssl, limit=0, force_close=True
        )
        return self._module.ClientSession(**{**options, "connector": connector})

    def TCPConnector(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
        if self._access.tls is not None and kwargs.get("ssl") is True:
            kwargs["ssl"] = self._access.tls
        self._ssl = kwargs.get("ssl", True)
        return self._module.TCPConnector(*args, **kwargs)

    async def close(self) -> None:
        """Close every session opened since the last call; closing twice is harmless."""
        while self._opened:
            await self._opened.pop().close()


def _noting_connects(trace: Any) -> Any:
    """Add hooks to an aiohttp.TraceConfig and return it.

    The hooks note in `CONNECTS` how long new connections took, and in `STREAM_NOTES` whether a
    connection is used again.
    """

    async def begin(_: Any, context: SimpleNamespace, __: Any) -> None:
        context.began = time.perf_counter()

    async def end(_: Any, context: SimpleNamespace, __: Any) -> None:
        if (connects := CONNECTS.get()) is not None:
            connects.append(time.perf_counter() - context.began)

    async def reuse(*_: Any) -> None:
        if (notes := STREAM_NOTES.get()) is not None:
            notes.is_reused = True

    trace.on_connection_reuseconn.append(reuse)
    trace.on_connection_create_start.append(begin)
    trace.on_connection_create_end.append(end)
    return trace
