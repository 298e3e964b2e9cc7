"""A server of another engine is told before any load, by its metrics."""

import aiohttp
import pytest
from benchrun_client.engines import ENGINES, EngineName
from benchrun_client.failures import RunFailure
from benchrun_client.server.counter_snapshots import identify, speaking
from benchrun_client.server.engine_check import check_engines
from benchrun_simulator.launch import running
from unit.client.servers import answering, serving

NAMES: tuple[EngineName, ...] = tuple(ENGINES)


async def problem(url: str, name: EngineName) -> RunFailure | None:
    """Return what is told of a server that is said to be of this engine; None: nothing is wrong."""
    engine = ENGINES[name]
    async with aiohttp.ClientSession() as session:
        try:
            await check_engines(session, [url + engine.metrics_path], engine)
        except RunFailure as failure:
            return failure
    return None


@pytest.mark.parametrize("really", NAMES)
async def test_each_engine_is_known_from_every_other(really: EngineName) -> None:
    with running("tiny", f"--sim-engine={really}") as server:
        told = {name: await problem(server.url, name) for name in NAMES}
    assert told.pop(really) is None
    for name, failure in told.items():
        assert failure is not None
        assert failure.reason == "EngineMismatch"
        words = str(failure)
        assert (
            f"the server is {ENGINES[really].name}, not {ENGINES[name].name}"
            in words
        )
        assert f"to {really}." in words


@pytest.mark.parametrize(
    ("status", "page"),
    [
        (404, "vllm:num_requests_running 1"),
        (200, ""),
        (200, "# HELP vllm:x y\nprocess_cpu_seconds_total 1\nbenchrun_proxy_x 2"),
        (200, "not sglang:num_running_reqs"),
    ],
)
async def test_a_page_of_no_engine_says_nothing(status: int, page: str) -> None:
    async with serving(metrics=answering(status, text=page)) as url:
        assert await problem(url, "SGLang") is None


def test_an_engine_speaks_on_its_own_path_only() -> None:
    page = 'trtllm_num_requests_running{pid="1"} 1\nvllm:num_requests_running 1\n'
    assert speaking(page, "/metrics") == [ENGINES["VLLM"]]
    assert speaking(page, "/prometheus/metrics") == [ENGINES["TensorRTLLM"]]


@pytest.mark.parametrize(
    ("page", "engines"),
    [
        ("vllm:x 1\nsglang:y 2\n", "SGLang, vLLM"),
        ("vllm:x 1\n", "vLLM"),
        ("process_cpu_seconds_total 1\n", None),
    ],
)
async def test_a_record_names_the_engines_of_a_page(
    page: str, engines: str | None
) -> None:
    async with (
        serving(metrics=answering(200, text=page)) as url,
        aiohttp.ClientSession() as session,
    ):
        edge = await identify(
            session, f"{url}/metrics", ENGINES["VLLM"], role="server", model="tiny"
        )
    assert edge.engines == engines


async def test_a_page_with_the_engines_own_series_is_its_own() -> None:
    page = "sglang:num_running_reqs 1\nvllm:num_requests_running 1\n"
    async with serving(metrics=answering(200, text=page)) as url:
        assert await problem(url, "VLLM") is None
        assert await problem(url, "SGLang") is None


def test_no_engines_series_begin_like_anothers() -> None:
    beginnings = [engine.series_begin for engine in ENGINES.values()]
    for engine in ENGINES.values():
        own = engine.sample_series["running"]
        begin = engine.series_begin
        assert all(name.startswith(begin) for name in own)
        assert [each for each in beginnings if begin.startswith(each)] == [begin]
