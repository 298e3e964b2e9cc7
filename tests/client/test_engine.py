"""The engine by itself, in the Python that has vLLM."""

import json
import os
import re
import subprocess
import urllib.request
from itertools import pairwise

import pytest
from benchrun_client.load.closed_loop import USER_GAP_SECONDS
from client.processes import (
    CLIENT_PYTHON,
    CLIENT_ROOT,
    TINY_MODEL,
    VLLM_PYTHON,
    free_port,
    simulator,
)

SPREAD = """
import asyncio, json, sys
from benchrun_client.contract import RateLoad, UsersLoad
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.access import Access
from benchrun_client.load.vllm_benchmark import EngineCall, VllmEngine
from benchrun_client.engines import ENGINES
from benchrun_client.server.readiness import ReadinessDeadline, Servers, wait_healthy
from benchrun_client.http_session import open_session

servers = Servers(ENGINES["VLLM"], tuple(sys.argv[1:]), ())
load = EngineCall(
    samples=[PromptRequest(f"{n} word word", 3, 4 + n) for n in range(10)],
    seed=1, load=UsersLoad(concurrency=4), api="Completions", ignore_eos=True,
)

async def main():
    async with open_session(access=Access(), seconds=5) as session:
        await wait_healthy(session, servers, ReadinessDeadline(60))
    engine = VllmEngine(tokenizer=None, model="tiny", percentiles=("50",), access=Access())
    result = await engine.run(load, servers)
    assert all(engine.instants.ok)
    print(json.dumps([engine.instants.due, engine.instants.sent, result["output_lens"]]))

asyncio.run(main())
"""


LOADED = """
import sys
from benchrun_client.access import Access
from benchrun_client.load.vllm_benchmark import VllmEngine
from benchrun_client.light_imports import transformers
transformers().AutoTokenizer.from_pretrained(sys.argv[1])
VllmEngine(tokenizer=None, model="tiny", percentiles=("50",), access=Access())
print(sys.modules.keys() & {"torch", "vllm.lora", "vllm.multimodal", "datasets"})
import torch
print(torch.zeros(2).sum().item())
"""


def successes(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as response:
        page = response.read().decode()
    return sum(
        map(
            float,
            re.findall(
                r"^vllm:request_success_total\{.*\} (\S+)$", page, re.MULTILINE
            ),
        )
    )


def test_tokenizer_and_engine_are_loaded_without_torch() -> None:
    done = subprocess.run(
        [VLLM_PYTHON, "-c", LOADED, str(TINY_MODEL)],
        env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT)},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines()[-2:] == ["set()", "0.0"], done.stderr


def test_requests_take_turns_over_all_servers() -> None:
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    # One server is ten times as slow: whoever were free first would get most of the requests.
    with (
        simulator("--sim-ttft-ms", "200", port=ports[0]),
        simulator("--sim-ttft-ms", "20", port=ports[1]),
    ):
        subprocess.run(
            [CLIENT_PYTHON, "-c", SPREAD, *urls],
            env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT)},
            check=True,
        )
        assert [successes(url) for url in urls] == [5, 5]


def test_users_begin_one_by_one_and_results_stay_with_their_requests() -> None:
    port = free_port()
    # Answers come before the last user has begun.
    with simulator("--sim-ttft-ms", "1", "--sim-tpot-ms", "0", port=port):
        told = subprocess.run(
            [CLIENT_PYTHON, "-c", SPREAD, f"http://127.0.0.1:{port}"],
            env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT)},
            check=True,
            stdout=subprocess.PIPE,
        )
    due, sent, output_lens = json.loads(told.stdout.splitlines()[-1])
    gaps = [b - a for a, b in pairwise(due[:4])]
    assert gaps == pytest.approx([USER_GAP_SECONDS] * 3)
    assert all(at >= when for at, when in zip(sent, due, strict=True))
    assert output_lens == [4 + n for n in range(10)]


