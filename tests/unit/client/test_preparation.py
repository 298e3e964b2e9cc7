"""The variables of the preparation: a proxy that they name sees what is fetched, and never a
server."""

import os

import pytest
from benchrun_client.access import key_access
from benchrun_client.contract import DataFile
from benchrun_client.datasets.files import fetch
from benchrun_client.http_session import open_session, proxies_set
from benchrun_client.preparation import Preparation
from kit.counting_proxy import counting_proxy
from unit.client.servers import answering, serving

VARIABLES = ["http_proxy", "HTTPS_PROXY"]


async def test_the_proxy_sees_the_preparation_and_never_the_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    handlers = {"rows": answering(200, text="[]"), "health": answering(200)}
    async with serving(**handlers) as url:
        with counting_proxy() as proxy:
            await _prepare_and_measure(url, proxy.url, monkeypatch)
            assert proxy.seen() == [f"{url}/rows"]


async def _prepare_and_measure(
    url: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, proxy)
    preparation = Preparation(VARIABLES)
    (await fetch(DataFile(url=f"{url}/rows"), max_bytes=100)).unlink()
    preparation.end()
    assert not proxies_set()  # vLLM's sessions are opened by it
    async with (
        open_session(access=key_access(), seconds=10) as session,
        session.get(f"{url}/health") as answer,
    ):
        assert answer.status == 200


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
