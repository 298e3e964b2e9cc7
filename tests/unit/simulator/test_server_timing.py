"""Tokens arrive when the flags say: nothing early, and close enough to compare a client's numbers with."""

import asyncio
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import aiohttp
import pytest
from benchrun_simulator.launch import Running

Serve = Callable[..., Running]


@dataclass(frozen=True)
class Seen:
    """One stream as the client saw it, in seconds."""

    first_token: float
    per_token: float


async def stream(http: aiohttp.ClientSession, url: str, *, prompt: str, tokens: int) -> Seen:
    body = {"prompt": prompt, "max_tokens": tokens, "stream": True, "ignore_eos": True}
    sent = time.perf_counter()
    instants: list[float] = []
    async with http.post(f"{url}/v1/completions", json=body) as response:
        async for piece in response.content.iter_any():
            instants += [time.perf_counter()] * piece.count(b'"text"')
    assert len(instants) == tokens
    return Seen(instants[0] - sent, (instants[-1] - instants[0]) / (tokens - 1))


async def test_one_stream_is_exact(serve: Serve, http: aiohttp.ClientSession) -> None:
    url = serve("--sim-ttft-ms=60", "--sim-prefill-us-per-token=500", "--sim-tpot-ms=10").url
    seen = [await stream(http, url, prompt=number * 80, tokens=20) for number in "123"]
    expected = 0.060 + 80 * 0.0005
    assert min(one.first_token for one in seen) >= expected
    # The best of three: a busy machine makes single streams late, and a late first token shortens the rest.
    assert min(one.first_token for one in seen) == pytest.approx(expected, abs=0.015)
    assert median(one.per_token for one in seen) == pytest.approx(0.010, abs=0.002)


async def test_many_streams_stay_exact_by_the_servers_own_clock(
    serve: Serve,
    http: aiohttp.ClientSession,
    tmp_path: Path,
) -> None:
    log = tmp_path / "requests.jsonl"
    url = serve("--sim-ttft-ms=100", "--sim-tpot-ms=20", f"--sim-log-requests={log}").url

    async def closed_loop(number: int) -> list[Seen]:
        return [await stream(http, url, prompt=f"{number} {turn}", tokens=30) for turn in range(2)]

    seen = [one for streams in await asyncio.gather(*map(closed_loop, range(64))) for one in streams]
    assert median(one.per_token for one in seen) == pytest.approx(0.020, abs=0.001)
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert len(records) == 128
    first_tokens = [record["first_token_at"] - record["arrived_at"] for record in records]
    decodes = [record["last_token_at"] - record["first_token_at"] for record in records]
    assert min(first_tokens) >= 0.100
    # Generous where the machine is shared: the measured medians are 0.6 ms and 0.01 ms off.
    assert median(first_tokens) == pytest.approx(0.100, abs=0.030)
    assert median(decodes) / 29 == pytest.approx(0.020, abs=0.001)


async def test_beyond_the_running_limit_requests_queue(serve: Serve, http: aiohttp.ClientSession) -> None:
    url = serve("--sim-ttft-ms=20", "--sim-tpot-ms=10", "--max-num-seqs=1").url
    # Each request occupies the only place for 20 + 9 x 10 = 110 ms.
    seen = await asyncio.gather(*(stream(http, url, prompt=letter, tokens=10) for letter in "abc"))
    waits = sorted(one.first_token for one in seen)
    assert waits == pytest.approx([0.020, 0.130, 0.240], abs=0.050)


async def test_jitter_is_seeded(serve: Serve, http: aiohttp.ClientSession, tmp_path: Path) -> None:
    delays: list[float] = []
    for seed in (1, 1, 2):
        log = tmp_path / f"{len(delays)}.jsonl"
        arguments = ("--sim-ttft-ms=10", "--sim-jitter-ms=200", f"--seed={seed}", f"--sim-log-requests={log}")
        await stream(http, serve(*arguments).url, prompt="a", tokens=2)
        record = json.loads(log.read_text())
        delays.append(record["first_token_at"] - record["arrived_at"])
    assert delays[0] == pytest.approx(delays[1], abs=0.060)
    assert delays[0] != pytest.approx(delays[2], abs=0.060)
