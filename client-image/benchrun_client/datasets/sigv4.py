"""AWS Signature Version 4 for a GET: what an object store wants to see before it hands out an object. Pure."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

ALGORITHM = "AWS4-HMAC-SHA256"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()
SERVICE = "s3"


@dataclass(frozen=True, slots=True)
class Credentials:
    """Who asks."""

    access_key_id: str
    secret_access_key: str
    session_token: str | None = None


def quoted_path(key: str) -> str:
    """An object's key as the path of a URL, encoded as the signature wants it."""
    return quote(key, safe="/-_.~")


def signed_headers(
    url: str,
    credentials: Credentials,
    *,
    region: str,
    timestamp: str,
    headers: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """All headers of a GET without a query, `headers` and the signature included. `timestamp`: UTC, as 20130524T000000Z."""
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
    signature = hmac.new(_key(credentials, timestamp[:8], region), to_sign.encode(), hashlib.sha256).hexdigest()
    return {
        **signed,
        "authorization": f"{ALGORITHM} Credential={credentials.access_key_id}/{scope}, "
        f"SignedHeaders={listed}, Signature={signature}",
    }


def _key(credentials: Credentials, day: str, region: str) -> bytes:
    key = f"AWS4{credentials.secret_access_key}".encode()
    for part in (day, region, SERVICE, "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
