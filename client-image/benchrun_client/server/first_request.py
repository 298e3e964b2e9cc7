"""One small request that proves the path before anything is measured, and emptying the prefix cache before a stage.

A server can be healthy and still answer no request: wrong model name, missing key, a gateway's web page, an engine that dies on
its first forward pass. Reported here, in the server's own words, it costs one request and not a run of failures.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import aiohttp

from benchrun_client.contract import CacheReset
from benchrun_client.failures import RunFailure, error_text, shorten
from benchrun_client.http_session import NETWORK_ERRORS, Answer, answer_of, host_and_port
from benchrun_client.tokenizer import Api

CANARY_TOKENS = 2
MAX_WORDS_OF_SERVER = 500
PATHS: dict[Api, str] = {"Completions": "/v1/completions", "Chat": "/v1/chat/completions"}


async def served_models(session: aiohttp.ClientSession, url: str) -> dict[str, int | None]:
    """Each model of /v1/models with its longest context, where that is known. Any trouble gives an empty answer: the canary
    reports it better."""
    try:
        async with session.get(f"{url}/v1/models") as response:
            answer = await answer_of(response)
        models = [model for model in json.loads(answer.body)["data"] if isinstance(model["id"], str)]
    except (*NETWORK_ERRORS, ValueError, KeyError, TypeError, RecursionError):
        return {}
    lengths = [(model["id"], model.get("max_model_len")) for model in models]
    return {name: length if isinstance(length, int) else None for name, length in lengths}


async def complete(
    session: aiohttp.ClientSession, url: str, *, api: Api, model: str, prompt: str, output_tokens: int
) -> Answer:
    """One plain completion, not streamed."""
    asked = {"messages": [{"role": "user", "content": prompt}]} if api == "Chat" else {"prompt": prompt}
    body = {"model": model, "max_tokens": output_tokens, **asked}
    async with session.post(url + PATHS[api], json=body) as response:
        return await answer_of(response)


async def send_canary(
    session: aiohttp.ClientSession, url: str, *, api: Api, model: str, run_uid: str, served: Sequence[str]
) -> None:
    """Prove that a completion works.

    Raises:
        RunFailure: with the reason that `canary_failure` finds.
    """
    prompt = f"[{run_uid}] canary: say anything."
    try:
        answer = await complete(session, url, api=api, model=model, prompt=prompt, output_tokens=CANARY_TOKENS)
    except NETWORK_ERRORS as error:
        raise RunFailure("CanaryFailed", f"{url}{PATHS[api]}: {error_text(error)} on the first request") from error
    if failure := canary_failure(answer, where=url + PATHS[api], model=model, served=served):
        raise failure


def canary_failure(answer: Answer, *, where: str, model: str, served: Sequence[str]) -> RunFailure | None:
    """What is wrong with the canary's answer; None when it holds a completion."""
    words, status = words_of(answer), answer.status
    if answer.is_html:
        page = f"{where} answered {status} with an HTML page{_title(answer.body)}"
        return RunFailure("EndpointNotFound", f"{page}: no server of this API is there")
    if status in (401, 403):
        message = f"{where} answered {status}: {words}. Give the key as endpoint.apiKeySecretRef."
        return RunFailure("Unauthorized", message)
    if status == 404 and "model" in words.lower():
        listed = ", ".join(served[:20]) or "no model that /v1/models lists"
        return RunFailure("ModelNotServed", f"{where}: {words} It serves: {listed}. Requested: {model}.")
    if status == 404:
        return RunFailure("EndpointNotFound", f"{where} answered 404: {words}. No server of this API is there.")
    if status != 200:
        return RunFailure("CanaryFailed", f"{where} answered {status}: {words}")
    body = answer.json()
    if not isinstance(body, dict):
        kind = answer.content_type or "no content type"
        return RunFailure("EndpointNotFound", f"{where} answered 200 with {kind}, not with a JSON object")
    usage = body.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else None
    if isinstance(tokens, int) and tokens >= 1:
        return None
    return RunFailure("CanaryFailed", f"{where} answered 200 but counts no completion token: {words}")


