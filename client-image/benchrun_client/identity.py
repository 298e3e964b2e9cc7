"""What a server says of itself: its version and its settings, so that replicas that differ are not pooled unnoticed."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import aiohttp

from benchrun_client.http_session import answer_of
from benchrun_client.snapshot import read_page

VERSION_SECONDS = 2.0
_SETTINGS = "vllm:cache_config_info{"
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_NOT_SETTINGS = frozenset(
    {"engine", "num_gpu_blocks", "num_cpu_blocks", "kv_cache_size_tokens", "kv_cache_max_concurrency"}
)
"""The engine's number, and what a server measures when it starts: that differs a little between equal servers."""
DIGEST_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class Identity:
    """One server's words about itself; None where it has none."""

    version: str | None
    settings: str | None
    """Digest of what it reports of its configuration."""


async def identify(session: aiohttp.ClientSession, metrics_urls: Sequence[str]) -> tuple[Identity, ...]:
    """Ask every server, by its metrics page and the /version beside it. Never an error: a server may be silent."""
    return tuple(await asyncio.gather(*(_identify_one(session, url) for url in metrics_urls)))


async def _identify_one(session: aiohttp.ClientSession, metrics_url: str) -> Identity:
    page = await read_page(session, metrics_url)
    version = await _version(session, metrics_url.removesuffix("/metrics") + "/version")
    return Identity(version=version, settings=None if page is None else settings_digest(page))


async def _version(session: aiohttp.ClientSession, url: str) -> str | None:
    try:
        async with session.get(url, timeout=aiohttp.ClientTimeout(total=VERSION_SECONDS)) as response:
            answer = await answer_of(response)
        version = json.loads(answer.body)["version"] if answer.status == 200 else None
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError, KeyError, TypeError):
        return None
    return version if isinstance(version, str) else None


def settings_digest(page: str) -> str | None:
    """SHA-256 of the labels of vLLM's cache_config_info, the same for equally configured servers; None if there are none."""
    configurations = {
        tuple(sorted(label for label in _LABEL.findall(line) if label[0] not in _NOT_SETTINGS))
        for line in page.splitlines()
        if line.startswith(_SETTINGS)
    }
    if not configurations:
        return None
    return hashlib.sha256(json.dumps(sorted(configurations)).encode()).hexdigest()[:DIGEST_CHARACTERS]
