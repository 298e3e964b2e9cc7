"""A data file, wherever it is: found, no larger than we take, not a web page, and known by its hash."""

from __future__ import annotations

import asyncio
import hashlib
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchrun_client.contract import DataFile
from benchrun_client.datasets.fetching import fetch, shown_url
from benchrun_client.datasets.object_store import fetch_object, shown_object
from benchrun_client.failures import RunFailure

MAX_FILE_BYTES = 2 * 1024**3
"""Larger files are refused by their size, before anything of them is read."""
_BLOCK_BYTES = 1024 * 1024
_PAGE_STARTS = (b"<!doctype html", b"<html")


@dataclass(frozen=True, slots=True)
class OpenedFile:
    """A file that can be read."""

    path: Path
    name: str
    """What people call it: its path, or the URL it came from."""
    sha256: str


@contextmanager
def opened(file: DataFile) -> Iterator[OpenedFile]:
    """The file, fetched if it is elsewhere; a copy is gone at the end.

    Raises:
        RunFailure: `DatasetNotFound` or `DatasetInvalid`.
    """
    name, path = name_of(file), _local(file)
    try:
        _check(path, name)
        yield OpenedFile(path, name, _sha256(path))
    except OSError as error:
        raise RunFailure(
            "DatasetNotFound",
            f"cannot read {name} in the client's container: {error.strerror}. Check the mount and the path.",
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
        raise RunFailure(
            "DatasetNotFound", f"cannot read {name} in the client's container: it is no regular file. Check the path."
        )
    if size > MAX_FILE_BYTES:
        raise RunFailure(
            "DatasetInvalid",
            f"{name} has {size:,} bytes; at most {MAX_FILE_BYTES // 1024**3} GiB are read. Cut it to the rows that are needed.",
        )
    with path.open("rb") as content:
        start = content.read(512)
    if len(start) == size and not start.strip():
        raise RunFailure("DatasetInvalid", f"{name} is empty")
    if start.lstrip().lower().startswith(_PAGE_STARTS):
        raise RunFailure("DatasetInvalid", f"{name} is an HTML page, not data: is it the link to the raw file?")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as content:
        while block := content.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()
