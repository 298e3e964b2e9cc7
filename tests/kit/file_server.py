"""A web server and an object store in one script that needs nothing but Python.

Tests mount it into a pod. `/files/NAME` is for anybody. `/login` is a web page, and `/moved` leads
there. Everything else is the `/BUCKET/KEY` of an object store, for clients that sign their requests
(AWS Signature Version 4). The signature is checked from AWS's own description, with nothing of the
client that is under test.
"""

import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

PORT = 8000
AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=(?P<id>[^/]+)/(?P<day>\d{8})/(?P<region>[^/]+)/s3/aws4_request, "
    r"SignedHeaders=(?P<signed>[a-z0-9;-]+), Signature=(?P<signature>[0-9a-f]{64})"
)
# headers that a signature must cover
NEEDED = {
    "host",
    "x-amz-content-sha256",
    "x-amz-date",
}
TOLERANCE = timedelta(minutes=15)
NO_BODY = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True)
class Account:
    """Who may read the store."""

    key_id: str
    secret: str
    region: str


def refusal(
    path: str, headers: Mapping[str, str], account: Account, *, now: datetime
) -> str | None:
    """Return why a GET of this path, as it came over the wire, is refused; None if it is not.

    `headers` have names in lower case.
    """
    found = AUTHORIZATION.fullmatch(headers.get("authorization", ""))
    if found is None:
        return "AccessDenied"
    signed = found["signed"].split(";")
    if (found["id"], found["region"]) != (account.key_id, account.region):
        return "InvalidAccessKeyId"
    if (
        not set(signed) >= NEEDED
        or signed != sorted(signed)
        or headers["x-amz-content-sha256"] != NO_BODY
    ):
        return "AuthorizationHeaderMalformed"
    sent = datetime.strptime(headers["x-amz-date"], "%Y%m%dT%H%M%SZ").replace(
        tzinfo=UTC
    )
    if abs(now - sent) > TOLERANCE or f"{sent:%Y%m%d}" != found["day"]:
        return "RequestTimeTooSkewed"
    right = _signature(
        path, [(name, headers.get(name, "")) for name in signed], account, sent
    )
    return (
        None
        if hmac.compare_digest(right, found["signature"])
        else "SignatureDoesNotMatch"
    )


def _signature(
    path: str, signed: list[tuple[str, str]], account: Account, sent: datetime
) -> str:
    lines = "".join(f"{name}:{' '.join(value.split())}\n" for name, value in signed)
    request = (
        f"GET\n{path}\n\n{lines}\n{';'.join(name for name, _ in signed)}\n{NO_BODY}"
    )
    parts = (f"{sent:%Y%m%d}", account.region, "s3", "aws4_request")
    key = b"AWS4" + account.secret.encode()
    for part in parts:
        key = hmac.digest(key, part.encode(), "sha256")
    digest = hashlib.sha256(request.encode()).hexdigest()
    text = f"AWS4-HMAC-SHA256\n{sent:%Y%m%dT%H%M%SZ}\n{'/'.join(parts)}\n{digest}"
    return hmac.digest(key, text.encode(), "sha256").hex()


class Handler(BaseHTTPRequestHandler):
    """Serves files of `folder`: `files/NAME` and `store/BUCKET/KEY`."""

    folder: Path
    account: Account

    def do_GET(self) -> None:
        """Answer a GET request."""
        path = self.path.partition("?")[0]
        if path == "/moved":
            self._answer(302, b"", Location="/login")
        elif path == "/login":
            page = b"<!DOCTYPE html><html>Who are you?</html>"
            self._answer(200, page, **{"Content-Type": "text/html; charset=utf-8"})
        elif path.startswith("/files/"):
            self._hand_out(self.folder / unquote(path[1:]))
        else:
            headers = {name.lower(): value for name, value in self.headers.items()}
            refused = refusal(path, headers, self.account, now=datetime.now(UTC))
            if refused is None:
                self._hand_out(self.folder / "store" / unquote(path[1:]))
            else:
                self._answer(403, refused.encode())

    def _hand_out(self, file: Path) -> None:
        self._answer(200, file.read_bytes()) if file.is_file() else self._answer(
            404, b"NoSuchKey"
        )

    def _answer(self, status: int, body: bytes, **headers: str) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": "application/octet-stream",
            **headers,
        }.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


if __name__ == "__main__":
    Handler.folder = Path(os.environ["FOLDER"])
    Handler.account = Account(
        os.environ["KEY_ID"], os.environ["SECRET"], os.environ["REGION"]
    )
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()
