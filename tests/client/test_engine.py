"""The engine by itself, in the Python that has vLLM."""

from __future__ import annotations

import os
import re
import subprocess
import urllib.request

from client.processes import CLIENT_ROOT, VLLM_PYTHON, free_port, simulator

SPREAD = """
import asyncio, sys
from benchrun_client.contract import LoadPoint
from benchrun_client.datasets.samples import Sample
from benchrun_client.engine import Engine, Load
from benchrun_client.target import Deadline, Servers, wait_healthy
from benchrun_client.http_session import open_session

servers = Servers(tuple(sys.argv[1:]), ())
load = Load(
    samples=[Sample(f"{n} word word", 3, 4) for n in range(10)],
    seed=1, point=LoadPoint(max_concurrency=2), api="Completions", ignore_eos=True,
)

async def main():
    async with open_session(tls=None, seconds=5) as session:
        await wait_healthy(session, servers, Deadline(60))
    engine = Engine(tokenizer=None, model="tiny", percentiles=("50",), tls=None)
    assert all((await engine.run(load, servers)).instants.ok)

asyncio.run(main())
"""


def successes(url: str) -> float:
    with urllib.request.urlopen(f"{url}/metrics") as response:
        page = response.read().decode()
    return sum(map(float, re.findall(r"^vllm:request_success_total\{.*\} (\S+)$", page, re.MULTILINE)))


def test_requests_take_turns_over_all_servers() -> None:
    ports = [free_port(), free_port()]
    urls = [f"http://127.0.0.1:{port}" for port in ports]
    # One server is ten times as slow: whoever were free first would get most of the requests.
    with simulator("--sim-ttft-ms", "200", port=ports[0]), simulator("--sim-ttft-ms", "20", port=ports[1]):
        subprocess.run(
            [VLLM_PYTHON, "-c", SPREAD, *urls], env={**os.environ, "PYTHONPATH": str(CLIENT_ROOT)}, check=True
        )
        assert [successes(url) for url in urls] == [5, 5]
