"""Data files from any place: fetched within bounds, known by their hash, and read line by line.

Every problem with a file raises RunFailure, `DatasetNotFound` or `DatasetInvalid`; the message
names the line that is wrong.
"""

import asyncio
import hashlib
import hmac
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlsplit

import aiohttp
from yarl import URL

from benchrun_client.contract import DataFile, S3Object
from benchrun_client.failures import RunFailure, error_text

invalid = partial(RunFailure, "DatasetInvalid")
not_found = partial(RunFailure, "DatasetNotFound")
MAX_FILE_BYTES = 2 * 1024**3
"""Largest file; a larger one is refused by its size, unread."""
_PAGE_STARTS = (b"<!doctype html", b"<html")
MAX_TOKENS = 2**31 - 1  # Most tokens of one text: no server takes a larger number.
MAX_LINE_BYTES = 16 * 1024**2
"""Most bytes of one line, so that a file without line breaks is not read whole."""
_BYTE_ORDER_MARK = "\ufeff"
CHUNK_BYTES = 1024 * 1024
CONNECT_SECONDS = 30.0
SILENCE_SECONDS = 60.0  # The download fails after this time without data.
ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
SERVICE = "s3"


def shown_url(url: str) -> str:
    """Return the URL without user, password and query, which may be secret (signed URLs)."""
    parts = urlsplit(url)
    return (
        f"{parts.scheme}://{parts.hostname or ''}"
        f"{f':{parts.port}' if parts.port else ''}{parts.path}"
    )


async def fetch(file: DataFile, *, max_bytes: int) -> Path:
    """Download a remote file into the temporary directory and return its path.

    Raises RunFailure.
    """
    name = name_of(file)
    url = URL(file.url or "")
    headers = None
    if file.s3 is not None:
        # Encoded already: a signature holds for these characters alone.
        url = URL(object_url(file.s3), encoded=True)
        headers = (
            _headers_of(file.s3, name) if file.s3.credentials is not None else None
        )
    timeout = aiohttp.ClientTimeout(
        total=None, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS
    )
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout, trust_env=True) as session,
            # With signed headers no redirect is followed: they are for this server alone.
            session.get(
                url, headers=headers, allow_redirects=headers is None
            ) as response,
        ):
            return await _saved(response, name=name, max_bytes=max_bytes)
    except (aiohttp.ClientError, TimeoutError) as error:
        raise not_found(f"cannot fetch {name}: {error_text(error)}") from error
    except OSError as error:
        raise invalid(f"cannot keep {name}: {error.strerror}") from error


async def _saved(
    response: aiohttp.ClientResponse, *, name: str, max_bytes: int
) -> Path:
    if response.status != 200:
        raise not_found(
            f"{name} answered {response.status} {response.reason or ''}".rstrip()
        )
    if "html" in response.content_type:
        led = (
            f" (redirected to {shown_url(str(response.url))})"
            if response.history
            else ""
        )
        raise invalid(
            f"{name}{led} answered with an HTML page, not with data: is it the link to the raw "
            "file?"
        )
    size = 0
    too_large = invalid(f"{name} is larger than {max_bytes // 1024**2} MiB")
    if (response.content_length or 0) > max_bytes:
        raise too_large
    with tempfile.NamedTemporaryFile(prefix="benchrun-data-", delete=False) as file:
        async for chunk in response.content.iter_chunked(CHUNK_BYTES):
            size += len(chunk)
            if size > max_bytes:
                raise too_large
            file.write(chunk)
    return Path(file.name)


class Credentials(NamedTuple):
    access_key_id: str
    secret_access_key: str
    session_token: str = ""


