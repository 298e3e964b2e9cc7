"""Deliberate misbehaviour, seen from outside."""

import json
from collections.abc import Callable

import aiohttp
import pytest
from benchrun_simulator.launch import Running

Serve = Callable[..., Running]
QUICK = ("--sim-ttft-ms=1", "--sim-tpot-ms=1")


async def status(http: aiohttp.ClientSession, url: str) -> int:
    async with http.post(
        f"{url}/v1/completions", json={"prompt": "abc", "max_tokens": 3}
    ) as response:
        await response.read()
        return response.status


async def streamed(
    http: aiohttp.ClientSession, url: str, *, ignore_eos: bool = True
) -> str:
    body = {
        "prompt": "abc",
        "max_tokens": 10,
        "stream": True,
        "ignore_eos": ignore_eos,
    }
    async with http.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200
        return await response.text()


async def test_the_canary_fails_while_health_is_fine(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-canary-fails").url
    async with http.get(f"{url}/health") as response:
        assert response.status == 200
    assert [await status(http, url) for _ in range(3)] == [500, 200, 200]


async def test_a_share_of_requests_fails(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-error-percent=20").url
    assert [await status(http, url) for _ in range(10)] == [
        200,
        200,
        200,
        200,
        500,
    ] * 2


async def test_a_truncated_stream_is_a_200_with_an_error_event(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    text = await streamed(http, serve(*QUICK, "--sim-truncate-after-tokens=4").url)
    *tokens, error, done, end = text.split("\n\n")
    assert (len(tokens), done, end) == (4, "data: [DONE]", "")
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == 500


async def test_a_truncated_request_holds_nothing(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-truncate-after-tokens=4").url
    await streamed(http, url)
    async with http.get(f"{url}/metrics") as response:
        text = await response.text()
    assert 'vllm:num_requests_running{engine="0",model_name="tiny"} 0.0\n' in text
    assert (
        'vllm:generation_tokens_total{engine="0",model_name="tiny"} 4.0\n' in text
    )


async def test_a_connection_is_cut(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-reset-after-tokens=4").url
    with pytest.raises(aiohttp.ClientError):
        await streamed(http, url)


async def test_an_early_end_of_sequence_unless_it_is_ignored(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-early-stop-after-tokens=4").url
    stopped = await streamed(http, url, ignore_eos=False)
    ignored = await streamed(http, url, ignore_eos=True)
    assert stopped.count('"text"') == 4
    assert '"finish_reason":"stop"' in stopped
    assert ignored.count('"text"') == 10


async def test_the_process_dies_after_so_many_requests(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = serve(*QUICK, "--sim-die-after-requests=2")
    assert [await status(http, server.url) for _ in range(2)] == [200, 200]
    with pytest.raises(aiohttp.ClientError):
        await status(http, server.url)
    assert server.process.wait(timeout=5) == 1


async def test_health_comes_late(serve: Serve, http: aiohttp.ClientSession) -> None:
    url = serve("--sim-health-delay-seconds=0.5").url
    seen: list[int] = []
    while not seen or seen[-1] != 200:
        async with http.get(f"{url}/health") as response:
            seen.append(response.status)
    assert set(seen) == {503, 200}
