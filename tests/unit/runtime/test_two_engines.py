"""One operator with a run of each engine: each has rows of its own series."""

import asyncio
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from benchrun.api import Result, ServerStatus
from benchrun.decide import ScrapeTarget
from benchrun.effects import Fetcher
from benchrun.judge.results import results
from benchrun.observe import Run, run_key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import RunMemory
from benchrun.runtime.sessions import Sessions
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.contract import ServerEdge, StageRecord
from benchrun_client.engines import ENGINES, Engine, EngineName
from benchrun_client.server.cache_reset import reset_caches
from benchrun_client.server.counter_snapshots import identify, take, take_settled
from benchrun_simulator.launch import running
from unit.decide.scenes import Scene
from unit.judge.specs import spec, workload
from unit.measure.records import load_point, record, requests
from unit.plan.specs import spec_body
from unit.runtime.memory_cluster import MemoryCluster, no_workloads

USERS = 4
RUNNING = 2  # So many of them run, the others wait.
PROMPT = "word " * 64
TOKENS = 150
PLACES = (f"--max-num-seqs={RUNNING}", "--max-model-len=2048")
SIMULATED = (
    "--sim-ttft-ms=20",
    "--sim-tpot-ms=10",
    "--sim-kv-tokens=4096",
    *PLACES,
)
NAMES: tuple[EngineName, ...] = tuple(ENGINES)


def target_of(name: EngineName, url: str) -> ScrapeTarget:
    """Return what is decided to be read of a server of this engine, at a real address."""
    body = spec_body(server={"image": "engine:1", "engine": name})
    (target,) = Scene(spec=body).measuring().decide().scrape
    path = ENGINES[name].metrics_path
    assert target.url == f"http://10.0.0.9:{ENGINES[name].port}{path}"
    return ScrapeTarget(target.engine, target.role, target.pod, url + path, 1)


async def _completion(
    session: aiohttp.ClientSession, url: str, *, tokens: int = TOKENS
) -> None:
    body = {
        "model": "tiny",
        "prompt": PROMPT,
        "max_tokens": tokens,
        "ignore_eos": True,
    }
    async with session.post(f"{url}/v1/completions", json=body) as response:
        assert response.status == 200
        await response.read()


async def measured(url: str, engine: Engine) -> StageRecord:
    """Send the load, and return its record with what the client reads of the server."""
    urls = [url + engine.metrics_path]
    async with aiohttp.ClientSession() as session:
        # As the client does: some engines have no counters before a first request.
        await _completion(session, url, tokens=1)
        before = await take(session, urls, engine)
        begun = time.time()
        await asyncio.gather(*(_completion(session, url) for _ in range(USERS)))
        after = await take_settled(
            session, urls, engine, before=before, completed=USERS, answering=[True]
        )
        known = await identify(
            session, urls[0], engine, role="server", model="tiny"
        )
    assert before[0] is not None
    assert after[0] is not None
    counters: dict[str, Any] = {
        "before": before[0].counters,
        "after": after[0].counters,
    }
    return record(
        first_send_unix_us=round(begun * 1e6),
        last_receive_unix_us=round(time.time() * 1e6),
        requests=requests(
            ttft_us=[20_000] * USERS,
            e2el_us=[1_500_000] * USERS,
            output_tokens=[TOKENS] * USERS,
        ),
        servers=(ServerEdge(**{**known.model_dump(), **counters}),),
    )


async def _runs(
    urls: dict[EngineName, str],
) -> dict[EngineName, tuple[StageRecord, RunMemory]]:
    operator = Sessions(
        cluster=MemoryCluster(),
        fetcher=Fetcher(),
        now=lambda: datetime.now(UTC),
        telemetry=Telemetry(),
        indexes=Indexes(),
        enqueue=lambda key: None,
        workloads=no_workloads(),
    )
    memories = {name: RunMemory(uid=name) for name in urls}
    for name, url in urls.items():
        run = Run(namespace="lab", name=name.lower(), uid=name, generation=1)
        key = run_key("lab", run.name)
        operator.follow(
            key, run, memories[name], scrape=(target_of(name, url),), pull=None
        )
    records = await asyncio.gather(
        *(measured(urls[name], ENGINES[name]) for name in urls)
    )
    await operator.close()
    await operator.fetcher.close()
    return {name: (records[n], memories[name]) for n, name in enumerate(urls)}


