"""A data file, wherever it is: fetched within bounds, known by its hash, and read line by line, each fault named with its line."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from benchrun_client.contract import DataFile, S3Object
from benchrun_client.failures import RunFailure, error_text


def invalid(message: str) -> RunFailure:
    return RunFailure("DatasetInvalid", message)


def not_found(message: str) -> RunFailure:
    return RunFailure("DatasetNotFound", message)


CHUNK_BYTES = 1024 * 1024
CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 60.0  # After so long without data the download fails.


def shown_url(url: str) -> str:
    """The URL without what may be a secret: user, password, query (signed URLs)."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


async def fetch(url: str, *, max_bytes: int) -> Path:
    """Stream the file into the temporary directory and return its path.
    Raises RunFailure: `DatasetNotFound` or `DatasetInvalid`."""
    return await download(URL(url), name=shown_url(url), max_bytes=max_bytes)


async def download(url: URL, *, name: str, max_bytes: int, headers: Mapping[str, str] | None = None) -> Path:
    """Stream the file into the temporary directory. With `headers` no redirect is followed: they are for this server alone.
    `name`: what people call the file."""
    timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            session.get(url, headers=headers, allow_redirects=headers is None) as response,
        ):
            _check_response(response, name=name, max_bytes=max_bytes)
            return await _saved(response, name=name, max_bytes=max_bytes)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise not_found(f"cannot fetch {name}: {error_text(error)}") from error
    except OSError as error:
        raise invalid(f"cannot keep {name}: {error.strerror}") from error


def _check_response(response: aiohttp.ClientResponse, *, name: str, max_bytes: int) -> None:
    if response.status != 200:
        raise not_found(f"{name} answered {response.status} {response.reason or ''}".rstrip())
    if "html" in response.content_type:
        led = f" (redirected to {shown_url(str(response.url))})" if response.history else ""
        raise invalid(f"{name}{led} answered with an HTML page, not with data: is it the link to the raw file?")
    if response.content_length is not None and response.content_length > max_bytes:
        raise _too_large(name, max_bytes)


def _too_large(name: str, max_bytes: int) -> RunFailure:
    return invalid(f"{name} is larger than {max_bytes // 1024**2} MiB")


async def _saved(response: aiohttp.ClientResponse, *, name: str, max_bytes: int) -> Path:
    size = 0
    with tempfile.NamedTemporaryFile(prefix="benchrun-data-", delete=False) as file:
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            size += len(chunk)
            if size > max_bytes:
                raise _too_large(name, max_bytes)
            file.write(chunk)
    return Path(file.name)


ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
SERVICE = "s3"


@dataclass(frozen=True, slots=True)
class Credentials:
    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


def quoted_path(key: str) -> str:
    """An object's key as the path of a URL, encoded as the signature wants it."""
    return quote(key, safe="/-_.~")