def words_of(answer: Answer) -> str:
    """The server's own words: its error message where there is one, else the start of the body; never HTML."""
    if answer.is_html:
        return f"an HTML page{_title(answer.body)}"
    try:
        body = json.loads(answer.body)
    except (ValueError, RecursionError):
        body = answer.body
    return shorten(" ".join(_message_in(body).split()), MAX_WORDS_OF_SERVER) or "(empty body)"


def _message_in(body: object) -> str:
    """vLLM says error.message (object, message in older versions), FastAPI says detail."""
    if isinstance(body, dict):
        for key in ("error", "message", "detail"):
            if body.get(key):
                return _message_in(body[key])
    return body if isinstance(body, str) else json.dumps(body)


def _title(html: str) -> str:
    found = re.search(r"<title[^>]*>([^<]{1,200})", html, re.IGNORECASE)
    return f' ("{shorten(" ".join(found[1].split()), 100)}")' if found else ""


# ---- cache reset ------------------------------------------------------------------------------------------------------
# vLLM refuses while any block is held, and says so only in the body of an answer with status 200. Versions before 0.26 say
# nothing at all; the hit ratio of the stage shows whether those did it.

RESET_PATH = "/reset_prefix_cache?reset_external=true"
"""External tiers keep their blocks unless asked; without such a tier the flag changes nothing."""
RESET_SECONDS = 2.0
RETRY_SECONDS = 0.05
MAX_ANSWER_CHARACTERS = 300
FINAL = frozenset({401, 403, 404, 405})
"""Answers that another attempt would not change."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    url: str
    answer: str
    succeeded: bool = False
    final: bool = False


async def reset_caches(session: aiohttp.ClientSession, urls: Sequence[str]) -> CacheReset:
    """Have every server empty its prefix cache; tried again, for at most `RESET_SECONDS`, on those that did not."""
    end = time.monotonic() + RESET_SECONDS
    left, count = list(urls), 0
    while True:
        count += 1
        attempts = await asyncio.gather(*(_reset(session, url) for url in left))
        failed = [attempt for attempt in attempts if not attempt.succeeded]
        if not failed:
            return CacheReset(succeeded=True, attempts=count, answer=attempts[-1].answer)
        final = [attempt for attempt in failed if attempt.final]
        if final or time.monotonic() + RETRY_SECONDS > end:
            worst = (final or failed)[0]
            answer = f"{host_and_port(worst.url)}: {worst.answer}"
            return CacheReset(succeeded=False, attempts=count, answer=shorten(answer, MAX_ANSWER_CHARACTERS))
        left = [attempt.url for attempt in failed]
        await asyncio.sleep(RETRY_SECONDS)


async def _reset(session: aiohttp.ClientSession, url: str) -> _Attempt:
    try:
        async with session.post(url + RESET_PATH, timeout=aiohttp.ClientTimeout(total=RESET_SECONDS)) as response:
            answer = await answer_of(response)
    except NETWORK_ERRORS as error:
        return _Attempt(url, error_text(error))
    if answer.status == 200:
        body: Any = answer.json()
        # vLLM before 0.26 answers with an empty body.
        succeeded = not answer.body.strip() or (isinstance(body, dict) and body.get("success") is True)
        return _Attempt(url, shorten(answer.body.strip(), MAX_ANSWER_CHARACTERS), succeeded=succeeded)
    words = " ".join(answer.body.split())
    if answer.status == 404:
        words = "there is no /reset_prefix_cache; the server needs VLLM_SERVER_DEV_MODE=1"
    words = shorten(f"HTTP {answer.status}: {words}", MAX_ANSWER_CHARACTERS)
    return _Attempt(url, words, final=answer.status in FINAL)
