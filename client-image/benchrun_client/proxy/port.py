"""What the proxy answers.

POST /v1/completions, /v1/chat/completions               through both roles
GET  /v1/models, /version; POST /tokenize, /detokenize   by a decode server
POST /reset_prefix_cache                                 done by every server of both roles
GET  /health, /metrics                                   the proxy's own
"""

from __future__ import annotations

from http import HTTPStatus

from aiohttp import web

from benchrun_client.proxy.aside import Aside
from benchrun_client.proxy.figures import Figures
from benchrun_client.proxy.passage import Passages
from benchrun_client.proxy.places import Places
from benchrun_client.proxy.readiness import Readiness

MAX_BODY_BYTES = 64 * 1024 * 1024
PAGE_TYPE = "text/plain; version=0.0.4; charset=utf-8"


def application(
    *,
    passages: Passages,
    readiness: Readiness,
    places: Places,
    figures: Figures,
    aside: Aside,
) -> web.Application:
    """All routes."""

    async def health(_: web.Request) -> web.Response:
        if readiness.problem is None:
            return web.Response()
        return web.Response(status=HTTPStatus.SERVICE_UNAVAILABLE, text=f"{readiness.problem}\n")

    async def metrics(_: web.Request) -> web.Response:
        page = figures.exposition(in_flight=places.in_flight, queued=places.queued)
        return web.Response(body=page.encode(), headers={"Content-Type": PAGE_TYPE})

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.add_routes(
        [
            web.post("/v1/completions", passages.serve),
            web.post("/v1/chat/completions", passages.serve),
            web.get("/v1/models", aside.by_decode),
            web.get("/version", aside.by_decode),
            web.post("/tokenize", aside.by_decode),
            web.post("/detokenize", aside.by_decode),
            web.post("/reset_prefix_cache", aside.by_all),
            web.get("/health", health),
            web.get("/metrics", metrics),
        ]
    )
    return app