def signed_headers(
    url: str, credentials: Credentials, *, region: str, timestamp: str, headers: Mapping[str, str] | None = None
) -> dict[str, str]:
    """All headers of a GET without a query, signed by AWS Signature Version 4. `timestamp`: 20130524T000000Z."""
    parts = urlsplit(url)
    signed = {name.lower(): value.strip() for name, value in (headers or {}).items()}
    signed |= {"host": parts.netloc, "x-amz-content-sha256": EMPTY_SHA256, "x-amz-date": timestamp}
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = sorted(signed)
    listed = ";".join(names)
    canonical = "\n".join(
        ["GET", parts.path or "/", "", *(f"{name}:{signed[name]}" for name in names), "", listed, EMPTY_SHA256]
    )
    scope = f"{timestamp[:8]}/{region}/{SERVICE}/aws4_request"
    to_sign = "\n".join([ALGORITHM, timestamp, scope, hashlib.sha256(canonical.encode()).hexdigest()])
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in (timestamp[:8], region, SERVICE, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return {
        **signed,
        "authorization": f"{ALGORITHM} Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={listed}, Signature={signature}",
    }


def shown_object(place: S3Object) -> str:
    """What people call it."""
    return f"s3://{place.bucket}/{place.key}"


def object_url(place: S3Object) -> str:
    """Where it is: the bucket in the path of a self-hosted store, in the host name at AWS."""
    path = quoted_path(place.key)
    if place.endpoint is not None:
        return f"{place.endpoint.rstrip('/')}/{place.bucket}/{path}"
    if "." in place.bucket:
        # Its name would not fit the store's certificate.
        return f"https://s3.{place.region}.amazonaws.com/{place.bucket}/{path}"
    return f"https://{place.bucket}.s3.{place.region}.amazonaws.com/{path}"


async def fetch_object(place: S3Object, *, max_bytes: int) -> Path:
    """Stream the object into the temporary directory and return its path.
    Raises RunFailure: `DatasetNotFound` or `DatasetInvalid`."""
    url, headers = object_url(place), None
    if place.credentials is not None:
        timestamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        headers = signed_headers(url, _credentials(place), region=place.region, timestamp=timestamp)
    # Encoded already: a signature holds for these characters alone.
    return await download(URL(url, encoded=True), name=shown_object(place), headers=headers, max_bytes=max_bytes)


def _credentials(place: S3Object) -> Credentials:
    def value(name: str) -> str:
        return os.environ.get(f"{place.credentials}_{name}", "").strip()

    found = Credentials(value("ACCESS_KEY_ID"), value("SECRET_ACCESS_KEY"), value("SESSION_TOKEN") or None)
    if not found.access_key_id or not found.secret_access_key:
        raise not_found(
            f"there are no credentials for {shown_object(place)}: the Secret of credentialsSecretRef must exist and have the "
            "keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    return found


MAX_FILE_BYTES = 2 * 1024**3  # Larger files are refused by their size, before anything of them is read.
_PAGE_STARTS = (b"<!doctype html", b"<html")


@dataclass(frozen=True, slots=True)
class OpenedFile:
    path: Path
    name: str  # What people call it: its path, or the URL it came from.
    sha256: str


@contextmanager
def opened(file: DataFile) -> Iterator[OpenedFile]:
    """The file, fetched if it is elsewhere; a copy is gone at the end.
    Raises RunFailure: `DatasetNotFound` or `DatasetInvalid`."""
    name, path = name_of(file), _local(file)
    try:
        _check(path, name)
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        yield OpenedFile(path, name, digest)
    except OSError as error:
        raise not_found(
            f"cannot read {name} in the client's container: {error.strerror}. Check the mount and the path."
        ) from error
    finally:
        if file.path is None:
            path.unlink(missing_ok=True)


def name_of(file: DataFile) -> str:
    """What people call it, without what may be a secret."""
    if file.url is not None:
        return shown_url(file.url)
    return shown_object(file.s3) if file.s3 is not None else str(file.path)


def _local(file: DataFile) -> Path:
    if file.url is not None:
        return asyncio.run(fetch(file.url, max_bytes=MAX_FILE_BYTES))
    if file.s3 is not None:
        return asyncio.run(fetch_object(file.s3, max_bytes=MAX_FILE_BYTES))
    return Path(str(file.path))


def _check(path: Path, name: str) -> None:
    found = path.stat()
    size = found.st_size
    if not stat.S_ISREG(found.st_mode):
        # A directory, or a device that never ends.
        raise not_found(f"cannot read {name} in the client's container: it is not a regular file. Check the path.")
    if size > MAX_FILE_BYTES:
        raise invalid(
            f"{name} has {size:,} bytes; at most {MAX_FILE_BYTES // 1024**3} GiB are read. Cut it to the rows that are needed."
        )
    with path.open("rb") as content:
        start = content.read(512)
    if len(start) == size and not start.strip():
        raise invalid(f"{name} is empty")
    if start.lstrip().lower().startswith(_PAGE_STARTS):
        raise invalid(f"{name} is an HTML page, not data: is it the link to the raw file?")


MAX_LINE_BYTES = 16 * 1024**2  # Of one line: a file without line breaks is not read whole.
_BYTE_ORDER_MARK = "\ufeff"


def lines(file: OpenedFile) -> Iterator[tuple[int, str]]:
    """Number and text of each line, the line's end included.
    Raises RunFailure: `DatasetInvalid`, for a line that is not UTF-8 or far too long."""
    with file.path.open("rb") as content:
        number = 0
        while line := content.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise invalid(
                    f"{file.name}, line {number} is longer than {MAX_LINE_BYTES // 1024**2} MiB. Put each row on its own line."
                )
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise not_utf8(error, name=file.name, first_line=number) from error
            yield number, text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text


def json_lines(file: OpenedFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Place (for messages) and object of each line that is not blank.
    Raises RunFailure: `DatasetInvalid`, naming line and column."""
    for number, text in lines(file):
        if not text.strip():
            continue
        where = f"{file.name}, line {number}"
        try:
            row = json.loads(text)
        except json.JSONDecodeError as error:
            raise invalid(
                f"{where}, column {error.colno}: {error.msg}. A JSON Lines file has one JSON object a line."
            ) from error
        except RecursionError as error:
            raise invalid(f"{where}: nested too deeply") from error
        if not isinstance(row, dict):
            raise invalid(f"{where}: expected a JSON object, got {json_type(row)}")
        yield where, row


def text_field(row: dict[str, Any], field: str, *, where: str) -> str:
    """A field that must hold a text. Raises RunFailure: `DatasetInvalid`, naming the field and those that there are."""
    if field not in row:
        raise invalid(f'{where}: there is no field "{field}"; it has {listed(row)}')
    value = row[field]
    if not isinstance(value, str):
        raise invalid(f'{where}: "{field}" must be a text, is {json_type(value)}')
    return value


def listed(names: Any, *, most: int = 20) -> str:
    """Names in quotes, for a message; the first ones of many."""
    found = [f'"{name}"' for name in list(names)[:most]]
    more = len(names) - len(found)
    return (", ".join(found) or "none") + (f" and {more} more" if more else "")


def json_type(value: object) -> str:
    """What JSON calls it, with its article."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, int | float):
        return "a number"
    return {"str": "a text", "list": "a list", "dict": "an object"}[type(value).__name__]


def not_utf8(error: UnicodeDecodeError, *, name: str, first_line: int = 1) -> RunFailure:
    """The failure for bytes that are not UTF-8, with line and byte. `first_line`: number of the first line of what was decoded."""
    content, at = error.object, error.start
    line, start = first_line + content.count(b"\n", 0, at), content.rfind(b"\n", 0, at) + 1
    return invalid(
        f"{name}, line {line}: byte {at - start + 1} of the line (0x{content[at]:02x}) is not UTF-8. Save the file as UTF-8."
    )


def json_value(content: bytes, *, name: str, should_be: str) -> Any:
    """What the content of a file holds. `should_be`: what is expected, for the message.
    Raises RunFailure: `DatasetInvalid`, naming line and place in it."""
    try:
        return json.loads(content)
    except json.JSONDecodeError as error:
        raise invalid(f"{name}, line {error.lineno}, column {error.colno}: {error.msg}. {should_be}") from error
    except UnicodeDecodeError as error:
        raise not_utf8(error, name=name) from error
    except RecursionError as error:
        raise invalid(f"{name}: nested too deeply") from error
