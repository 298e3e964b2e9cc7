"""Arrivals by the engine's own generator, run through before anything is sent."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest
from benchrun_client.shards.sharing import arrivals_of


def module() -> Any:
    """As `vllm.benchmarks.serve` does it: gaps first, then sleeping up to each instant."""
    serve = SimpleNamespace(time=time, asyncio=asyncio)

    async def get_request(
        requests: list[Any], rate: float, burstiness: float = 1.0
    ) -> AsyncIterator[tuple[Any, float]]:
        instants = [(n + 1) * burstiness / rate for n in range(len(requests))]
        start = serve.time.time()
        for request, instant in zip(requests, instants, strict=True):
            wait = start + instant - serve.time.time()
            if wait > 0:
                await serve.asyncio.sleep(wait)
            yield request, rate

    serve.get_request = get_request
    return serve


async def test_instants_are_the_generators_and_nobody_waits_for_them() -> None:
    serve, began = module(), time.monotonic()
    instants, rates = await arrivals_of(serve, serve.get_request, 0.01, 2.0, requests=4)
    assert instants == pytest.approx([200.0, 400.0, 600.0, 800.0])
    assert rates == [0.01] * 4
    assert time.monotonic() - began < 60


async def test_the_modules_clocks_are_put_back_even_after_an_error() -> None:
    serve = module()
    with pytest.raises(ZeroDivisionError):
        await arrivals_of(serve, serve.get_request, 0, requests=1)
    assert (serve.time, serve.asyncio) == (time, asyncio)
