"""A small web server of a test's own making, on a free port."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def serving(**handlers: Handler) -> AsyncIterator[str]:
    """Serve handlers by path, `v1_models` for /v1/models; yields the base URL. Any method will do."""
    app = web.Application()
    for name, handler in handlers.items():
        app.router.add_route("*", "/" + name.replace("__", "-").replace("_", "/"), handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def answering(status: int, *, text: str = "", content_type: str = "text/plain") -> Handler:
    """A handler that always says the same."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, content_type=content_type)

    return answer
