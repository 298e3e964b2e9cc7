"""What is no completion: answered by decode, or done by all."""

from __future__ import annotations

import json

import pytest
from unit.client.proxy.between import Server, between, prefilling, saying

RESET = "/reset_prefix_cache"


async def test_decode_answers_for_both() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        async with proxy.http.get(f"{proxy.url}/v1/models") as response:
            assert (await response.json())["data"][0]["id"] == "m"
        async with proxy.http.get(f"{proxy.url}/version") as response:
            assert await response.json() == {"version": "0.32.0"}
        status, body = await proxy.ask({"prompt": "four"}, path="/tokenize", Authorization="Bearer k")
        assert (status, json.loads(body)) == (200, {"count": 4, "key": "Bearer k"})
        assert await proxy.outcomes() == {}


async def test_what_decode_does_not_know_is_its_answer_too() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(path="/detokenize"))[0] == 404


@pytest.mark.parametrize("path", ["/metrics/", "/v1/embeddings", "/sleep", "/collective_rpc"])
async def test_nothing_else_goes_anywhere(path: str) -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        assert (await proxy.ask(path=path))[0] == 404
        assert (proxy.prefill.asked, proxy.decode.asked) == ([], [])


async def test_a_reset_is_done_by_every_server() -> None:
    async with between(prefilling(), Server(saying("{}"))) as proxy:
        status, body = await proxy.ask(path=RESET)
        assert (status, json.loads(body)["success"]) == (200, True)
        assert proxy.prefill.resets == proxy.decode.resets == [f"{RESET}?reset_external=true"]


@pytest.mark.parametrize("role", ["prefill", "decode"])
async def test_one_server_that_did_not_makes_it_no_success(role: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchrun_client.server.canary.RESET_SECONDS", 0.1)
    servers = {"prefill": prefilling(), "decode": Server(saying("{}"))}
    servers[role].reset_answer = '{"success": false}'
    async with between(servers["prefill"], servers["decode"]) as proxy:
        status, body = await proxy.ask(path=RESET)
        answer = json.loads(body)
        assert (status, answer["success"]) == (200, False)
        assert answer["answer"].startswith(servers[role].url.removeprefix("http://"))
