"""Storages of archives: a folder, S3 or Google Cloud Storage, through obstore.

Credentials come from the environment and from the workload's identity alone. Importing this needs
the extra `archive`.
"""

import os
import re
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

import obstore
from obstore.exceptions import BaseError
from obstore.store import GCSStore, LocalStore, ObjectStore, S3Store

from benchrun.archive.contents import StoreError

ATTEMPT_SECONDS = 30
RETRY_SECONDS = 60
"""Seconds after which a request is not tried again."""
_MAX_ERROR_CHARS = 300
_CODE = re.compile("<Code>([A-Za-z]{1,80})</Code>")
_PASSWORD = re.compile(r"://[^/\s]*@")
FORMS: Final = "an absolute path, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX"


class BadPlace(ValueError):
    """The address of a storage is not valid; the message says what it must be."""


class Store:
    """Files below one place, by path."""

    def __init__(self, place: str) -> None:
        """Raises BadPlace, or StoreError if the place can't be used."""
        self.place = place.rstrip("/")
        try:
            self._store = _opened(self.place)
        except BaseException as error:
            raise _as_ours(error, self.place) from None

    def put(self, path: str, data: bytes) -> None:
        """Write a file atomically, replacing an existing one. Raises StoreError."""
        try:
            obstore.put(self._store, path, data, use_multipart=False)
        except BaseException as error:
            raise _as_ours(error, f"{self.place}/{path}") from None

    def get(self, path: str, most: int) -> bytes:
        """Return a file of at most `most` bytes. Raises StoreError or FileNotFoundError."""
        try:
            found = obstore.get(self._store, path)
            if found.meta["size"] > most:
                raise StoreError(
                    f"{self.place}/{path} has {found.meta['size']} bytes, not at most {most}"
                )
            return bytes(found.bytes())
        except FileNotFoundError:
            raise FileNotFoundError(f"{self.place}/{path}") from None
        except BaseException as error:
            raise _as_ours(error, f"{self.place}/{path}") from None


def _opened(place: str) -> ObjectStore:
    parts = urlsplit(place)
    if parts.scheme == "" and place.startswith("/"):
        return LocalStore(place, mkdir=True)
    # A key in the address would be seen by everybody who may read the pod.
    is_plain = not (
        parts.username or parts.password or parts.query or parts.fragment
    )
    if parts.scheme not in ("s3", "gs") or not parts.netloc or not is_plain:
        raise BadPlace(
            f"must be {FORMS}, without credentials: these come from the environment"
        )
    return (S3Store if parts.scheme == "s3" else GCSStore)(
        parts.netloc,
        prefix=parts.path.strip("/") or None,
        client_options={
            "timeout": timedelta(seconds=ATTEMPT_SECONDS),
            # Options that are given here replace those of the environment.
            "allow_http": os.environ.get("AWS_ALLOW_HTTP", "") == "true",
        },
        retry_config={
            "max_retries": 5,
            "retry_timeout": timedelta(seconds=RETRY_SECONDS),
        },
    )


def _as_ours(error: BaseException, where: str) -> BaseException:
    """Return the error to raise for an error of the library. Others, such as Ctrl-C, are returned.

    The library panics, with a class that can't be imported, if a key can't be part of a header.
    """
    if isinstance(error, StoreError | BadPlace):
        return error
    if isinstance(error, BaseError | OSError | ValueError):
        return StoreError(f"{where}: {_in_short(error)}")
    if type(error).__name__ == "PanicException":
        return StoreError(
            f"{where}: the variables of the storage can't be used: one of AWS_ACCESS_KEY_ID, "
            "AWS_SESSION_TOKEN, AWS_REGION and AWS_ENDPOINT_URL has a line end or a space"
        )
    return error


def _in_short(error: Exception) -> str:
    """Return the text of an error on one line, with only the code of a storage's answer.

    Secrets are left out: an answer can contain the signed request, an address can contain a
    password, and bytes in brackets are those of a key that can't be parsed.
    """
    text = _PASSWORD.sub("://", str(error))
    code = _CODE.search(text)
    line = re.split(r"<|\[\d+, ", text.partition("\n")[0], maxsplit=1)[0].strip()
    return line[:_MAX_ERROR_CHARS] + (f" {code[1]}" if code else "")
