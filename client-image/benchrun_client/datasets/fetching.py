"""Fetching a data file from a URL, with a bound on everything."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from benchrun_client.failures import RunFailure, first_line

CHUNK_BYTES = 1024 * 1024
CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 60.0
"""A server that sends nothing for so long is given up."""


def shown_url(url: str) -> str:
    """The URL without what may be a secret: user, password, query (signed URLs)."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


async def fetch(url: str, *, max_bytes: int) -> Path:
    """Stream the file into the temporary directory and return its path.

    Raises:
        RunFailure: `DatasetNotFound` or `DatasetInvalid`.
    """
    return await download(URL(url), name=shown_url(url), max_bytes=max_bytes)


async def download(url: URL, *, name: str, max_bytes: int, headers: Mapping[str, str] | None = None) -> Path:
    """The same, for a request with headers of its own, which are for nobody else: it is not led on. `name` is what people
    call the file."""
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.get(url, headers=headers, allow_redirects=headers is None) as response,
        ):
            _check(response, name=name, max_bytes=max_bytes)
            return await _saved(response, name=name, max_bytes=max_bytes)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise RunFailure(
            "DatasetNotFound", f"cannot fetch {name}: {first_line(error) or type(error).__name__}"
        ) from error
    except OSError as error:
        raise RunFailure("DatasetInvalid", f"cannot keep {name}: {error.strerror}") from error


def _check(response: aiohttp.ClientResponse, *, name: str, max_bytes: int) -> None:
    if response.status != 200:
        raise RunFailure("DatasetNotFound", f"{name} answered {response.status} {response.reason or ''}".rstrip())
    if "html" in response.content_type:
        led = f" (led on to {shown_url(str(response.url))})" if response.history else ""
        raise RunFailure(
            "DatasetInvalid",
            f"{name}{led} answered with an HTML page, not with data: is it the link to the raw file?",
        )
    if response.content_length is not None and response.content_length > max_bytes:
        raise _too_large(name, max_bytes)


def _too_large(name: str, max_bytes: int) -> RunFailure:
    return RunFailure("DatasetInvalid", f"{name} is larger than {max_bytes // 1024**2} MiB")


async def _saved(response: aiohttp.ClientResponse, *, name: str, max_bytes: int) -> Path:
    size = 0
    with tempfile.NamedTemporaryFile(prefix="benchrun-data-", delete=False) as file:
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            size += len(chunk)
            if size > max_bytes:
                raise _too_large(name, max_bytes)
            file.write(chunk)
    return Path(file.name)
