"""Emptying the prefix caches of all servers before a stage."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from benchrun_client.contract import CacheReset
from benchrun_client.engines import Engine
from benchrun_client.failures import error_text, shorten
from benchrun_client.http_session import NETWORK_ERRORS, answer_of, host_and_port

RESET_SECONDS = 2.0
RETRY_SECONDS = 0.05
MAX_ANSWER_CHARACTERS = 300
# Statuses that another attempt would not change.
FINAL = frozenset({401, 403, 404, 405})


@dataclass(frozen=True, slots=True)
class _Attempt:
    url: str
    answer: str
    succeeded: bool = False
    final: bool = False


async def reset_caches(
    session: aiohttp.ClientSession, urls: Sequence[str], engine: Engine
) -> CacheReset:
    """Make every server empty its prefix cache, and return the result.

    A server that did not confirm is asked again, for at most `RESET_SECONDS` in all. If the engine
    has no path for that, the reset failed; only plans of older operators ask for one.
    """
    if (path := engine.reset_path) is None:
        answer = f"{engine.name} has no path for this; {engine.reset_remedy}"
        return CacheReset(succeeded=False, attempts=1, answer=answer)
    end = time.monotonic() + RESET_SECONDS
    left = list(urls)
    count = 0
    while True:
        count += 1
        attempts = await asyncio.gather(
            *(_reset(session, url, path, engine) for url in left)
        )
        if not (
            failed := [attempt for attempt in attempts if not attempt.succeeded]
        ):
            return CacheReset(
                succeeded=True, attempts=count, answer=attempts[-1].answer
            )
        final = [attempt for attempt in failed if attempt.final]
        if final or time.monotonic() + RETRY_SECONDS > end:
            worst = (final or failed)[0]
            answer = f"{host_and_port(worst.url)}: {worst.answer}"
            return CacheReset(
                succeeded=False,
                attempts=count,
                answer=shorten(answer, MAX_ANSWER_CHARACTERS),
            )
        left = [attempt.url for attempt in failed]
        await asyncio.sleep(RETRY_SECONDS)


async def _reset(
    session: aiohttp.ClientSession, url: str, path: str, engine: Engine
) -> _Attempt:
    timeout = aiohttp.ClientTimeout(total=RESET_SECONDS)
    try:
        async with session.post(url + path, timeout=timeout) as response:
            answer = await answer_of(response)
    except NETWORK_ERRORS as error:
        return _Attempt(url, error_text(error))
    body = answer.body.strip()
    if answer.status == 200:
        return _Attempt(
            url,
            shorten(body, MAX_ANSWER_CHARACTERS),
            succeeded=engine.is_reset(body),
        )
    words = " ".join(body.split())
    if answer.status == 404:
        words = f"there is no {path.partition('?')[0]}; {engine.reset_remedy}"
    words = shorten(f"HTTP {answer.status}: {words}", MAX_ANSWER_CHARACTERS)
    return _Attempt(url, words, final=answer.status in FINAL)
