"""A small hub in one script that needs nothing but Python: the API by which models are downloaded.

Tests run it beside a client, or mount it into a pod. It counts the bytes of files that it hands out,
and misbehaves as told: `Trouble` by the path of a request. `/counted` says how many bytes of
which file it has handed out.
"""

import hashlib
import json
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

PORT = 8000
API = re.compile(
    r"/api/models/(?P<repo>[^/]+/[^/]+)(?:/(?P<what>revision|tree)/(?P<rev>[^/?]+))?"
)
FILE = re.compile(r"/(?P<repo>[^/]+/[^/]+)/resolve/(?P<rev>[^/]+)/(?P<path>[^?]+)")
_CHUNK = 65_536


@dataclass
class Trouble:
    """What the hub does wrong with requests whose path contains `part`, `times` times."""

    part: str
    status: int = 0  # 0: the right one.
    headers: Mapping[str, str] = field(default_factory=dict)
    half: bool = False  # Whether the body ends in the middle.
    times: int = 1_000_000


@dataclass
class Shelf:
    """The models of a hub: files by path, commit by commit."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)
    repository: str = "org/tiny"
    troubles: list[Trouble] = field(default_factory=list)
    token: str | None = None  # The token that files need; None: they are open.
    seconds_a_chunk: float = 0.0
    requests: Counter[str] = field(default_factory=Counter)  # By path.
    handed_out: Counter[str] = field(
        default_factory=Counter
    )  # Bytes of files, by name.
    lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, files: Mapping[str, bytes], *, branch: str = "main") -> str:
        """Add a commit with these files, which the branch then names; return it."""
        text = "".join(
            f"{n} {hashlib.sha1(b).hexdigest()}" for n, b in files.items()
        )
        commit = hashlib.sha1(text.encode()).hexdigest()
        self.commits[commit] = dict(files)
        self.branches[branch] = commit
        return commit

    def named(self, revision: str) -> str | None:
        commit = self.branches.get(revision, revision)
        return commit if commit in self.commits else None

    def trouble(self, command: str, path: str) -> Trouble | None:
        """Return what goes wrong with this request; each time counts. A HEAD has no half."""
        with self.lock:
            self.requests[path] += 1
            for each in self.troubles:
                is_meant = each.part in path and not (
                    each.half and command == "HEAD"
                )
                if is_meant and each.times > 0:
                    each.times -= 1
                    return each
        return None


def is_lfs(path: str) -> bool:
    """Return whether the hub keeps a file as a large one."""
    return path.endswith((".safetensors", ".bin"))


def blob_of(path: str, body: bytes) -> str:
    """Return the name of a file's content, which is its ETag."""
    if is_lfs(path):
        return hashlib.sha256(body).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(body) + body).hexdigest()