def row_of(name: EngineName, found: StageRecord, memory: RunMemory) -> Result:
    (row,) = results(
        [load_point()],
        [found],
        list(memory.collected.samples.unstored),
        spec=spec(
            endpoint={"url": "http://server", "engine": name},
            workloads=[workload(requests=USERS)],
        ),
        servers=[ServerStatus(role="server", engine=name)],
    ).results
    return row


@pytest.fixture(scope="module")
def runs() -> dict[EngineName, tuple[StageRecord, RunMemory]]:
    with ExitStack() as stack:
        urls = {
            name: stack.enter_context(
                running("tiny", *SIMULATED, f"--sim-engine={name}")
            ).url
            for name in NAMES
        }
        return asyncio.run(_runs(urls))


@pytest.mark.parametrize("name", NAMES)
def test_each_run_has_a_row_of_its_servers_gauges(
    name: EngineName, runs: dict[EngineName, tuple[StageRecord, RunMemory]]
) -> None:
    (role,) = row_of(name, *runs[name]).roles
    assert (role.running_max, role.waiting_max) == (RUNNING, USERS - RUNNING)
    if "kv_cache" not in ENGINES[name].sample_series:
        assert role.kv_cache_max_percent is role.kv_cache_mean_percent is None
        return
    assert role.kv_cache_max_percent is not None
    assert 5 < role.kv_cache_max_percent < 50


@pytest.mark.parametrize("name", NAMES)
def test_each_record_has_the_counters_of_its_server(
    name: EngineName, runs: dict[EngineName, tuple[StageRecord, RunMemory]]
) -> None:
    (edge,) = runs[name][0].servers
    assert edge.before is not None
    assert edge.after is not None
    risen = {key: edge.after[key] - edge.before[key] for key in edge.before}
    assert risen["generation_tokens_total"] == USERS * TOKENS
    counts = {
        key: risen.get(key)
        for key in ("request_success_total", "time_to_first_token_seconds_count")
    }
    known = ENGINES[name].counter_series
    assert counts == {key: USERS if key in known else None for key in counts}
    assert edge.version == "0.32.0"


def test_what_an_engine_does_not_say_is_absent(
    runs: dict[EngineName, tuple[StageRecord, RunMemory]],
) -> None:
    found, memory = runs["SGLang"]
    (edge,) = found.servers
    assert edge.after is not None
    assert edge.settings is not None
    assert not [
        key for key in edge.after if "admission" in key or "spec_decode" in key
    ]
    assert {sample.start_time for sample in memory.collected.samples.unstored} == {
        None
    }
    assert memory.collected.server_facts["server-1"].kv_cache_tokens == 4096
    reported = memory.collected.server_facts["server-1"].reported
    assert reported["effective_max_running_requests_per_dp"] == str(RUNNING)
    assert "api_key" not in reported


@pytest.mark.parametrize("name", NAMES)
async def test_the_prefix_cache_of_each_is_emptied_in_its_own_way(
    name: EngineName,
) -> None:
    variables = {"VLLM_SERVER_DEV_MODE": "1"}
    flags = (*SIMULATED, f"--sim-engine={name}")
    async with aiohttp.ClientSession() as session:
        with running("tiny", *flags, variables=variables) as server:
            reset = await reset_caches(session, [server.url], ENGINES[name])
    has_path = ENGINES[name].reset_path is not None
    assert (reset.succeeded, reset.attempts) == (has_path, 1)
    assert has_path or ENGINES[name].reset_remedy in reset.answer


def test_settings_that_a_server_answers_are_kept_with_its_version(
    runs: dict[EngineName, tuple[StageRecord, RunMemory]],
) -> None:
    found, memory = runs["LlamaCpp"]
    facts = memory.collected.server_facts["server-1"]
    assert facts.version == "0.32.0"
    assert facts.reported == {"total_slots": str(RUNNING), "n_ctx": "2048"}
    (edge,) = found.servers
    assert edge.settings is not None


def test_settings_and_cache_of_several_series_are_one_servers(
    runs: dict[EngineName, tuple[StageRecord, RunMemory]],
) -> None:
    found, memory = runs["TensorRTLLM"]
    facts = memory.collected.server_facts["server-1"]
    assert facts.kv_cache_tokens == 4096
    assert facts.reported["max_model_len"] == "2048"
    assert facts.reported["enable_block_reuse"] == "True"
    assert facts.reported["tensor_parallel_size"] == "1"
    assert "pid" not in facts.reported
    (edge,) = found.servers
    assert edge.settings is not None
