"""Two servers that hand a prompt's blocks over, as two of vLLM 0.32 did with the same prompt."""

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from benchrun_simulator.arguments import parse
from benchrun_simulator.launch import Running
from benchrun_simulator.refusals import Refusal

Serve = Callable[..., Running]
PROMPT_TOKENS = 1000
BLOCK = 128
PREFILL_MS_PER_TOKEN = 1
REAL = {
    "prefill": {
        "external_prefix_cache_queries_total": 1000.0,
        "prompt_tokens_total": 1000.0,
        'prompt_tokens_by_source_total{source="local_compute"}': 1000.0,
        "request_prefill_kv_computed_tokens_sum": 1000.0,
    },
    "decode": {
        "external_prefix_cache_queries_total": 1000.0,
        "external_prefix_cache_hits_total": 896.0,
        "prompt_tokens_total": 1000.0,
        'prompt_tokens_by_source_total{source="local_compute"}': 104.0,
        'prompt_tokens_by_source_total{source="external_kv_transfer"}': 896.0,
        "prompt_tokens_cached_total": 896.0,
        'prompt_tokens_cached_by_source_total{source="external_unspecified"}': 896.0,
        "request_prefill_kv_computed_tokens_sum": 104.0,
    },
}
"""By what the counters rose when a prompt went through a real prefill server and then a real decode
server."""
REAL_RECOMPUTED = REAL["prefill"]
PAGES = Path(__file__).parents[1] / "measure" / "pages"
"""Of two real servers that had handed prompts over."""
NIXL = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
}


def flag(role: str, folder: Path | None = None) -> str:
    """The flag for one role: blocks on a shared folder, or handed over by request."""
    found: dict[str, Any] = {"kv_connector": "NixlConnector", "kv_role": role}
    if folder is not None:
        found = {"kv_connector": "ExampleConnector", "kv_role": role}
        found["kv_connector_extra_config"] = {"shared_storage_path": str(folder)}
    return f"--kv-transfer-config={json.dumps(found)}"


def server(serve: Serve, *flags: str) -> str:
    ways = (
        "--no-enable-prefix-caching",
        f"--block-size={BLOCK}",
        "--sim-ttft-ms=0",
        "--sim-tpot-ms=1",
    )
    return serve(
        *ways, f"--sim-prefill-us-per-token={PREFILL_MS_PER_TOKEN * 100}", *flags
    ).url


async def complete(
    http: aiohttp.ClientSession, url: str, **more: object
) -> dict[str, Any]:
    body = {"prompt": "x" * PROMPT_TOKENS, "max_tokens": 1} | more
    async with http.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200
        found: dict[str, Any] = await response.json()
        return found


async def prompt_counters(
    http: aiohttp.ClientSession, url: str
) -> Mapping[str, float]:
    """The counters about where prompts came from, those at zero left out."""
    async with http.get(f"{url}/metrics") as response:
        page = await response.text()
    names = r"(external_prefix_cache_\w+_total|prompt_tokens\w*_total|request_prefill_kv_computed_tokens_sum)"
    found = re.findall(
        rf'^vllm:{names}{{engine="0",model_name="tiny"(?:,(source="\w+"))?}} (\S+)$',
        page,
        re.MULTILINE,
    )
    return {
        f"{name}{{{label}}}" if label else name: float(value)
        for name, label, value in found
        if float(value)
    }


@pytest.mark.parametrize(
    "roles",
    [
        ("kv_producer", "kv_consumer"),
        ("kv_both", "kv_both"),
        ("kv_consumer", "kv_producer"),
    ],
)
async def test_with_a_shared_folder_counters_rise_as_real_ones_whatever_the_roles(
    serve: Serve,
    http: aiohttp.ClientSession,
    tmp_path: Path,
    roles: tuple[str, str],
) -> None:
    prefill, decode = (server(serve, flag(role, tmp_path)) for role in roles)
    assert (await complete(http, prefill))["kv_transfer_params"] is None
    await complete(http, decode, max_tokens=8)
    assert await prompt_counters(http, prefill) == REAL["prefill"]
    assert await prompt_counters(http, decode) == REAL["decode"]


