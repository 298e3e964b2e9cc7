"""What takes the place of parts of vLLM's benchmark, which trusts every server and every
environment."""

import asyncio
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from types import SimpleNamespace
from typing import Any

from benchrun_client.server.counter_snapshots import read_metrics

CONNECTS: ContextVar[list[float] | None] = ContextVar("CONNECTS", default=None)
"""Where the task of a request, which vLLM makes for each, notes how long its new connection took,
in seconds."""
USER_GAP_SECONDS = 0.002  # Several times what it takes to send a request over a new connection.
ALL_USERS_SECONDS = 0.5  # In which all of them have begun, however many they are.
HANDING_OUT_SECONDS = 0.000_02
"""What vLLM takes to hand out a request, at most, where the first user can't wait to see it done:
its instant is agreed."""


async def always_ready(*_: Any, **__: Any) -> SimpleNamespace:
    """In place of vLLM's readiness check: the canary has proved the path, with a prompt of its
    own."""
    return SimpleNamespace(success=True, error="")


class SharedMetrics:
    """One metrics text for all of vLLM's readers: to them a session that answers every GET with it,
    or with 503."""

    _text: str | None = None

    def bounded(
        self, reader: Callable[..., Awaitable[Any]], *, first: bool
    ) -> Callable[..., Awaitable[Any]]:
        """A reader, given a text that was read within our bounds of size and time when the `first`
        reader was called."""

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


class Sessions:
    """In place of the aiohttp module in vLLM's benchmark: our certificates and proxies, and no
    session is left open."""

    def __init__(self, module: Any, *, tls: ssl.SSLContext | None, trust_env: bool) -> None:
        self._module, self._tls, self._trust_env = module, tls, trust_env
        self._opened: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def ClientSession(self, *args: Any, **kwargs: Any) -> Any:  # noqa: N802 (the name it stands in for)
        traces = [*kwargs.get("trace_configs", ()), _noting_connects(self._module.TraceConfig())]
        session = self._module.ClientSession(
            *args, **{**kwargs, "trust_env": self._trust_env, "trace_configs": traces}
        )
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


def _noting_connects(trace: Any) -> Any:
    """An aiohttp.TraceConfig that notes in `CONNECTS`. A connection that is used again calls
    neither function."""

    async def begin(_: Any, context: SimpleNamespace, __: Any) -> None:
        context.began = time.perf_counter()

    async def end(_: Any, context: SimpleNamespace, __: Any) -> None:
        if (connects := CONNECTS.get()) is not None:
            connects.append(time.perf_counter() - context.began)

    trace.on_connection_create_start.append(begin)
    trace.on_connection_create_end.append(end)
    return trace


class UserRamp:
    """Users of a closed loop begin one by one, a moment apart; without users each request goes when
    it comes. `own`: which of the users are ours, where others send the rest; None: all.

    vLLM hands out all requests at once: one event loop takes the first step of each (and the clock
    starts), then the second. So every user's clock runs while all of them are being sent: 10 to 30
    ms for 24 to 48 users, often the p99 of TTFT."""

    def __init__(
        self,
        users: int,
        *,
        own: Sequence[int] | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._own, self._clock = range(users) if own is None else own, clock
        self._gap = min(USER_GAP_SECONDS, ALL_USERS_SECONDS / max(1, users))
        self._begun = 0
        self._first: float | None = None
        self._order = asyncio.Lock()

    def agree(self, start: float, *, requests: int) -> None:
        """The load of so many requests, in all shards, begins at an instant that all know."""
        self._first = start + requests * HANDING_OUT_SECONDS

    async def turn(self) -> float | None:
        """Wait for this request's turn, in the order of calls. When it was due, by the clock, if it
        is a user's first."""
        async with self._order:
            if self._begun == len(self._own):
                return None
            if self._first is None:
                await asyncio.sleep(0)  # by then every other request has been handed out
                self._first = self._clock()
            due = self._first + self._own[self._begun] * self._gap
            self._begun += 1
            if (wait := due - self._clock()) > 0:
                await asyncio.sleep(wait)
            return due
