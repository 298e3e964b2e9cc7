"""Both load engines send the same requests, to the byte of their JSON: what differs between their figures is not the asking."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from client.processes import CLIENT_ROOT, VLLM_PYTHON
from client.rust_client import rust_client_on_path

PROMPTS = ["plain words", 'quotes " and \\ backslashes', "lines\nand\ttabs", "Grüße, 世界 🙂", " spaces around "]
ANSWER = (
    b'data: {"choices":[{"text":"a","delta":{"content":"a"}}]}\n\n'
    b'data: {"choices":[],"usage":{"completion_tokens":1,"prompt_tokens":2}}\n\n'
    b"data: [DONE]\n\n"
)
SEND = """
import asyncio, json, sys
from benchrun_client.contract import LoadPoint
from benchrun_client.datasets.samples import Sample
from benchrun_client.engine import Engine, Load
from benchrun_client.rust.engine import RustEngine
from benchrun_client.rust.finding import find_binary
from benchrun_client.target import Servers

url, prompts = sys.argv[1], json.loads(sys.argv[2])
engines = {
    "python": Engine(tokenizer=None, model="tiny", percentiles=("50",), tls=None),
    "rust": RustEngine(find_binary(), model="tiny", percentiles=("50",), ca_file=None),
}

async def main():
    for name, engine in engines.items():
        for api in ("Completions", "Chat"):
            for ignore_eos in (True, False):
                load = Load(
                    samples=[Sample(prompt, 2, 3 + n) for n, prompt in enumerate(prompts)],
                    seed=1, point=LoadPoint(max_concurrency=1), api=api, ignore_eos=ignore_eos,
                )
                outcome = await engine.run(load, Servers((f"{url}/{name}/{ignore_eos}",), ()))
                assert all(outcome.instants.ok), outcome.result["errors"]

asyncio.run(main())
"""

Seen = dict[str, list[tuple[dict[str, str], dict[str, Any]]]]


@contextmanager
def listening() -> Iterator[tuple[str, Seen]]:
    """A server that keeps what it is sent, by path, and answers each request with one token."""
    seen: Seen = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.setdefault(self.path, []).append(({k.lower(): v for k, v in self.headers.items()}, body))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(ANSWER)

        def log_message(self, *_: Any) -> None:
            """Nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture(scope="module")
def seen() -> Seen:
    environment = {"PYTHONPATH": str(CLIENT_ROOT), "OPENAI_API_KEY": "secret", "HF_HUB_OFFLINE": "1"}
    with rust_client_on_path(), listening() as (url, found):
        subprocess.run(
            [VLLM_PYTHON, "-c", SEND, url, json.dumps(PROMPTS)], env={**os.environ, **environment}, check=True
        )
        return found


@pytest.mark.parametrize("ignore_eos", ["True", "False"])
@pytest.mark.parametrize("path", ["/v1/completions", "/v1/chat/completions"])
def test_both_send_the_same_bodies(seen: Seen, path: str, ignore_eos: str) -> None:
    python, rust = (
        sorted(json.dumps(body, sort_keys=True) for _, body in seen[f"/{name}/{ignore_eos}{path}"])
        for name in ("python", "rust")
    )
    assert len(rust) == len(PROMPTS)
    assert rust == python


def test_both_show_the_key(seen: Seen) -> None:
    assert {headers["authorization"] for sent in seen.values() for headers, _ in sent} == {"Bearer secret"}
