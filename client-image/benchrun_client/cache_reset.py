"""Emptying the servers' prefix caches before a stage, under the policy Reset.

vLLM refuses while any block is held, and says so only in the body of an answer with status 200. Versions before 0.26 say
nothing at all; whether those did it the hit ratio of the stage tells.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from benchrun_client.contract import CacheReset
from benchrun_client.failures import first_line, shorten
from benchrun_client.http_session import Answer, answer_of

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
