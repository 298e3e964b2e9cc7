"""A server of pages that records the requests it gets."""

from aiohttp import web
from aiohttp.test_utils import TestServer


class Pages:
    """A server that records the requests it gets."""

    def __init__(self) -> None:
        self.requests: list[web.Request] = []
        self.headers: dict[str, str] = {}
        self.status = 200
        self.body = b"up 1\n"
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        return web.Response(
            status=self.status, body=self.body, headers=self.headers
        )

    async def start(self) -> TestServer:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.answer)
        server = TestServer(app)
        await server.start_server()
        self.url = str(server.make_url("/metrics"))
        return server
