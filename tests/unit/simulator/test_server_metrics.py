"""/metrics: vLLM's names, and numbers that agree with what was served."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from benchrun_simulator.exposition import Histogram, counter, gauge, process_metrics
from benchrun_simulator.launch import Running
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

Serve = Callable[..., Running]
GOLDEN = Path(__file__).with_name("vllm_0_32_families.txt")


async def scrape(http: aiohttp.ClientSession, url: str) -> dict[str, Metric]:
    async with http.get(f"{url}/metrics") as response:
        assert response.status == 200
        text = await response.text()
    return {family.name: family for family in text_string_to_metric_families(text)}


def value(families: dict[str, Metric], name: str, **labels: str) -> float:
    found = [
        sample.value
        for family in families.values()
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    ]
    assert len(found) == 1, (name, found)
    return float(found[0])


async def complete(http: aiohttp.ClientSession, url: str, **body: Any) -> None:
    async with http.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200
        await response.read()


def family_line(family: Metric) -> tuple[str, str, frozenset[str]]:
    labels = frozenset(
        label
        for sample in family.samples
        for label in sample.labels
        if label != "le"
    )
    suffix = "_total" if family.type == "counter" else ""
    return family.name + suffix, family.type, labels


async def test_families_types_and_labels_are_those_of_vllm(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    golden = {}
    for line in GOLDEN.read_text().splitlines()[1:]:
        name, kind, *named = line.split(" ")
        golden[name] = kind, frozenset(named[0].split(",") if named else [])
    families = await scrape(http, serve().url)
    found = {
        name: (kind, labels)
        for name, kind, labels in map(family_line, families.values())
    }
    found = {
        name: line for name, line in found.items() if not name.endswith("_created")
    }
    kind, labels = found.pop("vllm:cache_config_info")
    golden_kind, golden_labels = golden.pop("vllm:cache_config_info")
    assert kind == golden_kind
    assert labels < golden_labels  # vLLM tells more of its configuration
    assert found == golden


async def test_counters_and_histograms_tell_what_was_served(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve("--sim-ttft-ms=30", "--sim-tpot-ms=10", "--block-size=8").url
    for _ in range(2):
        await complete(http, url, prompt="x" * 20, max_tokens=5)
    seen = await scrape(http, url)
    assert value(seen, "vllm:prompt_tokens_total") == 40
    assert value(seen, "vllm:generation_tokens_total") == 10
    assert value(seen, "vllm:prefix_cache_queries_total") == 40
    assert value(seen, "vllm:prefix_cache_hits_total") == 16
    assert (
        value(seen, "vllm:prompt_tokens_by_source_total", source="local_cache_hit")
        == 16
    )
    assert value(seen, "vllm:request_success_total", finished_reason="length") == 2
    assert value(seen, "vllm:inter_token_latency_seconds_count") == 8
    for name in (
        "request_queue_time",
        "request_prefill_time",
        "request_decode_time",
        "e2e_request_latency",
    ):
        assert value(seen, f"vllm:{name}_seconds_count") == 2
    assert value(seen, "vllm:iteration_tokens_total_sum") == 40 - 16 + 10
    first_tokens = value(seen, "vllm:time_to_first_token_seconds_sum")
    decode = value(seen, "vllm:request_decode_time_seconds_sum")
    assert first_tokens >= 0.06
    assert first_tokens + decode >= 0.06 + 0.08
    assert value(seen, "vllm:e2e_request_latency_seconds_sum") == pytest.approx(
        first_tokens + decode
    )


async def test_gauges_follow_what_runs_and_waits(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(
        "--sim-ttft-ms=1",
        "--sim-tpot-ms=20",
        "--max-num-seqs=2",
        "--sim-kv-tokens=16K",
    ).url
    requests = [
        asyncio.ensure_future(complete(http, url, prompt="x" * 640, max_tokens=50))
        for _ in range(5)
    ]
    while value(seen := await scrape(http, url), "vllm:num_requests_waiting") != 3:
        pass
    assert value(seen, "vllm:num_requests_running") == 2
    assert (
        value(seen, "vllm:num_requests_waiting_by_reason", reason="capacity") == 3
    )
    # 640 tokens are 40 of 1024 blocks, 39 of them shared; each of the two also holds blocks of its
    # own.
    assert 41 / 1024 <= value(seen, "vllm:kv_cache_usage_perc") <= 60 / 1024
    await asyncio.gather(*requests)
    seen = await scrape(http, url)
    assert (
        value(seen, "vllm:num_requests_running")
        == value(seen, "vllm:kv_cache_usage_perc")
        == 0
    )
    # One request takes 1 + 49 x 20 = 981 ms: two wait for one such span, the fifth for two.
    assert value(seen, "vllm:request_queue_time_seconds_sum") == pytest.approx(
        4 * 0.981, abs=0.3
    )


async def test_preemptions_are_counted(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(
        "--sim-ttft-ms=1",
        "--sim-tpot-ms=1",
        "--max-model-len=128",
        "--sim-kv-tokens=128",
    ).url
    bodies = [{"prompt": letter * 40, "max_tokens": 60} for letter in "ab"]
    await asyncio.gather(*(complete(http, url, **body) for body in bodies))
    seen = await scrape(http, url)
    assert value(seen, "vllm:num_preemptions_total") == 1
    assert value(seen, "vllm:generation_tokens_total") == 120


async def test_an_aborted_request_counts_its_tokens_but_no_request(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve("--sim-ttft-ms=1", "--sim-tpot-ms=30").url
    async with http.post(
        f"{url}/v1/completions",
        json={"prompt": "abc", "max_tokens": 99, "stream": True},
    ) as response:
        await response.content.readany()
        response.close()
    while value(seen := await scrape(http, url), "vllm:num_requests_running"):
        pass
    assert value(seen, "vllm:prompt_tokens_total") == 3
    assert value(seen, "vllm:generation_tokens_total") >= 1
    for reason in ("length", "abort"):
        assert (
            value(seen, "vllm:request_success_total", finished_reason=reason) == 0
        )


async def test_the_cache_configuration_is_reported(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    seen = await scrape(http, serve("--block-size=32", "--sim-kv-tokens=64K").url)
    sample = seen["vllm:cache_config_info"].samples[0]
    info = {
        name: sample.labels[name]
        for name in ("block_size", "num_gpu_blocks", "kv_cache_size_tokens")
    }
    assert info == {
        "block_size": "32",
        "num_gpu_blocks": "2048",
        "kv_cache_size_tokens": "65536",
    }


@pytest.mark.parametrize(
    "arguments", [("--sim-metrics=none",), ("--disable-log-stats",)]
)
async def test_without_statistics_only_the_process_is_left(
    serve: Serve, http: aiohttp.ClientSession, arguments: tuple[str, ...]
) -> None:
    families = await scrape(http, serve(*arguments).url)
    assert "process_start_time_seconds" in families
    assert not any(name.startswith("vllm:") for name in families)


async def test_old_names(serve: Serve, http: aiohttp.ClientSession) -> None:
    families = await scrape(http, serve("--sim-metrics=old-names").url)
    old = {
        "vllm:gpu_cache_usage_perc",
        "vllm:gpu_prefix_cache_hits",
        "vllm:time_per_output_token_seconds",
    }
    new = {
        "vllm:kv_cache_usage_perc",
        "vllm:prefix_cache_hits",
        "vllm:inter_token_latency_seconds",
    }
    assert old <= families.keys()
    assert not new & families.keys()


async def test_a_failing_page(serve: Serve, http: aiohttp.ClientSession) -> None:
    async with http.get(
        f"{serve('--sim-metrics=http500').url}/metrics"
    ) as response:
        assert response.status == 500


async def test_garbage_is_no_exposition(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    async with http.get(
        f"{serve('--sim-metrics=garbage').url}/metrics"
    ) as response:
        text = (await response.read()).decode(errors="replace")
    with pytest.raises(ValueError, match=r"."):
        list(text_string_to_metric_families(text))


async def test_an_endless_page_does_not_end(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    async with http.get(
        f"{serve('--sim-metrics=endless').url}/metrics"
    ) as response:
        received = 0
        while received < 50_000 and (piece := await response.content.readany()):
            received += len(piece)
    assert received >= 50_000


async def test_a_slow_page_holds_nothing_else_up(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(
        "--sim-slow-metrics-ms=700", "--sim-ttft-ms=1", "--sim-tpot-ms=1"
    ).url
    loop = asyncio.get_running_loop()
    started = loop.time()
    page = asyncio.ensure_future(scrape(http, url))
    await complete(http, url, prompt="abc", max_tokens=2)
    assert not page.done()
    await page
    assert loop.time() - started >= 0.7


# The text format, read back by Prometheus' own parser.


def values(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_labels_of_any_content_come_back_as_they_went() -> None:
    odd = 'a "quoted"\\path\nline'
    assert values(gauge("x", "about", [({"name": odd}, 1.5)])) == {
        ("x", (("name", odd),)): 1.5
    }


def test_a_counter_carries_its_suffix_and_its_creation() -> None:
    text = counter("x", "about", [({}, 3)], created=1.75e9)
    assert values(text) == {("x_total", ()): 3.0, ("x_created", ()): 1.75e9}


def test_buckets_are_cumulative_and_bounds_inclusive() -> None:
    histogram = Histogram("h", "about", (1, 2.5))
    for value in (0.5, 1.0, 2.5, 9.0):
        histogram.observe(value)
    read = values(histogram.render({}, created=1.0))
    assert [
        read["h_bucket", (("le", bound),)] for bound in ("1.0", "2.5", "+Inf")
    ] == [
        2.0,
        3.0,
        4.0,
    ]
    assert (read["h_count", ()], read["h_sum", ()]) == (4.0, 13.0)


def test_the_process_tells_when_it_started() -> None:
    assert (
        values(process_metrics(1234.5))["process_start_time_seconds", ()] == 1234.5
    )