async def test_blocks_handed_over_by_request_count_the_same(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    prefill = server(serve, flag("kv_producer"))
    decode = server(serve, flag("kv_consumer"))
    params = (await complete(http, prefill, kv_transfer_params=NIXL))[
        "kv_transfer_params"
    ]
    assert params["do_remote_prefill"] is True
    assert (await complete(http, decode, kv_transfer_params=params))[
        "kv_transfer_params"
    ] is None
    assert await prompt_counters(http, decode) == REAL["decode"]


@pytest.mark.parametrize("params", [None, NIXL, {"do_remote_prefill": True}])
async def test_a_request_that_names_no_blocks_is_computed(
    serve: Serve, http: aiohttp.ClientSession, params: dict[str, object] | None
) -> None:
    decode = server(serve, flag("kv_consumer"))
    await complete(http, decode, kv_transfer_params=params)
    assert await prompt_counters(http, decode) == REAL_RECOMPUTED


async def test_a_producer_fetches_nothing(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    prefill = server(serve, flag("kv_producer"))
    await complete(
        http,
        prefill,
        kv_transfer_params={"do_remote_prefill": True, "remote_engine_id": "x"},
    )
    assert await prompt_counters(http, prefill) == REAL_RECOMPUTED


async def test_fetched_blocks_take_no_prefill_time(
    serve: Serve, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    prefill, decode = (server(serve, flag("kv_both", tmp_path)) for _ in range(2))
    await complete(http, prefill)
    await complete(http, decode)
    seconds = []
    for url in (prefill, decode):
        async with http.get(f"{url}/metrics") as response:
            line = re.search(
                r"^vllm:time_to_first_token_seconds_sum\S* (\S+)$",
                await response.text(),
                re.MULTILINE,
            )
        assert line is not None
        seconds.append(float(line[1]))
    computed_all, computed_rest = seconds
    assert computed_all >= 0.1
    # 104 of 1000 tokens; what this machine adds is a few milliseconds.
    assert 0.0104 <= computed_rest < 0.06


async def test_a_broken_transfer_shows_as_computing_all_of_it(
    serve: Serve, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    prefill = server(serve, flag("kv_both", tmp_path))
    decode = server(serve, flag("kv_both", tmp_path), "--sim-kv-transfer-fails")
    await complete(http, prefill)
    await complete(http, decode)
    assert await prompt_counters(http, decode) == REAL_RECOMPUTED


async def test_whole_blocks_are_found_but_for_one_token_beyond_them_as_measured_on_vllm(
    serve: Serve, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    prefill, decode = (server(serve, flag("kv_both", tmp_path)) for _ in range(2))
    measured = {100: 0, 129: 0, 130: 128, 257: 0, 258: 256, 897: 0, 3000: 2944}
    fetched = {}
    before = 0.0
    for letter, tokens in zip("abcdefg", measured, strict=True):
        for url in (prefill, decode):
            await complete(http, url, prompt=letter * tokens)
        counters = await prompt_counters(http, decode)
        hits = counters.get("external_prefix_cache_hits_total", 0.0)
        fetched[tokens] = hits - before
        before = hits
    assert fetched == measured


async def test_what_the_own_cache_holds_is_not_fetched(
    serve: Serve, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    prefill, decode = (
        serve(f"--block-size={BLOCK}", flag("kv_both", tmp_path)).url
        for _ in range(2)
    )
    for url in (prefill, decode, decode):
        await complete(http, url)
    counters = await prompt_counters(http, decode)
    assert (
        counters['prompt_tokens_by_source_total{source="local_cache_hit"}'] == 896
    )
    assert (
        counters['prompt_tokens_by_source_total{source="external_kv_transfer"}']
        == 896
    )
    # The second time only what the cache has not is asked for.
    assert counters["external_prefix_cache_queries_total"] == 1000 + 104


@pytest.mark.parametrize(
    ("role", "told_of"),
    [("kv_producer", False), ("kv_both", True), ("kv_consumer", True)],
)
async def test_the_gauge_of_fetching_is_there_only_where_blocks_are_fetched(
    serve: Serve, http: aiohttp.ClientSession, role: str, told_of: bool
) -> None:
    async with http.get(f"{server(serve, flag(role))}/metrics") as response:
        assert (
            "vllm:num_requests_kv_fetch_by_stage" in await response.text()
        ) is told_of


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("[1]", "Input should be an object"),
        ("null", "Input should be an object"),
        (
            '{"kv_connector": "ExampleConnector"}',
            "Please specify kv_role when kv_connector is set",
        ),
        (
            '{"kv_connector": "ExampleConnector", "kv_role": "x"}',
            "Input should be 'kv_producer', 'kv_both' or",
        ),
        ('{"kv_role": "kv_both", "foo": 1}', "foo\n  Unexpected keyword argument"),
    ],
)
def test_a_configuration_that_vllm_cannot_read_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], value: str, words: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(["m", "--kv-transfer-config", value], environment={})
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert (
        "argument --kv-transfer-config: 1 validation error for KVTransferConfig\n"
        in error
    )
    assert words in error


def test_a_connector_that_vllm_does_not_know_ends_the_engine() -> None:
    with pytest.raises(
        Refusal, match="Unsupported connector type: Nope"
    ) as refused:
        parse(
            [
                "m",
                '--kv-transfer-config={"kv_connector": "Nope", "kv_role": "kv_both"}',
            ],
            environment={},
        )
    assert refused.value.code == 1


@pytest.mark.parametrize("value", ["{}", '{"kv_role": "kv_both"}'])
def test_without_a_connector_nothing_is_handed_over(value: str) -> None:
    assert (
        parse(["m", "--kv-transfer-config", value], environment={}).kv_transfer
        is None
    )


@pytest.mark.parametrize(
    "page", ["vllm-0.32.0-prefill.txt", "vllm-0.32.0-decode.txt"]
)
async def test_names_and_labels_are_those_of_real_pages(
    serve: Serve, http: aiohttp.ClientSession, page: str
) -> None:
    async with http.get(f"{server(serve, flag('kv_both'))}/metrics") as response:
        ours = series(await response.text())
    theirs = series((PAGES / page).read_text())
    assert {
        name
        for name in theirs
        if "external" in name or "kv_fetch" in name or "prompt_tokens_" in name
    } <= ours


def series(page: str) -> set[str]:
    return {
        line.rpartition(" ")[0]
        for line in page.splitlines()
        if line.startswith("vllm:") and 'le="' not in line
    }
