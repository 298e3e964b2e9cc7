"""Ready is a proxy through which a request has really gone: to every server of both roles, and back.

While it is not ready the names are looked up again and again, for a pod that comes back has another address. From the proof on
addresses stay as they are and every server is asked for its health once a second; one that is not healthy takes readiness away
until there is a new proof.
"""

from __future__ import annotations

import asyncio
import json
import uuid
from http import HTTPStatus
from typing import NoReturn
from urllib.parse import urlsplit

import aiohttp

from benchrun_client.failures import error_text, shorten
from benchrun_client.http_session import NETWORK_ERRORS, answer_of
from benchrun_client.proxy import passage
from benchrun_client.proxy.roles import Role, Unreachable
from benchrun_client.proxy.steps import Steps, Whole

PROVED_EVERY_SECONDS = 1.0
TRIED_EVERY_SECONDS = 0.25
HEALTH_SECONDS = 10.0
MAX_PROBLEM_CHARACTERS = 300
PROOF_PATH = "/v1/completions"
PROOF_TOKENS = 2
PROOF_WORDS = 12
"""Words of 32 hexadecimal digits: long enough for blocks of 128 tokens, of which short prompts transfer none."""
MOST_TOKENS_A_WORD = 33


class NotProved(Exception):
    """Why no request goes through."""


class Readiness:
    """Whether requests go through, and if not, why."""

    def __init__(self, prefill: Role, decode: Role, *, session: aiohttp.ClientSession, steps: Steps) -> None:
        self._prefill, self._decode = prefill, decode
        self._session = session
        self._steps = steps
        self.problem: str | None = "no server was asked yet"
        """None: ready."""

    async def look_up(self) -> None:
        """Find the addresses of both roles.

        Raises:
            Unreachable: a name has none, or not all.
        """
        await asyncio.gather(self._prefill.look_up(), self._decode.look_up())

    async def watch(self) -> NoReturn:
        """Look for ever."""
        while True:
            try:
                await self._look()
                self.problem = None
            except (NotProved, Unreachable) as error:
                self._set_problem(shorten(str(error), MAX_PROBLEM_CHARACTERS))
            await asyncio.sleep(PROVED_EVERY_SECONDS if self.problem is None else TRIED_EVERY_SECONDS)

    def _set_problem(self, problem: str) -> None:
        if problem != self.problem:
            print(f"not ready: {problem}", flush=True)
        self.problem = problem

    async def _look(self) -> None:
        proved = self.problem is None
        if not proved:
            await self.look_up()
        await asyncio.gather(
            *(self._healthy(role, url) for role in (self._prefill, self._decode) for url in role.servers)
        )
        if not proved:
            await self._prove()
            print("ready: a request has gone through every server", flush=True)

    async def _healthy(self, role: Role, url: str) -> None:
        where = f"{role.name}: {urlsplit(url).netloc}"
        try:
            timeout = aiohttp.ClientTimeout(total=HEALTH_SECONDS)
            async with self._session.get(f"{url}/health", timeout=timeout) as response:
                status = response.status
        except NETWORK_ERRORS as error:
            raise NotProved(f"{where}: {error_text(error)}") from error
        if status != HTTPStatus.OK:
            raise NotProved(f"{where}: /health answers {status}")

    async def _prove(self) -> None:
        model, context_tokens = await self._model()
        prefills, decodes = self._prefill.servers, self._decode.servers
        for turn in range(max(len(prefills), len(decodes))):
            words = max(min(PROOF_WORDS, (context_tokens - PROOF_TOKENS) // MOST_TOKENS_A_WORD), 1)
            asked = {
                "model": model,
                "prompt": " ".join(uuid.uuid4().hex for _ in range(words)),
                "max_tokens": PROOF_TOKENS,
                "temperature": 0,
            }
            headers = {passage.REQUEST_ID: f"proof-{uuid.uuid4().hex}", "Content-Type": "application/json"}
            prefill, decode = prefills[turn % len(prefills)] + PROOF_PATH, decodes[turn % len(decodes)] + PROOF_PATH
            body = passage.prefill_body(asked)
            first = _fine("prefill", await self._steps.ask("prefill", prefill, body=body, headers=headers))
            body = passage.decode_body(json.dumps(asked).encode(), asked, passage.transfer_of(first.body))
            _fine("decode", await self._steps.ask("decode", decode, body=body, headers=headers))

    async def _model(self) -> tuple[str, int]:
        url = f"{self._decode.servers[0]}/v1/models"
        try:
            async with self._session.get(url) as response:
                told = await answer_of(response)
            card = json.loads(told.body)["data"][0]
            return str(card["id"]), int(card["max_model_len"])
        except NETWORK_ERRORS as error:
            raise NotProved(f"decode: /v1/models: {error_text(error)}") from error
        except (ValueError, LookupError, TypeError) as error:
            raise NotProved(f"decode: /v1/models names no model: HTTP {told.status}") from error


def _fine(role: str, answer: Whole) -> Whole:
    if answer.status != HTTPStatus.OK:
        words = " ".join(answer.body[:MAX_PROBLEM_CHARACTERS].decode(errors="replace").split())
        raise NotProved(f"{role}: a first request got HTTP {answer.status}: {words}")
    return answer
