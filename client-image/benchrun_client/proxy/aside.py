"""Requests that are no completions: what a decode server answers for all, and what every server has to do."""

from __future__ import annotations

from http import HTTPStatus

import aiohttp
from aiohttp import web

from benchrun_client.cache_reset import reset_caches
from benchrun_client.proxy.relaying import Broken, complaint, passed_on, relay
from benchrun_client.proxy.roles import Role, Unreachable
from benchrun_client.proxy.steps import Steps


class Aside:
    """Requests that are no completions."""

    def __init__(self, prefill: Role, decode: Role, *, steps: Steps, own_session: aiohttp.ClientSession) -> None:
        self._prefill, self._decode = prefill, decode
        self._steps = steps
        self._own_session = own_session

    async def by_decode(self, request: web.Request) -> web.StreamResponse:
        """Have the first decode server answer. Completions take turns without regard to this."""
        if not self._decode.servers:
            return complaint(HTTPStatus.BAD_GATEWAY, "decode: no address yet")
        url = self._decode.servers[0] + request.path_qs
        body, headers = await request.read(), passed_on(request.headers)
        try:
            async with self._steps.open("decode", url, body=body, headers=headers, method=request.method) as (
                response,
                _,
            ):
                return await relay(request, response)
        except Broken as broken:
            return broken.response
        except Unreachable as error:
            return complaint(HTTPStatus.BAD_GATEWAY, str(error))

    async def by_all(self, _: web.Request) -> web.Response:
        """Empty every server's prefix cache; a success only if all say that they did."""
        servers = (*self._prefill.servers, *self._decode.servers)
        if not self._prefill.servers or not self._decode.servers:
            return complaint(HTTPStatus.BAD_GATEWAY, "not every role has an address yet")
        reset = await reset_caches(self._own_session, servers)
        return web.json_response({"success": reset.succeeded, "answer": reset.answer})
