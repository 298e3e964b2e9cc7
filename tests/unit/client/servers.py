"""A small web server with a test's own handlers, on a free port."""

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def serving(**handlers: Handler) -> AbstractAsyncContextManager[str]:
    """Serve handlers by path, `v1_models` for /v1/models, for any method; yield the base URL."""
    return _serving(_paths(handlers), tls=None)


def serving_at(path: str, handler: Handler) -> AbstractAsyncContextManager[str]:
    """Serve one handler at a path that has underscores of its own."""
    return serving_paths({path: handler})


def serving_paths(handlers: dict[str, Handler]) -> AbstractAsyncContextManager[str]:
    """Serve handlers by paths that have underscores of their own."""
    return _serving(handlers, tls=None)


def serving_tls(
    context: ssl.SSLContext, **handlers: Handler
) -> AbstractAsyncContextManager[str]:
    """Serve handlers by path behind TLS, as localhost."""
    return _serving(_paths(handlers), tls=context)


def _paths(handlers: dict[str, Handler]) -> dict[str, Handler]:
    return {
        "/" + name.replace("_", "/"): handler for name, handler in handlers.items()
    }


@asynccontextmanager
async def _serving(
    handlers: dict[str, Handler], *, tls: ssl.SSLContext | None
) -> AsyncIterator[str]:
    app = web.Application()
    for path, handler in handlers.items():
        app.router.add_route("*", path, handler)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        port = runner.addresses[0][1]
        yield f"https://localhost:{port}" if tls else f"http://127.0.0.1:{port}"
    finally:
        await runner.cleanup()


def answering(
    status: int, *, text: str = "", content_type: str = "text/plain"
) -> Handler:
    """Build a handler that always gives the same answer."""

    async def answer(_: web.Request) -> web.Response:
        return web.Response(status=status, text=text, content_type=content_type)

    return answer
