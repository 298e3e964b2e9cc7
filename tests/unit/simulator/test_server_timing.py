"""Tokens arrive when the flags say: nothing early, and close enough to compare a client's numbers
with."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from string import ascii_lowercase
from typing import Any

import aiohttp
import pytest
from benchrun_simulator.arguments import parse
from benchrun_simulator.launch import Running
from benchrun_simulator.main import jitter_source

Serve = Callable[..., Running]
Truth = Callable[[Path, int], list[dict[str, Any]]]
ROUNDS = 5
"""Exactness is shown in the best round: any may fall into another process' busy moment."""


@dataclass(frozen=True)
class Seen:
    """One stream as the client saw it, in seconds."""

    first_token: float
    per_token: float


async def stream(
    http: aiohttp.ClientSession, url: str, *, prompt: str, tokens: int
) -> Seen:
    body = {
        "prompt": prompt,
        "max_tokens": tokens,
        "stream": True,
        "ignore_eos": True,
    }
    sent = time.perf_counter()
    instants: list[float] = []
    async with http.post(f"{url}/v1/completions", json=body) as response:
        async for piece in response.content.iter_any():
            instants += [time.perf_counter()] * piece.count(b'"text"')
    assert len(instants) == tokens
    return Seen(instants[0] - sent, (instants[-1] - instants[0]) / (tokens - 1))


async def test_one_stream_is_exact(
    serve: Serve, http: aiohttp.ClientSession
) -> None:
    url = serve(
        "--sim-ttft-ms=60", "--sim-prefill-us-per-token=500", "--sim-tpot-ms=10"
    ).url
    expected = 0.060 + 80 * 0.0005
    seen: list[Seen] = []
    for letter in ascii_lowercase:
        seen.append(await stream(http, url, prompt=letter * 80, tokens=20))
        if seen[-1].first_token < expected + 0.015:
            break
    assert min(one.first_token for one in seen) >= expected
    assert seen[-1].first_token == pytest.approx(expected, abs=0.015)
    assert seen[-1].per_token == pytest.approx(0.010, abs=0.002)


async def test_many_streams_stay_exact_by_the_servers_own_clock(
    serve: Serve, http: aiohttp.ClientSession, truth: Truth, tmp_path: Path
) -> None:
    log = tmp_path / "requests.jsonl"
    url = serve(
        "--sim-ttft-ms=100", "--sim-tpot-ms=20", f"--sim-log-requests={log}"
    ).url

    async def closed_loop(number: int) -> None:
        for turn in range(2):
            await stream(http, url, prompt=f"{number} {turn}", tokens=30)

    errors = []
    for _ in range(ROUNDS):
        log.write_text("")
        await asyncio.gather(*map(closed_loop, range(64)))
        records = truth(log, 128)
        first_tokens = [
            record["first_sent_at"] - record["arrived_at"] for record in records
        ]
        per_token = [
            (record["last_sent_at"] - record["first_sent_at"]) / 29
            for record in records
        ]
        assert min(first_tokens) >= 0.100
        errors.append(
            max(median(first_tokens) - 0.100, 10 * abs(median(per_token) - 0.020))
        )
        if errors[-1] < 0.010:
            break
    # Measured on a quiet machine: 0.6 ms for the first token, 0.01 ms for the others.
    assert min(errors) < 0.010


async def test_beyond_the_running_limit_requests_queue(
    serve: Serve, http: aiohttp.ClientSession, truth: Truth, tmp_path: Path
) -> None:
    log = tmp_path / "requests.jsonl"
    url = serve(
        "--sim-ttft-ms=200",
        "--sim-tpot-ms=10",
        "--max-num-seqs=1",
        f"--sim-log-requests={log}",
    ).url
    await asyncio.gather(
        *(stream(http, url, prompt=letter, tokens=10) for letter in "abc")
    )
    first, second, third = (record["scheduled_at"] for record in truth(log, 3))
    # Each request occupies the only place for 200 + 9 x 10 ms; admissions do not drift, whatever
    # the machine does.
    assert second - first == pytest.approx(0.290, abs=1e-6)
    assert third - second == pytest.approx(0.290, abs=1e-6)


def test_jitter_is_seeded_and_bounded() -> None:
    def delays(*arguments: str) -> list[float]:
        draw = jitter_source(parse(["m", *arguments], environment={}))
        return [draw() for _ in range(100)]

    once, repeated, other = (
        delays("--sim-jitter-ms=5", f"--seed={seed}") for seed in (1, 1, 2)
    )
    assert once == repeated != other
    assert 0 <= min(once) < max(once) <= 0.005
    assert set(delays()) == {0.0}
