"""The variables of the preparation: a proxy that they name sees what is fetched, and never a
server."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from benchrun_client.contract import DataFile
from benchrun_client.datasets.files import fetch
from benchrun_client.http_session import open_session, proxies_set
from benchrun_client.preparation import Preparation
from unit.client.servers import answering, serving

_PROXY = """
import http.server, sys, urllib.request
class Proxy(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        print("seen", self.path, flush=True)
        direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        body = direct.open(self.path).read()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
print(server.server_address[1], flush=True)
server.serve_forever()
"""
VARIABLES = ["http_proxy", "HTTPS_PROXY"]


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """Run an HTTP proxy in a process of its own, which prints every request that it sees."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _PROXY, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        port = int(await process.stdout.readline())
        yield f"http://127.0.0.1:{port}", process
    finally:
        process.kill()
        await process.wait()


async def seen_by(process: asyncio.subprocess.Process) -> list[str]:
    """End the proxy; return the URLs that it saw."""
    process.kill()
    assert process.stdout is not None
    return [
        line.split()[1].decode()
        for line in (await process.stdout.read()).splitlines()
    ]


async def test_the_proxy_sees_the_preparation_and_never_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    async with (
        serving(rows=answering(200, text="[]"), health=answering(200)) as url,
        proxy() as (address, process),
    ):
        for name in VARIABLES:
            monkeypatch.setenv(name, address)
        preparation = Preparation(VARIABLES)
        (await fetch(DataFile(url=f"{url}/rows"), max_bytes=100)).unlink()
        preparation.end()
        assert not proxies_set()  # vLLM's sessions are opened by it
        async with (
            open_session(tls=None, seconds=10) as session,
            session.get(f"{url}/health") as answer,
        ):
            assert answer.status == 200
        assert await seen_by(process) == [f"{url}/rows"]


async def test_processes_that_prepare_too_keep_the_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("OTHER", "stays")
    preparation = Preparation(["http_proxy", "NOT_SET"])
    preparation.end()
    assert preparation.environment["http_proxy"] == "http://proxy.example:3128"
    assert "http_proxy" not in os.environ
    assert os.environ["OTHER"] == "stays"
