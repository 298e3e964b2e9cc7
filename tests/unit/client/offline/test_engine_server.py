"""The engine's port: what a client and a scraper look for, and loads one after the other."""

import threading

import aiohttp
import pytest
from benchrun_client.engines import ENGINES
from benchrun_client.http_session import BackgroundLoop
from benchrun_client.offline.engine_server import (
    EngineServer,
    OfflineAnswer,
    OfflineLoad,
    OfflineTimes,
)
from benchrun_client.server.counter_snapshots import identify, take

VLLM = ENGINES["VLLM"]

PAGE = b"""# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0"} 42
vllm:cache_config_info{block_size="16",engine="0"} 1
"""
TIMES = OfflineTimes(
    sent=(0.0,),
    ttft=(0.1,),
    e2el=(0.2,),
    output_tokens=(1,),
    call_seconds=(0.2,),
    took_seconds=0.2,
)


@pytest.fixture
def port() -> EngineServer:
    return EngineServer(
        version="0.32.0", model="tiny", context_tokens=4096, metrics=lambda: PAGE
    )


@pytest.fixture
def url(port: EngineServer) -> str:
    return f"http://127.0.0.1:{BackgroundLoop().run(port.start(address='127.0.0.1', port=0))}"


async def test_it_says_what_a_server_says_of_itself(url: str) -> None:
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{url}/health") as health:
            assert health.status == 200
        identity = await identify(
            session, f"{url}/metrics", VLLM, role="server", model="tiny"
        )
        (snapshot,) = await take(session, [f"{url}/metrics"], VLLM)
    assert identity.version == "0.32.0"
    assert identity.settings is not None
    assert identity.models == "id=tiny max_model_len=4096"
    assert snapshot is not None
    assert snapshot.counters == {"prompt_tokens_total": 42.0}


async def test_loads_go_to_the_engines_thread_one_at_a_time(
    port: EngineServer, url: str
) -> None:
    seen: list[str] = []

    def engine() -> None:
        for _ in range(2):
            load, done = port.jobs.get()
            seen.append(load.prompts[0])
            done.set_result(OfflineAnswer(times=TIMES))

    threading.Thread(target=engine, daemon=True).start()
    async with aiohttp.ClientSession() as session:
        for word in ("first", "second"):
            body = OfflineLoad(
                prompts=(word,), output_tokens=(1,)
            ).model_dump_json()
            async with session.post(f"{url}/load", data=body) as response:
                answer = OfflineAnswer.model_validate_json(
                    (await response.read()).strip()
                )
            assert answer.times == TIMES
    assert seen == ["first", "second"]


async def test_while_the_engine_works_the_port_answers_and_the_connection_lives(
    port: EngineServer, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "benchrun_client.offline.engine_server.HEARTBEAT_SECONDS", 0.01
    )
    async with aiohttp.ClientSession() as session:
        body = OfflineLoad(prompts=("a",), output_tokens=(1,)).model_dump_json()
        async with session.post(f"{url}/load", data=body) as response:
            assert await response.content.readline() == b"\n"
            async with session.get(f"{url}/metrics") as page:
                assert page.status == 200
            _, done = port.jobs.get()
            done.set_result(OfflineAnswer(error="no"))
            assert (await response.read()).strip() == b'{"times":null,"error":"no"}'


@pytest.mark.parametrize(
    "body", ["", "{}", '{"prompts": ["a"], "output_tokens": [0]}', "not json"]
)
async def test_an_invalid_load_is_rejected(
    port: EngineServer, url: str, body: str
) -> None:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/load", data=body) as response,
    ):
        assert response.status == 400
        assert await response.text()
    assert port.jobs.empty()