class Handler(BaseHTTPRequestHandler):
    shelf: Shelf
    protocol_version = "HTTP/1.1"

    def handle(self) -> None:
        """Answer requests until the client goes, also in the middle of a file."""
        with suppress(ConnectionError):
            super().handle()

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        """Answer what a file is."""
        self._answer_any()

    def do_GET(self) -> None:
        """Answer a question of the API, or with a file."""
        self._answer_any()

    def _answer_any(self) -> None:
        trouble = self.shelf.trouble(self.command, self.path)
        if trouble is not None and trouble.status:
            self._send(
                trouble.status, b'{"error":"as told"}', dict(trouble.headers)
            )
        elif self.path == "/counted":
            self._send(200, json.dumps(self.shelf.handed_out).encode(), {})
        elif (asked := API.match(self.path)) is not None:
            self._answer_api(asked)
        elif (asked := FILE.match(self.path)) is not None:
            self._hand_out(asked, half=trouble is not None and trouble.half)
        else:
            self._not_found("EntryNotFound")

    def _not_found(self, code: str) -> None:
        self._send(404, b"{}", {"X-Error-Code": code})

    def _answer_api(self, asked: re.Match[str]) -> None:
        if asked["repo"] != self.shelf.repository:
            return self._not_found("RepoNotFound")
        commit = self.shelf.named(unquote(asked["rev"] or "main"))
        if commit is None:
            return self._not_found("RevisionNotFound")
        files = self.shelf.commits[commit]
        answer: Any = {
            "id": asked["repo"],
            "sha": commit,
            "siblings": [{"rfilename": path} for path in files],
        }
        if asked["what"] == "tree":
            answer = [_entry(path, body) for path, body in files.items()]
        return self._send(
            200, json.dumps(answer).encode(), {"Content-Type": "application/json"}
        )

    def _hand_out(self, asked: re.Match[str], *, half: bool) -> None:
        if self.shelf.token is not None and (
            self.headers.get("Authorization") != f"Bearer {self.shelf.token}"
        ):
            return self._send(401, b"{}", {"X-Error-Code": "GatedRepo"})
        commit = self.shelf.named(asked["rev"])
        path = unquote(asked["path"])
        body = None if commit is None else self.shelf.commits[commit].get(path)
        if commit is None or body is None:
            return self._not_found("EntryNotFound")
        headers = {
            "ETag": f'"{blob_of(path, body)}"',
            "X-Repo-Commit": commit,
            "Accept-Ranges": "bytes",
        }
        if is_lfs(path):
            headers |= {
                "X-Linked-Etag": headers["ETag"],
                "X-Linked-Size": str(len(body)),
            }
        begin = 0
        status = 200
        if asked_range := re.match(r"bytes=(\d+)-", self.headers.get("Range", "")):
            begin = int(asked_range[1])
            status = 206
            headers["Content-Range"] = f"bytes {begin}-{len(body) - 1}/{len(body)}"
        return self._send(status, body[begin:], headers, name=path, half=half)

    def _send(
        self,
        status: int,
        body: bytes,
        headers: Mapping[str, str],
        *,
        name: str | None = None,
        half: bool = False,
    ) -> None:
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        sent = body[: len(body) // 2] if half else body
        for start in range(0, len(sent), _CHUNK):
            chunk = sent[start : start + _CHUNK]
            if name is not None:
                # Before it is sent: who has read it may look at once how much there was.
                with self.shelf.lock:
                    self.shelf.handed_out[name] += len(chunk)
            self.wfile.write(chunk)
            if name is not None:
                time.sleep(self.shelf.seconds_a_chunk)
        if half:
            self.close_connection = True


def _entry(path: str, body: bytes) -> dict[str, Any]:
    large = {
        "lfs": {"oid": blob_of(path, body), "size": len(body), "pointerSize": 134}
    }
    return {
        "type": "file",
        "path": path,
        "size": len(body),
        "oid": blob_of("", body),
        **(large if is_lfs(path) else {}),
    }


class ProxyHandler(Handler):
    """An HTTP proxy to the hub: a request that names no host is none to a proxy."""

    def parse_request(self) -> bool:
        """Read a request, and leave of its URL what the hub is asked."""
        if not super().parse_request():
            return False
        asked = urlsplit(self.path)
        if not asked.netloc:
            self.send_error(400, "this is a proxy")
            return False
        self.path = urlunsplit(("", "", asked.path, asked.query, ""))
        return True


@contextmanager
def serving(
    shelf: Shelf, host: str = "127.0.0.1", *, kind: type[Handler] = Handler
) -> Iterator[str]:
    """Serve these models while the context lasts; its value is the hub's address."""
    handler = type("Of", (kind,), {"shelf": shelf})
    server = ThreadingHTTPServer((host, 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    folder = Path(os.environ["FOLDER"])
    Handler.shelf = Shelf(
        repository=os.environ["REPOSITORY"],
        seconds_a_chunk=float(os.environ.get("SECONDS_A_CHUNK", "0")),
    )
    Handler.shelf.put(
        {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    )
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()
