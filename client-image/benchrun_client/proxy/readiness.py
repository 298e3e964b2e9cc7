"""The proxy's readiness: a test request has gone through every server of both roles, and back.

Until then names are resolved repeatedly, because a pod that is created anew has another address.
After that the addresses stay. If a server becomes unhealthy, the proxy is not ready until another
test request has gone through.
"""

import asyncio
import json
import uuid
from http import HTTPStatus
from typing import NoReturn
from urllib.parse import urlsplit

import aiohttp

from benchrun_client.failures import error_text, shorten
from benchrun_client.http_session import NETWORK_ERRORS, answer_of
from benchrun_client.proxy import forwarding
from benchrun_client.proxy.upstream import (
    RoleName,
    Unreachable,
    UpstreamRole,
    WholeAnswer,
    post,
)

PROVED_EVERY_SECONDS = 1.0
TRIED_EVERY_SECONDS = 0.25
HEALTH_SECONDS = 10.0
MAX_PROBLEM_CHARACTERS = 300
PROOF_PATH = "/v1/completions"
PROOF_TOKENS = 2
PROOF_WORDS = 12
"""Number of words, of 32 hexadecimal digits each, in the test request. It fills blocks of 128
tokens; a prompt that is shorter than a block transfers nothing."""
MOST_TOKENS_A_WORD = 33


class Readiness:
    """Checks whether requests go through, and if not, why."""

    def __init__(
        self,
        prefill: UpstreamRole,
        decode: UpstreamRole,
        *,
        session: aiohttp.ClientSession,
    ) -> None:
        self._prefill = prefill
        self._decode = decode
        self._session = session
        self.problem: str | None = (
            "no server has been checked yet"  # None if ready.
        )

    async def look_up(self) -> None:
        """Find the addresses of both roles; raise Unreachable if a name has too few addresses."""
        await asyncio.gather(self._prefill.look_up(), self._decode.look_up())

    async def watch(self) -> NoReturn:
        while True:
            try:
                await self._check()
                self.problem = None
            except Unreachable as error:
                problem = shorten(str(error), MAX_PROBLEM_CHARACTERS)
                if problem != self.problem:
                    print(f"not ready: {problem}", flush=True)
                self.problem = problem
            await asyncio.sleep(
                PROVED_EVERY_SECONDS
                if self.problem is None
                else TRIED_EVERY_SECONDS
            )

    async def _check(self) -> None:
        proved = self.problem is None
        if not proved:
            await self.look_up()
        await asyncio.gather(
            *(
                self._check_health(role.name, url)
                for role in (self._prefill, self._decode)
                for url in role.servers
            )
        )
        if not proved:
            await self._prove()
            print("ready: a request has gone through every server", flush=True)

    async def _check_health(self, role: RoleName, url: str) -> None:
        host = urlsplit(url).netloc
        try:
            timeout = aiohttp.ClientTimeout(total=HEALTH_SECONDS)
            async with self._session.get(
                f"{url}/health", timeout=timeout
            ) as response:
                status = response.status
        except NETWORK_ERRORS as error:
            raise Unreachable(role, f"{host}: {error_text(error)}") from error
        if status != HTTPStatus.OK:
            raise Unreachable(role, f"{host}: /health answers {status}")

    async def _prove(self) -> None:
        model, context_tokens = await self._model()
        words = max(
            min(PROOF_WORDS, (context_tokens - PROOF_TOKENS) // MOST_TOKENS_A_WORD),
            1,
        )
        prefills = self._prefill.servers
        decodes = self._decode.servers
        for turn in range(max(len(prefills), len(decodes))):
            fields = {
                "model": model,
                "prompt": " ".join(uuid.uuid4().hex for _ in range(words)),
                "max_tokens": PROOF_TOKENS,
                "temperature": 0,
            }
            headers = {
                forwarding.REQUEST_ID: f"proof-{uuid.uuid4().hex}",
                "Content-Type": "application/json",
            }
            body = forwarding.prefill_body(fields)
            first = await self._post_proof(
                "prefill", prefills[turn % len(prefills)], body, headers
            )
            body = forwarding.decode_body(
                json.dumps(fields).encode(), fields, first.body
            )
            await self._post_proof(
                "decode", decodes[turn % len(decodes)], body, headers
            )

    async def _post_proof(
        self, role: RoleName, url: str, body: bytes, headers: dict[str, str]
    ) -> WholeAnswer:
        answer = await post(
            self._session, role, url + PROOF_PATH, body=body, headers=headers
        )
        if answer.status != HTTPStatus.OK:
            text = " ".join(
                answer.body[:MAX_PROBLEM_CHARACTERS]
                .decode(errors="replace")
                .split()
            )
            raise Unreachable(
                role, f"a first request got HTTP {answer.status}: {text}"
            )
        return answer

    async def _model(self) -> tuple[str, int]:
        try:
            async with self._session.get(
                f"{self._decode.servers[0]}/v1/models"
            ) as response:
                answer = await answer_of(response)
            card = json.loads(answer.body)["data"][0]
            return str(card["id"]), int(card["max_model_len"])
        except NETWORK_ERRORS as error:
            raise Unreachable(
                "decode", f"/v1/models: {error_text(error)}"
            ) from error
        except (
            ValueError,
            LookupError,
            TypeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise Unreachable(
                "decode", f"/v1/models names no model: HTTP {answer.status}"
            ) from error
