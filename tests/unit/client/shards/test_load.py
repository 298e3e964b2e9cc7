"""What of a load a shard's engine is given."""

from __future__ import annotations

import asyncio

from benchrun_client.contract import LoadPoint
from benchrun_client.datasets.samples import Sample
from benchrun_client.load.engine import Divided, Load
from benchrun_client.shards.sharing import Shard, share_of

SAMPLES = [Sample(prompt=f"p{n}", input_tokens=1, output_tokens=1) for n in range(7)]


def load(place: Shard | None) -> Load:
    point = LoadPoint(max_concurrency=3)

    async def begin() -> float:
        await asyncio.sleep(0)
        return 0.0

    divided = None
    if place is not None:
        divided = Divided(shard=place, share=share_of(point, requests=7, shard=place), begin=begin)
    return Load(samples=SAMPLES, seed=1, point=point, api="Completions", ignore_eos=True, divided=divided)


def test_a_shard_sends_its_own_samples_under_its_own_cap() -> None:
    first, second = (load(Shard(shard, 2)).own for shard in (0, 1))
    assert [sample.prompt for sample in first.samples] == ["p0", "p2", "p3", "p5", "p6"]
    assert [sample.prompt for sample in second.samples] == ["p1", "p4"]
    assert (first.point.max_concurrency, second.point.max_concurrency) == (2, 1)


def test_an_undivided_load_is_its_own() -> None:
    assert load(None).own.samples == SAMPLES
