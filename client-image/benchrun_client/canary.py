"""One small request that proves the path before anything is measured, and emptying the prefix cache before a stage.

A server can be healthy and still answer no request: wrong model name, missing key, a gateway's web page, an engine that dies on
its first forward pass. Told here, in the server's own words, it costs one request and not a run of failures.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from benchrun_client.contract import CacheReset
from benchrun_client.failures import RunFailure, first_line, shorten
from benchrun_client.http_session import Answer, answer_of
from benchrun_client.tokenizer import Api

CANARY_TOKENS = 2
MAX_WORDS_OF_SERVER = 500
PATHS: dict[Api, str] = {"Completions": "/v1/completions", "Chat": "/v1/chat/completions"}


@dataclass(frozen=True, slots=True)
class ServedModels:
    """What /v1/models says; empty when it says nothing."""

    names: tuple[str, ...] = ()
    context_tokens: dict[str, int] | None = None

    def context_of(self, model: str) -> int | None:
        return (self.context_tokens or {}).get(model)


async def served_models(session: aiohttp.ClientSession, url: str) -> ServedModels:
    """Ask which models are served. Any trouble gives an empty answer: the canary tells it better."""
    try:
        async with session.get(f"{url}/v1/models") as response:
            answer = await answer_of(response)
        models = [m for m in json.loads(answer.body)["data"] if isinstance(m["id"], str)]
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, TypeError, RecursionError):
        return ServedModels()
    lengths = {m["id"]: m["max_model_len"] for m in models if isinstance(m.get("max_model_len"), int)}
    return ServedModels(tuple(m["id"] for m in models), lengths)


async def ask(
    session: aiohttp.ClientSession,
    url: str,
    *,
    api: Api,
    model: str,
    prompt: str,
    output_tokens: int,
) -> Answer:
    """One plain request, not streamed."""
    body: dict[str, Any] = {"model": model, "max_tokens": output_tokens}
    if api == "Chat":
        body["messages"] = [{"role": "user", "content": prompt}]
    else:
        body["prompt"] = prompt
    async with session.post(url + PATHS[api], json=body) as response:
        return await answer_of(response)


async def send_canary(
    session: aiohttp.ClientSession,
    url: str,
    *,
    api: Api,
    model: str,
    run_uid: str,
    served: Sequence[str],
) -> None:
    """Prove that a completion works.

    Raises:
        RunFailure: with the reason that `trouble_with` finds.
    """
    prompt = f"[{run_uid}] canary: say anything."
    try:
        answer = await ask(session, url, api=api, model=model, prompt=prompt, output_tokens=CANARY_TOKENS)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise RunFailure(
            "CanaryFailed", f"{url}{PATHS[api]}: {first_line(error) or type(error).__name__} on the first request"
        ) from error
    if failure := trouble_with(answer, where=url + PATHS[api], model=model, served=served):
        raise failure


def trouble_with(answer: Answer, *, where: str, model: str, served: Sequence[str]) -> RunFailure | None:
    """What is wrong with the canary's answer; None when it holds a completion."""
    words = words_of(answer)
    if answer.status in (401, 403) and not answer.is_html:
        return RunFailure(
            "Unauthorized", f"{where} answered {answer.status}: {words}. Give the key as endpoint.apiKeySecretRef."
        )
    if answer.is_html:
        return RunFailure(
            "EndpointNotFound",
            f"{where} answered {answer.status} with an HTML page{_title(answer.body)}: no server of this API is there",
        )
    if answer.status == 404 and "model" in words.lower():
        listed = ", ".join(served[:20]) or "nothing that /v1/models would list"
        return RunFailure("ModelNotServed", f"{where}: {words} It serves: {listed}. Asked for: {model}.")
    if answer.status == 404:
        return RunFailure("EndpointNotFound", f"{where} answered 404: {words}. No server of this API is there.")
    if answer.status != 200:
        return RunFailure("CanaryFailed", f"{where} answered {answer.status}: {words}")
    return _trouble_with_completion(answer, where=where)


