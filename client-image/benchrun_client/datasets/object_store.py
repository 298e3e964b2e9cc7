"""Fetching a data file from an object store that speaks S3: one signed GET, nothing more of a client than that."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from yarl import URL

from benchrun_client.contract import S3Object
from benchrun_client.datasets.fetching import download
from benchrun_client.datasets.sigv4 import Credentials, quoted_path, signed_headers
from benchrun_client.failures import RunFailure


def shown_object(place: S3Object) -> str:
    """What people call it."""
    return f"s3://{place.bucket}/{place.key}"


def object_url(place: S3Object) -> str:
    """Where it is: the bucket in the path of a store of one's own, in the host name at AWS."""
    path = quoted_path(place.key)
    if place.endpoint is not None:
        return f"{place.endpoint.rstrip('/')}/{place.bucket}/{path}"
    if "." in place.bucket:
        # Its name would not fit the store's certificate.
        return f"https://s3.{place.region}.amazonaws.com/{place.bucket}/{path}"
    return f"https://{place.bucket}.s3.{place.region}.amazonaws.com/{path}"


async def fetch_object(place: S3Object, *, max_bytes: int) -> Path:
    """Stream the object into the temporary directory and return its path.

    Raises:
        RunFailure: `DatasetNotFound` or `DatasetInvalid`.
    """
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
        raise RunFailure(
            "DatasetNotFound",
            f"there are no credentials for {shown_object(place)}: the Secret of credentialsSecretRef must exist and have the "
            "keys AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )
    return found
