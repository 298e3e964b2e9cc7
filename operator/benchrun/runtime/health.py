"""What the process says of itself over HTTP: /healthz, /readyz and /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from aiohttp import web

from benchrun.runtime.telemetry import Telemetry

TICK_SECONDS = 1.0
MAX_LOOP_LAG_SECONDS = 30.0
MAX_SILENCE_SECONDS = 180.0
"""How long the watches may owe us something that we know exists; Kopf renews a quiet stream after 70 s."""


class Pulse:
    """Beats once a second; how late it beats is how busy the event loop is."""

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        self._expected = 0.0

    async def beat(self) -> None:
        """Beat for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self._expected = loop.time() + TICK_SECONDS
            await asyncio.sleep(TICK_SECONDS)
            self._telemetry.loop_lag_seconds.set(max(0.0, loop.time() - self._expected))

    def lag_seconds(self) -> float:
        """How late the next beat is by now."""
        return max(0.0, asyncio.get_running_loop().time() - self._expected)


@dataclass(eq=False)
class Health:
    """Answers probes and Prometheus."""

    telemetry: Telemetry
    _: KW_ONLY
    problems: Callable[[], list[str]]
    ready: Callable[[], bool]
    remarks: Callable[[], list[str]] = list
    port: int = field(default=0, init=False)
    """It listens on."""
    _runner: web.AppRunner | None = field(default=None, init=False)

    async def start(self, host: str, port: int) -> None:
        """Listen; port 0 takes any free one."""
        app = web.Application()
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _healthz(self, _: web.Request) -> web.Response:
        problems = self.problems()
        return web.Response(status=503 if problems else 200, text="\n".join(problems or ["ok"]) + "\n")

    async def _readyz(self, _: web.Request) -> web.Response:
        ready = self.ready()
        lines = ["ready" if ready else "reading the cluster", *self.remarks()]
        return web.Response(status=200 if ready else 503, text="\n".join(lines) + "\n")

    async def _metrics(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self.telemetry.page(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
        )