def _trouble_with_completion(answer: Answer, *, where: str) -> RunFailure | None:
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        kind = answer.content_type or "no content type"
        return RunFailure("EndpointNotFound", f"{where} answered 200 with {kind}, not with a JSON object")
    usage = body.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if isinstance(tokens, int) and tokens >= 1:
        return None
    return RunFailure("CanaryFailed", f"{where} answered 200 but counts no completion token: {words_of(answer)}")


def words_of(answer: Answer) -> str:
    """The server's own words: its error message where there is one, else the start of the body; never HTML."""
    if answer.is_html:
        return f"an HTML page{_title(answer.body)}"
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        body = answer.body
    words = _message_in(body)
    return shorten(" ".join(words.split()), MAX_WORDS_OF_SERVER) or "(empty body)"


def _message_in(body: object) -> str:
    """vLLM says error.message (object, message in older versions), FastAPI says detail."""
    if isinstance(body, dict):
        for key in ("error", "message", "detail"):
            if body.get(key):
                return _message_in(body[key])
    return body if isinstance(body, str) else json.dumps(body)


def _title(page: str) -> str:
    found = re.search(r"<title[^>]*>([^<]{1,200})", page, re.IGNORECASE)
    return f' ("{shorten(" ".join(found[1].split()), 100)}")' if found else ""


# ---- cache reset ------------------------------------------------------------------------------------------------------
# Emptying the servers' prefix caches before a stage, under the policy Reset.
#
# vLLM refuses while any block is held, and says so only in the body of an answer with status 200. Versions before 0.26 say
# nothing at all; whether those did it the hit ratio of the stage tells.

PATH = "/reset_prefix_cache?reset_external=true"
"""External tiers keep their blocks unless asked; without such a tier the flag changes nothing."""
RESET_SECONDS = 2.0
RETRY_SECONDS = 0.05
MAX_ANSWER_CHARACTERS = 300
HOPELESS = frozenset({401, 403, 404, 405})
"""Answers that another attempt would not change."""


@dataclass(frozen=True, slots=True)
class _Trial:
    url: str
    succeeded: bool
    hopeless: bool
    answer: str


async def reset_caches(session: aiohttp.ClientSession, urls: Sequence[str]) -> CacheReset:
    """Have every server empty its prefix cache; tried again, for at most `RESET_SECONDS`, on those that did not."""
    end = time.monotonic() + RESET_SECONDS
    left, attempts = list(urls), 0
    while True:
        attempts += 1
        trials = await asyncio.gather(*(_try(session, url) for url in left))
        failed = [trial for trial in trials if not trial.succeeded]
        if not failed:
            return CacheReset(succeeded=True, attempts=attempts, answer=trials[-1].answer)
        hopeless = [trial for trial in failed if trial.hopeless]
        if hopeless or time.monotonic() + RETRY_SECONDS > end:
            worst = (hopeless or failed)[0]
            answer = f"{urlsplit(worst.url).netloc.rpartition('@')[2]}: {worst.answer}"
            return CacheReset(succeeded=False, attempts=attempts, answer=shorten(answer, MAX_ANSWER_CHARACTERS))
        left = [trial.url for trial in failed]
        await asyncio.sleep(RETRY_SECONDS)


async def _try(session: aiohttp.ClientSession, url: str) -> _Trial:
    try:
        async with session.post(url + PATH, timeout=aiohttp.ClientTimeout(total=RESET_SECONDS)) as response:
            answer = await answer_of(response)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        return _Trial(url, succeeded=False, hopeless=False, answer=first_line(error) or type(error).__name__)
    return _Trial(url, succeeded=_says_done(answer), hopeless=answer.status in HOPELESS, answer=_words(answer))


def _says_done(answer: Answer) -> bool:
    if answer.status != 200:
        return False
    if not answer.body.strip():
        # vLLM before 0.26.
        return True
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(body, dict) and body.get("success") is True


def _words(answer: Answer) -> str:
    if answer.status == 200:
        return shorten(answer.body.strip(), MAX_ANSWER_CHARACTERS)
    if answer.status == 404:
        return "HTTP 404: there is no /reset_prefix_cache; the server needs VLLM_SERVER_DEV_MODE=1"
    return shorten(f"HTTP {answer.status}: {' '.join(answer.body.split())}", MAX_ANSWER_CHARACTERS)
