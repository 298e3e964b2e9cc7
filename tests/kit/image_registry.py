"""A private registry over OCI archives: one user with a password may pull, nobody may push."""

import base64
import hashlib
import json
import re
import tarfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from kit.kubectl import Object

_PATH = re.compile(
    r"/v2/(?P<name>.+)/(?P<kind>manifests|blobs)/(?P<reference>[^/]+)"
)
_CHUNK = 1 << 20


@dataclass
class Registry:
    """Images by repository, from archives that hold one image each."""

    archives: Mapping[str, Path]
    tag: str
    user: str = "stranger"
    password: str = "not-for-everybody"
    refused: int = 0  # Requests without the user's password.
    pulled: Counter[str] = field(
        default_factory=Counter
    )  # Manifests, by repository.

    @property
    def login(self) -> str:
        """The header of a request that is answered."""
        pair = f"{self.user}:{self.password}".encode()
        return f"Basic {base64.b64encode(pair).decode()}"

    def pull_secret(self, name: str, address: str) -> Object:
        """Build the Secret by which pods pull from this registry."""
        auth = {"username": self.user, "password": self.password}
        config = {"auths": {address: auth}}
        return {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/dockerconfigjson",
            "metadata": {"name": name},
            "stringData": {".dockerconfigjson": json.dumps(config)},
        }

    def manifest(self, name: str, reference: str) -> tuple[str, bytes] | None:
        """Return the media type and the text of an image's manifest; None: there is none."""
        if name not in self.archives:
            return None
        with tarfile.open(self.archives[name]) as archive:
            index = archive.extractfile("index.json")
            assert index is not None
            (entry,) = json.load(index)["manifests"]
            if reference not in (self.tag, entry["digest"]):
                return None
            return entry["mediaType"], _read(archive, entry["digest"])


def _read(archive: tarfile.TarFile, digest: str) -> bytes:
    file = archive.extractfile(f"blobs/{digest.replace(':', '/')}")
    assert file is not None
    return file.read()


class _Handler(BaseHTTPRequestHandler):
    registry: Registry
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        if self.headers.get("Authorization") != self.registry.login:
            self.registry.refused += 1
            self._begin(401, 0, {"WWW-Authenticate": 'Basic realm="registry"'})
        elif self.path == "/v2/":
            self._begin(200, 0, {})
        elif (asked := _PATH.fullmatch(self.path)) is None:
            self._begin(404, 0, {})
        elif asked["kind"] == "manifests":
            self._manifest(asked["name"], asked["reference"])
        else:
            self._blob(asked["name"], asked["reference"])

    def _begin(self, status: int, length: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def _manifest(self, name: str, reference: str) -> None:
        found = self.registry.manifest(name, reference)
        if found is None:
            return self._begin(404, 0, {})
        media, body = found
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        headers = {"Content-Type": media, "Docker-Content-Digest": digest}
        self._begin(200, len(body), headers)
        if self.command == "GET":
            self.registry.pulled[name] += 1
            self.wfile.write(body)
        return None

    def _blob(self, name: str, digest: str) -> None:
        path = self.registry.archives.get(name)
        if path is None:
            return self._begin(404, 0, {})
        with tarfile.open(path) as archive:
            try:
                member = archive.getmember(f"blobs/{digest.replace(':', '/')}")
            except KeyError:
                return self._begin(404, 0, {})
            file = archive.extractfile(member)
            assert file is not None
            headers = {
                "Content-Type": "application/octet-stream",
                "Docker-Content-Digest": digest,
            }
            self._begin(200, member.size, headers)
            while self.command == "GET" and (chunk := file.read(_CHUNK)):
                self.wfile.write(chunk)
        return None


@contextmanager
def serving(registry: Registry, host: str) -> Iterator[str]:
    """Serve the images at an address of this machine; the value is HOST:PORT."""
    handler = type("Of", (_Handler,), {"registry": registry})
    server = ThreadingHTTPServer((host, 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
