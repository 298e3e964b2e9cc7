"""A hostile client: its records are small and unpack to more than an operator's memory.

It is one script that needs nothing but Python: tests serve it from their own process, or mount it
into a pod in place of an image's entry point.

An operator that sends a token speaks version 2 of the contract (a line of JSON, then the packed
bodies), one that sends none speaks version 1 (JSON with the bodies in base64). Both are answered in
their own version, so that nothing is refused for its form.
"""

import argparse
import base64
import gzip
import hashlib
import json
import socket
import threading
import time
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

# just below the largest record that was accepted
UNFOLDED_BYTES = 8 * 1024 * 1024 - 1024
ZEROS = 900 * 1024 * 1024


def _list_of(entry: str) -> bytes:
    """Return a record whose gaps are this entry, over and over."""
    entries = UNFOLDED_BYTES // (len(entry) + 1)
    return gzip.compress(
        b'{"gaps":{"us":[' + ",".join([entry] * entries).encode() + b"]}}", mtime=0
    )


def _endless() -> bytes:
    """Return a gzip stream below a megabyte that unpacks to 900 of them."""
    block = bytes(1024 * 1024)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    once = deflate.compress(block) + deflate.flush(zlib.Z_FULL_FLUSH)
    body = (
        b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff"
        + once * (ZEROS // len(block))
        + deflate.flush()
    )
    crc = 0
    for _ in range(ZEROS // len(block)):
        crc = zlib.crc32(block, crc)
    return body + crc.to_bytes(4, "little") + ZEROS.to_bytes(4, "little")


BOMBS: dict[str, Callable[[], bytes]] = {
    "zeros": lambda: _list_of("0"),
    "negative": lambda: _list_of("-1"),
    "texts": lambda: _list_of('""'),
    "objects": lambda: _list_of("{}"),
    "deep": lambda: gzip.compress(b'{"gaps":' + b"[" * UNFOLDED_BYTES, mtime=0),
    "endless": _endless,
}
"""What the bodies unfold to -> the function that makes one."""


class HostileClient(ThreadingHTTPServer):
    """Serves as many bombs as the plan has stages, all at once and as often as requested."""

    daemon_threads = True

    def __init__(
        self,
        address: str,
        port: int,
        *,
        plan: str,
        body: bytes = b"",
        only_version: int | None = None,
    ) -> None:
        """Answer in `only_version` of the contract; None: in the version of the request."""
        self.only_version = only_version
        self.plan: dict[str, Any] = json.loads(plan)
        self.plan_digest = hashlib.sha256(plan.encode()).hexdigest()
        self.body = body
        self.armed = threading.Event()
        """Set once there are records; before that, the client only waits for its server."""
        self.closing = threading.Event()
        super().__init__((address, port), _Handler)

    def start(self) -> None:
        """Serve beside the caller."""
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Stop serving."""
        self.armed.set()
        self.closing.set()
        self.shutdown()
        self.server_close()

    @property
    def records(self) -> int:
        """Return the number of records."""
        return len(self.plan["stages"])

    def progress(self) -> dict[str, Any]:
        """Return the progress: nothing yet, or everything at once."""
        if not self.armed.is_set():
            return {"version": 0, "phase": "Waiting", "records": 0}
        now = int(time.time() * 1e6)
        instants = {"healthy_unix_us": now, "first_request_unix_us": now}
        return {"version": 1, "phase": "Done", "records": self.records, **instants}

    def answer(self, first: int, *, version: int) -> tuple[str, bytes]:
        """Return content type and delivery."""
        digest = hashlib.sha256(self.body).hexdigest()
        delivery: dict[str, Any] = {
            "run_uid": self.plan["run_uid"],
            "progress": self.progress(),
        }
        made = self.records if self.armed.is_set() else 0
        wanted = range(min(first, made), made)
        if version == 1:
            payload = base64.b64encode(self.body).decode()
            records = [
                {"sequence": n, "digest": digest, "payload": payload}
                for n in wanted
            ]
            return "application/json", json.dumps(
                {**delivery, "records": records}
            ).encode()
        records = [
            {**self._envelope(n), "size": len(self.body), "digest": digest}
            for n in wanted
        ]
        head = json.dumps(
            {"contract": version, **delivery, "records": records}
        ).encode()
        return "application/octet-stream", head + b"\n" + self.body * len(records)

    def _envelope(self, sequence: int) -> dict[str, Any]:
        return {
            "sequence": sequence,
            "run_uid": self.plan["run_uid"],
            "stage_id": self.plan["stages"][sequence]["id"],
            "plan_digest": self.plan_digest,
            "ends_search": None,
        }


class _Handler(BaseHTTPRequestHandler):
    server: HostileClient

    def do_GET(self) -> None:
        path = urlsplit(self.path)
        if path.path != "/records":
            self._answer(200, "text/plain", b"ready\n")
            return
        query = {name: values[0] for name, values in parse_qs(path.query).items()}
        first = int(query.get("from", "0"))
        seen = int(query.get("seen", "-1"))
        wait = float(query.get("wait", "0"))
        if seen == 0:
            self.server.armed.wait(wait)
        elif seen > 0 and first >= self.server.records:
            self.server.closing.wait(wait)
        version = self.server.only_version or (
            2 if self.headers.get("Benchrun-Token") else 1
        )
        self._answer(200, *self.server.answer(first, version=version))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        self._answer(204, "text/plain", b"")

    def _answer(self, status: int, content_type: str, body: bytes) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except ConnectionError:
            pass  # the requester was killed meanwhile

    def log_message(self, format: str, *args: object) -> None:
        pass


def main() -> None:
    """Run with a client's own arguments, and whatever else the image puts before them."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--plan", required=True)
    parser.add_argument("--port", type=int, required=True)
    found, _ = parser.parse_known_args()
    client = HostileClient(
        "0.0.0.0",
        found.port,
        plan=Path(found.plan).read_text(),
        body=BOMBS["negative"](),
    )
    client.start()
    _until_served(client.plan["target"]["base_url"])
    client.armed.set()
    threading.Event().wait()


def _until_served(url: str) -> None:
    address = urlsplit(url)
    while True:
        try:
            socket.create_connection(
                (address.hostname or "", address.port or 80), timeout=1
            ).close()
            return
        except OSError:
            time.sleep(0.2)


if __name__ == "__main__":
    main()
