"""The client's side of a load, against a port of the engine's kind."""

import json
from dataclasses import replace

import pytest
from aiohttp import web
from benchrun_client.contract import AtOnceLoad, BatchLoad, Load
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.engines import ENGINES
from benchrun_client.load.vllm_benchmark import EngineCall
from benchrun_client.offline.engine_client import OfflineEngine
from benchrun_client.offline.engine_server import OfflineAnswer, OfflineTimes
from benchrun_client.server.readiness import Servers
from unit.client.servers import Handler, answering, serving

VLLM = ENGINES["VLLM"]

TIMES = OfflineTimes(
    sent=(0.0, 0.5),
    ttft=(0.25, 0.5),
    e2el=(1.0, 1.5),
    output_tokens=(4, 8),
    call_seconds=(1.0, 0.75),
    took_seconds=2.0,
)


@pytest.fixture(autouse=True)
def _version_of_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.version", lambda _: "0.32.0")


def load(point: Load | None = None) -> EngineCall:
    samples = [
        PromptRequest(prompt=word, input_tokens=10, output_tokens=8)
        for word in ("one", "two")
    ]
    return EngineCall(
        samples=samples,
        seed=1,
        load=point or AtOnceLoad(),
        api="Completions",
        ignore_eos=True,
    )


def servers(url: str) -> Servers:
    return Servers(VLLM, (url,), (f"{url}/metrics",))


def answer_with(answer: OfflineAnswer, *, heartbeats: int = 0) -> Handler:
    """The engine's port, with some empty lines first."""

    async def handler(request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(heartbeats):
            await response.write(b"\n")
        await response.write(answer.model_dump_json().encode() + b"\n")
        return response

    return handler


async def test_the_whole_load_is_requested_at_once() -> None:
    bodies: list[dict[str, object]] = []

    async def handler(request: web.Request) -> web.Response:
        bodies.append(json.loads(await request.read()))
        return web.Response(text=OfflineAnswer(times=TIMES).model_dump_json())

    async with serving(load=handler) as url:
        await OfflineEngine(chat_template="{{ x }}").run(
            load(BatchLoad(size=2)), servers(url)
        )
    (body,) = bodies
    assert (body["chat_template"], body["prompts"]) == ("{{ x }}", ["one", "two"])
    assert (body["output_tokens"], body["batch_size"]) == ([8, 8], 2)


@pytest.mark.parametrize("heartbeats", [0, 3])
async def test_what_the_engine_tells_is_what_is_recorded(heartbeats: int) -> None:
    engine = OfflineEngine()
    messages: list[str] = []
    async with serving(
        load=answer_with(OfflineAnswer(times=TIMES), heartbeats=heartbeats)
    ) as url:
        watched = replace(
            load(),
            on_send=lambda: messages.append("sent"),
            on_answer=lambda: messages.append("answered"),
        )
        result = await engine.run(watched, servers(url))
    assert messages == ["sent", "answered", "answered"]
    assert (result["ttfts"], result["decodes"]) == ([0.25, 0.5], [0.75, 1.0])
    assert (result["input_lens"], result["output_lens"]) == ([10, 10], [4, 8])
    assert engine.instants.ok == engine.instants.ended == [True, True]
    first, second = engine.instants.sent
    assert second - first == pytest.approx(0.5)
    assert engine.instants.due == engine.instants.sent
    assert engine.instants.answered == pytest.approx([first + 1.0, second + 1.5])


async def test_figures_have_the_names_of_the_offline_commands() -> None:
    async with serving(load=answer_with(OfflineAnswer(times=TIMES))) as url:
        result = await OfflineEngine().run(load(), servers(url))
    assert result["elapsed_time"] == result["duration"] == 1.75
    assert (result["num_requests"], result["total_num_tokens"]) == (
        2,
        10 + 10 + 4 + 8,
    )
    assert result["requests_per_second"] == pytest.approx(2 / 1.75)
    assert result["tokens_per_second"] == pytest.approx(32 / 1.75)
    assert "avg_latency" not in result


async def test_a_batch_has_the_latency_of_its_calls() -> None:
    async with serving(load=answer_with(OfflineAnswer(times=TIMES))) as url:
        result = await OfflineEngine().run(load(BatchLoad(size=1)), servers(url))
    assert result["avg_latency"] == pytest.approx((1.0 + 0.75) / 2)
    assert "requests_per_second" not in result


FAULTS = {
    "refused": (answer_with(OfflineAnswer(error="too long")), "too long"),
    "not understood": (
        answering(400, text="prompts: none"),
        "HTTP 400: prompts: none",
    ),
    "cut short": (
        answering(200, text='{"times": {'),
        "the engine ended in the middle of the load",
    ),
    "silent": (answering(200), "the engine ended in the middle of the load"),
    "of another load": (
        answer_with(
            OfflineAnswer(
                times=OfflineTimes(
                    sent=(0.0,),
                    ttft=(0.1,),
                    e2el=(0.2,),
                    output_tokens=(1,),
                    call_seconds=(1.0,),
                    took_seconds=1.0,
                )
            )
        ),
        "does not have one time for each request",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_load_that_fails_is_failed_requests_with_the_reason(
    fault: str,
) -> None:
    engine = OfflineEngine()
    handler, words = FAULTS[fault]
    async with serving(load=handler) as url:
        result = await engine.run(load(), servers(url))
    assert engine.instants.ok == [False, False]
    assert len(engine.instants.sent) == len(engine.instants.answered) == 2
    assert all(words in error for error in result["errors"])
    assert result["output_lens"] == [0, 0]


async def test_an_engine_that_is_gone_is_failed_requests_too() -> None:
    engine = OfflineEngine()
    async with serving(load=answering(200)) as url:
        gone = servers(url)
    result = await engine.run(load(), gone)
    assert engine.instants.ok == [False, False]
    assert "Connect" in result["errors"][0]