ASKED = """
import asyncio, json, sys
from aiohttp import web
from benchrun_client.contract import RateLoad, UsersLoad, SamplingParams
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.access import Access
from benchrun_client.load.vllm_benchmark import EngineCall, VllmEngine
from benchrun_client.engines import ENGINES
from benchrun_client.server.readiness import Servers

bodies = []

async def answer(request):
    bodies.append(await request.json())
    response = web.StreamResponse()
    await response.prepare(request)
    choice = {"text": "x", "delta": {"content": "x"}}
    for event in ({"choices": [choice]}, {"choices": [choice]}, {"usage": {"completion_tokens": 2}}):
        await response.write(b"data: " + json.dumps(event).encode() + b"\\n\\n")
        await asyncio.sleep(0.02)
    return response

async def main():
    app = web.Application()
    app.add_routes([web.post("/v1/completions", answer), web.post("/v1/chat/completions", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    servers = Servers(ENGINES["VLLM"], (f"http://127.0.0.1:{runner.addresses[0][1]}",), ())
    engine = VllmEngine(tokenizer=None, model="tiny", percentiles=("50",), access=Access())
    found = []
    for api in ("Completions", "Chat"):
        for sampling in (SamplingParams(), SamplingParams(temperature=0.7, top_k=5, repetition_penalty=1.1, stop=("END",))):
            samples = [PromptRequest(f"{n} word word", 3, 2) for n in range(12)]
            load = EngineCall(samples, 1, UsersLoad(concurrency=4), api, ignore_eos=False, sampling=sampling)
            result = await engine.run(load, servers)
            assert all(engine.instants.ok), result["errors"]
            found.append([api, sampling.body(), bodies[:], engine.instants.connects, result["ttfts"]])
            bodies.clear()
    print(json.dumps(found))

asyncio.run(main())
"""


def test_every_request_says_how_tokens_are_chosen_and_connections_are_noted() -> (
    None
):
    """In place of what this version of vLLM sends by itself; and each stage opens its own
    connections, one for each user."""
    told = subprocess.run(
        [CLIENT_PYTHON, "-c", ASKED],
        env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT)},
        check=True,
        stdout=subprocess.PIPE,
    )
    for api, sampling, bodies, connects, ttfts in json.loads(
        told.stdout.splitlines()[-1]
    ):
        assert len(bodies) == 12
        assert all(body.items() >= sampling.items() for body in bodies), (
            api,
            sampling,
            bodies[0],
        )
        # One of them finds the connection over which vLLM has read the metrics, in versions that
        # do.
        assert len(connects) in (3, 4)
        assert 0 < max(connects) < max(ttfts)


LATE = """
import asyncio, json, sys, time
from benchrun_client.contract import RateLoad, UsersLoad
from benchrun_client.datasets.row_pools import PromptRequest
from benchrun_client.http_session import open_session
from benchrun_client.access import Access
from benchrun_client.load.vllm_benchmark import EngineCall, VllmEngine
from benchrun_client.engines import ENGINES
from benchrun_client.server.readiness import ReadinessDeadline, Servers, wait_healthy

servers = Servers(ENGINES["VLLM"], (sys.argv[1],), ())
samples = [PromptRequest(f"{n} word word", 3, 2) for n in range(40)]

async def main():
    async with open_session(access=Access(), seconds=5) as session:
        await wait_healthy(session, servers, ReadinessDeadline(60))
    engine = VllmEngine(tokenizer=None, model="tiny", percentiles=("50",), access=Access())
    # The first request holds the event loop up for a second.
    load = EngineCall(samples, 13, RateLoad(requests_per_second="20"), "Completions", ignore_eos=True,
                on_send=lambda: time.sleep(1.0))
    await engine.run(load, servers)
    print(json.dumps([engine.instants.due, engine.instants.sent]))

asyncio.run(main())
"""
GAMMA = """
import json, numpy
numpy.random.seed(13)
due = numpy.cumsum([numpy.random.gamma(shape=1.0, scale=1 / 20) for _ in range(40)])
print(json.dumps(list(due * (40 / 20) / due[-1])))
"""


def test_requests_of_an_open_loop_are_due_at_the_drawn_instants_whatever_woke_late() -> (
    None
):
    port = free_port()
    with simulator("--sim-ttft-ms", "1", port=port):
        outputs = [
            subprocess.run(
                [CLIENT_PYTHON, "-c", *command],
                env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT)},
                check=True,
                stdout=subprocess.PIPE,
            ).stdout.splitlines()[-1]
            for command in ((LATE, f"http://127.0.0.1:{port}"), (GAMMA,))
        ]
    (due, sent), drawn = map(json.loads, outputs)
    # The same instants as those of `vllm bench serve` with that seed, though a second was lost.
    assert [at - due[0] for at in due] == pytest.approx(
        [at - drawn[0] for at in drawn], abs=1e-6
    )
    late = [at - when for at, when in zip(sent, due, strict=True)]
    held_up = [
        each for each, when in zip(late, due, strict=True) if when < due[0] + 0.5
    ]
    assert len(held_up) > 3
    assert min(held_up) > 0.4
    assert all(each >= 0 for each in late)