def signed_headers(
    url: str,
    credentials: Credentials,
    *,
    region: str,
    timestamp: str,
    headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return all headers of a GET without a query, signed by AWS Signature Version 4.

    `timestamp` has the form 20130524T000000Z.
    """
    parts = urlsplit(url)
    signed = {
        name.lower(): value.strip() for name, value in (headers or {}).items()
    }
    signed |= {
        "host": parts.netloc,
        "x-amz-content-sha256": EMPTY_SHA256,
        "x-amz-date": timestamp,
    }
    if credentials.session_token:
        signed["x-amz-security-token"] = credentials.session_token
    names = sorted(signed)
    listed = ";".join(names)
    canonical = "\n".join(
        [
            "GET",
            parts.path or "/",
            "",
            *(f"{name}:{signed[name]}" for name in names),
            "",
            listed,
            EMPTY_SHA256,
        ]
    )
    scope = f"{timestamp[:8]}/{region}/{SERVICE}/aws4_request"
    to_sign = "\n".join(
        [
            ALGORITHM,
            timestamp,
            scope,
            hashlib.sha256(canonical.encode()).hexdigest(),
        ]
    )
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in (timestamp[:8], region, SERVICE, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, to_sign.encode(), hashlib.sha256).hexdigest()
    return {
        **signed,
        "authorization": f"{ALGORITHM} Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={listed}, Signature={signature}",
    }


def object_url(place: S3Object) -> str:
    """Return the URL of an S3 object, encoded as the signature needs it.

    The bucket is in the path for a self-hosted store, in the host name for AWS.
    """
    path = quote(place.key, safe="/-_.~")
    if place.endpoint is not None:
        return f"{place.endpoint.rstrip('/')}/{place.bucket}/{path}"
    if "." in place.bucket:
        # Its name would not fit the store's certificate.
        return f"https://s3.{place.region}.amazonaws.com/{place.bucket}/{path}"
    return f"https://{place.bucket}.s3.{place.region}.amazonaws.com/{path}"


def _headers_of(place: S3Object, name: str) -> dict[str, str]:
    variables = ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")
    found = Credentials(
        *(
            os.environ.get(f"{place.credentials}_{each}", "").strip()
            for each in variables
        )
    )
    if not found.access_key_id or not found.secret_access_key:
        raise not_found(
            f"there are no credentials for {name}: the Secret of credentialsSecretRef must exist "
            "and have the "
            "keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
    timestamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    return signed_headers(
        object_url(place), found, region=place.region, timestamp=timestamp
    )


@dataclass(frozen=True, slots=True)
class OpenedFile:
    path: Path
    name: str  # Name in messages: its path, or the URL it came from.
    sha256: str


@contextmanager
def opened(file: DataFile) -> Iterator[OpenedFile]:
    """Open a data file, fetching it first if it is remote; the copy is deleted at the end.

    Raises RunFailure.
    """
    name = name_of(file)
    path = (
        Path(file.path)
        if file.path is not None
        else asyncio.run(fetch(file, max_bytes=MAX_FILE_BYTES))
    )
    try:
        _check(path, name)
        with path.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        yield OpenedFile(path, name, digest)
    except OSError as error:
        raise not_found(
            f"cannot read {name} in the client's container: {error.strerror}. Check the mount and "
            "the path."
        ) from error
    finally:
        if file.path is None:
            path.unlink(missing_ok=True)


def name_of(file: DataFile) -> str:
    """Return the name of a file for messages, without parts that may be secret."""
    if file.url is not None:
        return shown_url(file.url)
    return (
        f"s3://{file.s3.bucket}/{file.s3.key}"
        if file.s3 is not None
        else str(file.path)
    )


def _check(path: Path, name: str) -> None:
    size = path.stat().st_size
    if not path.is_file():
        # A directory, or a device that never ends.
        raise not_found(
            f"cannot read {name} in the client's container: it is not a regular file. Check the "
            "path."
        )
    if size > MAX_FILE_BYTES:
        raise invalid(
            f"{name} has {size:,} bytes; at most {MAX_FILE_BYTES // 1024**3} GiB are read. Cut it "
            "to the rows that are needed."
        )
    with path.open("rb") as content:
        start = content.read(512)
    if len(start) == size and not start.strip():
        raise invalid(f"{name} is empty")
    if start.lstrip().lower().startswith(_PAGE_STARTS):
        raise invalid(
            f"{name} is an HTML page, not data: is it the link to the raw file?"
        )
    if start.startswith(_GIT_LFS):
        raise invalid(
            f"{name} is a pointer of Git LFS, not data: fetch the file itself (git lfs pull)"
        )
    for begins, what in _PACKED.items():
        if start.startswith(begins):
            raise invalid(
                f"{name} is packed ({what}). Unpack it, as JSON in UTF-8."
            )


_GIT_LFS = b"version https://git-lfs.github.com/spec/"
_PACKED = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "zip",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PAR1": "Parquet",
}
"""How files begin that hold no text."""


def lines(file: OpenedFile) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line, with its line break.

    Raises RunFailure for a line that is not UTF-8, or too long.
    """
    with file.path.open("rb") as content:
        for number, line in enumerate(
            iter(lambda: content.readline(MAX_LINE_BYTES + 1), b""), start=1
        ):
            if len(line) > MAX_LINE_BYTES:
                raise invalid(
                    f"{file.name}, line {number} is longer than {MAX_LINE_BYTES // 1024**2} MiB. "
                    "Put each row on its own line."
                )
            try:
                text = line.decode()
            except UnicodeDecodeError as error:
                raise not_utf8(error, name=file.name, first_line=number) from error
            yield (
                number,
                text.removeprefix(_BYTE_ORDER_MARK) if number == 1 else text,
            )


def json_lines(file: OpenedFile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each line that is not blank: where it is (for messages) and its object.

    Raises RunFailure for a line that is not a JSON object.
    """
    for number, text in lines(file):
        if not text.strip():
            continue
        where = f"{file.name}, line {number}"
        row = json_value(
            text,
            name=file.name,
            line=number,
            should_be="A JSON Lines file has one JSON object a line.",
        )
        if not isinstance(row, dict):
            raise invalid(f"{where}: expected a JSON object, got {json_type(row)}")
        yield where, row


def field_of(
    row: Mapping[str, Any],
    name: str,
    *,
    where: str,
    kind: str = "field",
    advice: str = "",
) -> Any:
    """Return the value of a field of a row; raise RunFailure if the row lacks the field."""
    if name not in row:
        raise invalid(
            f'{where}: there is no {kind} "{name}"; it has {listed(row)}{advice}'
        )
    return row[name]


def text_field(row: Mapping[str, Any], name: str, *, where: str) -> str:
    """Return the value of a field of a row; raise RunFailure if it is missing or not a text."""
    value = field_of(row, name, where=where)
    if not isinstance(value, str):
        raise invalid(
            f'{where}: "{name}" must be a text, but is {json_type(value)}'
        )
    return value


CONVERSATION_KEYS = ("conversations", "conversation", "messages", "items")
_ROLE_KEYS = ("from", "role")
_TEXT_KEYS = ("value", "content")


def turns_of(entry: Mapping[str, Any], *, where: str) -> tuple[str, list[Any]]:
    """Return the key under which a conversation has its turns, and the turns.

    Raises RunFailure if the conversation has no known key, if it has several and vLLM's is not
    among them, or if the turns are not a list.
    """
    found = [key for key in CONVERSATION_KEYS if key in entry]
    # The first is vLLM's: with it, others are the author's own.
    if not found or (len(found) > 1 and found[0] != CONVERSATION_KEYS[0]):
        what = "more than one" if found else "none"
        raise invalid(
            f"{where}: there is {what} of {listed(CONVERSATION_KEYS)}; it has {listed(entry)}"
        )
    turns = entry[found[0]]
    if not isinstance(turns, list):
        raise invalid(
            f'{where}: "{found[0]}" must be a list, but is {json_type(turns)}'
        )
    return found[0], turns


def role_of(turn: Mapping[str, Any]) -> Any:
    """Return the speaker of a turn, under either key (`from`, `role`); None if both are missing."""
    return next((turn[key] for key in _ROLE_KEYS if key in turn), None)


def words_of(turn: Any, *, where: str) -> str:
    """Return the text of a turn, under either key; raise RunFailure if both are missing."""
    return text_field(turn, text_key_of(turn, where=where), where=where)


def text_key_of(turn: Any, *, where: str) -> str:
    """Return the key under which a turn has its text; raise RunFailure if it has none."""
    if not isinstance(turn, dict):
        raise invalid(f"{where}: expected an object, got {json_type(turn)}")
    key = next((key for key in _TEXT_KEYS if key in turn), None)
    if key is None:
        raise invalid(
            f"{where}: there is none of {listed(_TEXT_KEYS)}; it has {listed(turn)}"
        )
    return key


def listed(names: Any, *, most: int = 20) -> str:
    """Return names in quotes, for a message; only the first `most` of many."""
    found = [f'"{name}"' for name in list(names)[:most]]
    more = len(names) - len(found)
    return (", ".join(found) or "none") + (f" and {more} more" if more else "")


_JSON_TYPES = {
    type(None): "null",
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


def json_type(value: object) -> str:
    """Return the JSON type of a value with its article, such as "a list"."""
    return _JSON_TYPES[type(value)]


def not_utf8(
    error: UnicodeDecodeError, *, name: str, first_line: int = 1
) -> RunFailure:
    """Build the failure for bytes that are not UTF-8, naming line and byte.

    `first_line` is the number of the first line of the decoded bytes.
    """
    content = error.object
    at = error.start
    line = first_line + content.count(b"\n", 0, at)
    start = content.rfind(b"\n", 0, at) + 1
    return invalid(
        f"{name}, line {line}: byte {at - start + 1} of the line (0x{content[at]:02x}) is not "
        "UTF-8. Save the file as UTF-8."
    )


def json_value(
    content: bytes | str, *, name: str, should_be: str, line: int | None = None
) -> Any:
    """Parse the content of a file, or one line of it; raise RunFailure if it is not valid.

    `should_be` is a sentence for the message that says what is expected. An object with a key twice
    is not valid, nor is a text that UTF-8 cannot encode.
    """
    where = name if line is None else f"{name}, line {line}"
    try:
        return _whole(json.loads(content, object_pairs_hook=_once))
    except json.JSONDecodeError as error:
        at = f"line {line or error.lineno}, column {error.colno}"
        raise invalid(f"{name}, {at}: {error.msg}. {should_be}") from error
    except _StandsTwiceError as error:
        raise invalid(
            f"{where}: an object has the key {listed([error.key])} more than once. Keep one of "
            "them."
        ) from error
    except UnicodeDecodeError as error:
        raise not_utf8(error, name=name) from error
    except UnicodeEncodeError as error:
        raise invalid(
            f"{where}: a text has half of a surrogate pair, \\u{ord(error.object[error.start]):x}"
        ) from error
    except RecursionError as error:
        raise invalid(f"{where}: nested too deeply") from error
    except ValueError as error:
        raise invalid(
            f"{where}: a number has more digits than can be read"
        ) from error


class _StandsTwiceError(Exception):
    """An object of a JSON text has a key more than once: the intended value is not known."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key.encode(errors="replace").decode()[:100]


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object from its keys and values; raise _StandsTwiceError if a key occurs twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _StandsTwiceError(next(key for key in found if keys.count(key) > 1))
    return found


def _whole(value: Any) -> Any:
    """Return the value if UTF-8 can encode all of its texts; raise UnicodeEncodeError otherwise.

    JSON may contain halves of characters (lone surrogates), which UTF-8 cannot encode.
    """
    texts = [value]
    for each in texts:
        if isinstance(each, str):
            each.encode()
        elif isinstance(each, list):
            texts += each
        elif isinstance(each, dict):
            texts += [*each, *each.values()]
    return value
