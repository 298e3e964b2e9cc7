"""Each mistake of a measurement that the simulator can stage, seen from outside."""

import asyncio
import json
import re
import time
from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from benchrun_simulator.launch import Running

Serve = Callable[..., Running]
QUICK = ("--sim-ttft-ms=1", "--sim-tpot-ms=1")
DEVELOPMENT = {"VLLM_SERVER_DEV_MODE": "1"}


async def complete(
    http: aiohttp.ClientSession, url: str, **fields: Any
) -> tuple[int, Any]:
    body = {"prompt": "abc", "max_tokens": 10, "ignore_eos": True, **fields}
    async with http.post(f"{url}/v1/completions", json=body) as response:
        return response.status, await response.json()


async def streamed(
    http: aiohttp.ClientSession, url: str, *, tokens: int = 10
) -> list[str]:
    body = {
        "prompt": "abc",
        "max_tokens": tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    async with http.post(
        f"{url}/v1/completions", json={**body, "ignore_eos": True}
    ) as response:
        assert response.status == 200
        return [
            line.removeprefix("data: ")
            for line in (await response.text()).split("\n\n")
            if line
        ]


def words(events: list[str]) -> list[str]:
    chunks = [json.loads(event) for event in events if event != "[DONE]"]
    return [chunk["choices"][0]["text"] for chunk in chunks if chunk["choices"]]


async def metric(http: aiohttp.ClientSession, url: str, name: str) -> float:
    async with http.get(f"{url}/metrics") as response:
        assert response.status == 200
        text = await response.text()
    found = re.findall(rf"^{name}(?:{{.*}})? (\S+)$", text, flags=re.MULTILINE)
    assert found, name
    return sum(map(float, found))


async def reset(http: aiohttp.ClientSession, url: str) -> bool:
    async with http.post(f"{url}/reset_prefix_cache") as response:
        assert response.status == 200
        return bool((await response.json())["success"])


async def test_a_gateway_rejects_a_share(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-reject-percent=25").url
    answers = [await complete(http, url) for _ in range(8)]
    assert [status for status, _ in answers] == [200, 200, 200, 429] * 2
    assert answers[3][1]["error"]["type"] == "Too Many Requests"
    assert await metric(http, url, "vllm:admission_rejections_total") == 0


async def test_the_server_refuses_beyond_its_own_limit(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(
        "--sim-ttft-ms=300", "--max-num-seqs=1", "--max-num-queued-reqs=3"
    ).url
    answers = await asyncio.gather(
        *(complete(http, url, max_tokens=1) for _ in range(5))
    )
    refused = [body for status, body in answers if status == 503]
    assert sorted(status for status, _ in answers) == [200, 200, 200, 503, 503]
    assert refused[0]["error"]["message"].startswith(
        "The engine is currently busy and cannot accept new requests."
    )
    assert await metric(http, url, "vllm:admission_rejections_total") == 2


async def test_the_server_refuses_beyond_its_prefill_backlog(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve("--sim-ttft-ms=300", "--max-num-queued-tokens=5").url
    answers = await asyncio.gather(
        *(complete(http, url, max_tokens=1) for _ in range(4))
    )
    assert sorted(status for status, _ in answers) == [200, 200, 503, 503]


async def test_streams_lose_their_end_without_an_error(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-drop-end-percent=50").url
    whole = await streamed(http, url, tokens=30)
    cut = await streamed(http, url, tokens=30)
    assert (len(words(whole)), whole[-1]) == (30, "[DONE]")
    assert words(cut) == words(whole)[:27]
    assert not any("usage" in event or "[DONE]" in event for event in cut)
    assert await metric(http, url, "vllm:generation_tokens_total") == 60
    assert await metric(http, url, "vllm:request_success_total") == 2


async def test_usage_counts_are_wrong_and_the_servers_own_right(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-usage-percent=90").url
    _, answer = await complete(http, url, prompt="x" * 20, max_tokens=50)
    assert answer["usage"] == {
        "prompt_tokens": 18,
        "completion_tokens": 45,
        "total_tokens": 63,
    }
    assert (
        json.loads((await streamed(http, url, tokens=50))[-2])["usage"][
            "completion_tokens"
        ]
        == 45
    )
    assert await metric(http, url, "vllm:generation_tokens_total") == 100


@pytest.mark.parametrize(
    ("tokens", "sizes"), [(11, [1, 4, 4, 2]), (1, [1]), (5, [1, 4])]
)
async def test_chunks_bundle_tokens(
    serve: Serve, http: aiohttp.ClientSession, tokens: int, sizes: list[int]
) -> None:
    url = serve(*QUICK, "--stream-interval=4").url
    events = await streamed(http, url, tokens=tokens)
    _, whole = await complete(http, url, max_tokens=tokens)
    assert list(map(len, words(events))) == sizes
    assert "".join(words(events)) == whole["choices"][0]["text"]
    assert json.loads(events[-2])["usage"]["completion_tokens"] == tokens
    assert await metric(
        http, url, "vllm:inter_token_latency_seconds_count"
    ) == 2 * (tokens - 1)


@pytest.mark.parametrize(
    ("flags", "tokens"),
    [
        (("--sim-output-percent=60",), 6),
        (("--sim-early-stop-after-tokens=4", "--sim-ignore-ignore-eos"), 4),
    ],
)
async def test_answers_are_short_although_the_end_is_to_be_ignored(
    serve: Serve, http: aiohttp.ClientSession, flags: tuple[str, ...], tokens: int
) -> None:
    url = serve(*QUICK, *flags).url
    _, answer = await complete(http, url)
    assert (
        answer["usage"]["completion_tokens"],
        answer["choices"][0]["finish_reason"],
    ) == (
        tokens,
        "stop",
    )
    assert await metric(http, url, "vllm:generation_tokens_total") == tokens


async def test_others_are_served_too(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(
        *QUICK,
        "--sim-foreign-rate=200",
        "--sim-foreign-prompt-tokens=32",
        "--sim-foreign-output-tokens=2",
    ).url
    while (requests := await metric(http, url, "vllm:request_success_total")) < 5:
        pass
    assert await metric(http, url, "vllm:generation_tokens_total") >= 2 * requests
    assert await metric(http, url, "vllm:prompt_tokens_total") >= 32 * requests
    assert await metric(http, url, "vllm:prefix_cache_hits_total") == 0
    status, _ = await complete(http, url)
    assert status == 200


async def test_prompts_are_found_that_this_client_never_sent(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(
        "--sim-ttft-ms=1",
        "--sim-prefill-us-per-token=1000",
        "--sim-foreign-hits-percent=50",
    ).url
    await complete(http, url, prompt="x" * 321, max_tokens=1)
    assert await metric(http, url, "vllm:prefix_cache_hits_total") == 160
    assert await metric(http, url, "vllm:prompt_tokens_cached_total") == 160
    assert (
        0.162
        <= await metric(http, url, "vllm:time_to_first_token_seconds_sum")
        < 0.322
    )


async def test_counters_begin_anew(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-counters-fall-at-request=3").url
    seen = []
    for _ in range(3):
        await complete(http, url, prompt="x" * 40)
        names = (
            "vllm:generation_tokens_total",
            "vllm:prefix_cache_queries_total",
            "vllm:request_success_total",
        )
        seen.append([await metric(http, url, name) for name in names])
    assert seen == [[10, 40, 1], [20, 80, 2], [10, 40, 1]]


async def test_the_process_seems_to_have_restarted(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-restart-look-at-request=2").url
    seen = []
    for _ in range(3):
        await complete(http, url)
        seen.append(await metric(http, url, "process_start_time_seconds"))
    assert seen[0] < seen[1] == seen[2]
    assert await metric(http, url, "vllm:generation_tokens_total") == 30


async def test_gauges_lie(serve: Serve, http: aiohttp.ClientSession) -> None:
    url = serve(
        "--sim-ttft-ms=400", "--max-num-seqs=2", "--sim-gauges-percent=150"
    ).url
    requests = [
        asyncio.ensure_future(complete(http, url, max_tokens=1)) for _ in range(6)
    ]
    while await metric(http, url, "vllm:num_requests_waiting") != 1.5 * 4:
        pass
    assert await metric(http, url, "vllm:num_requests_waiting_by_reason") == 1.5 * 4
    assert await metric(http, url, "vllm:num_requests_running") == 1.5 * 2
    await asyncio.gather(*requests)


async def test_a_share_of_scrapes_fails(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve("--sim-metrics-fail-percent=50").url
    seen = []
    for _ in range(4):
        async with http.get(f"{url}/metrics") as response:
            seen.append(response.status)
    assert seen == [200, 500, 200, 500]


async def test_resets_fail_at_first(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve("--sim-reset-fails=2", variables=DEVELOPMENT).url
    assert [await reset(http, url) for _ in range(3)] == [False, False, True]


async def test_a_reset_that_lies_leaves_the_cache(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-reset-lies", variables=DEVELOPMENT).url
    await complete(http, url, prompt="x" * 40)
    assert await reset(http, url)
    await complete(http, url, prompt="x" * 40)
    assert await metric(http, url, "vllm:prefix_cache_hits_total") == 32


async def test_a_compilation_stalls_and_is_reported_in_the_log(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    server = serve(*QUICK, "--sim-jit-at-request=2", "--sim-jit-ms=300")
    first_tokens = []
    for _ in range(3):
        before = await metric(
            http, server.url, "vllm:time_to_first_token_seconds_sum"
        )
        await complete(http, server.url)
        first_tokens.append(
            await metric(http, server.url, "vllm:time_to_first_token_seconds_sum")
            - before
        )
    assert min(first_tokens[0], first_tokens[2]) < 0.2
    assert first_tokens[1] >= 0.301
    server.process.terminate()
    assert server.process.stdout is not None
    warnings = [line for line in server.process.stdout if "WARNING" in line]
    assert len(warnings) == 1
    assert re.match(
        r"\(EngineCore pid=\d+\) WARNING \d\d-\d\d \d\d:\d\d:\d\d \[jit_monitor\.py:\d+\] "
        r"Triton kernel JIT compilation during inference: ",
        warnings[0],
    )


async def test_waiting_for_the_token_budget(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    flags = (
        "--sim-prefill-serial",
        "--max-num-batched-tokens=100",
        "--sim-prefill-us-per-token=3000",
    )
    url = serve("--sim-ttft-ms=1", *flags).url
    requests = [
        asyncio.ensure_future(
            complete(http, url, prompt=[number] * 100, max_tokens=1)
        )
        for number in range(4)
    ]
    while await metric(http, url, "vllm:num_requests_waiting") != 3:
        pass
    assert await metric(http, url, "vllm:num_requests_running") == 1
    assert await metric(http, url, "vllm:kv_cache_usage_perc") < 0.01
    await asyncio.gather(*requests)


async def test_one_request_is_preempted(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-preempt-at-request=2").url
    for _ in range(3):
        status, _ = await complete(http, url)
        assert status == 200
    assert await metric(http, url, "vllm:num_preemptions_total") == 1
    assert await metric(http, url, "vllm:generation_tokens_total") == 30


async def test_over_a_slow_way_all_comes_late_and_the_server_does_not_know(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-way-ms=300").url
    began = asyncio.get_running_loop().time()
    events = await streamed(http, url)
    assert asyncio.get_running_loop().time() - began >= 0.3
    assert (len(words(events)), events[-1]) == (10, "[DONE]")
    assert await metric(http, url, "vllm:time_to_first_token_seconds_sum") < 0.3
    assert (await complete(http, url))[0] == 200


async def test_another_chat_template_makes_every_prompt_longer(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(*QUICK, "--sim-template-tokens=7").url
    _, answer = await complete(http, url)
    assert answer["usage"]["prompt_tokens"] == 3 + 7


async def test_a_busy_front_end_is_in_no_ttft_of_the_server(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve("--sim-ttft-ms=1", "--sim-tpot-ms=1", "--sim-frontend-ms=40").url
    cpu_before = await metric(http, url, "process_cpu_seconds_total")
    sent = time.perf_counter()
    await complete(http, url, max_tokens=1)
    assert time.perf_counter() - sent >= 0.040
    assert await metric(http, url, "vllm:time_to_first_token_seconds_sum") < 0.030
    assert (
        await metric(http, url, "process_cpu_seconds_total") >= cpu_before + 0.035
    )
