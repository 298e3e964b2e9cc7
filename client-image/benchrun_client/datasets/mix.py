"""`mix` data: several datasets in one stream. Each stage gets their shares to the request, in an order drawn by its seed."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from itertools import chain

from benchrun_client.contract import MixData, RandomData, SingleData, Warmup
from benchrun_client.datasets.rows import Portion, Sample, Slot

_VERSION = "benchrun.mix/1"


def portions_of(slot: Slot) -> tuple[Portion, ...]:
    """The share of each dataset of a slot; a dataset whose weight is too small for one request has none."""
    if not isinstance(slot.data, MixData):
        return (Portion(slot.workload, 0, _sent(slot, slot.data), slot.requests, slot.seed, slot.api),)
    shares = shared_out(slot.requests, [part.weight for part in slot.data.parts])
    return tuple(
        Portion(slot.workload, number, _sent(slot, part.data), requests, _part_seed(slot.seed, number), slot.api)
        for number, (part, requests) in enumerate(zip(slot.data.parts, shares, strict=True))
        if requests
    )


def shared_out(requests: int, weights: Sequence[int]) -> list[int]:
    """Whole requests by weight: rounded down, and the rest goes to those that lost most (the earlier of equals)."""
    total = sum(weights)
    shares = [requests * weight // total for weight in weights]
    by_loss = sorted(range(len(weights)), key=lambda i: -(requests * weights[i] % total))
    for i in by_loss[: requests - sum(shares)]:
        shares[i] += 1
    return shares


def interleaved(slot: Slot, parts: Sequence[Sequence[Sample]]) -> tuple[Sample, ...]:
    """The samples of all portions in the order of sending; those of one portion keep theirs."""
    if len(parts) == 1:
        return tuple(parts[0])
    order = list(chain.from_iterable([number] * len(samples) for number, samples in enumerate(parts)))
    random.Random(slot.seed).shuffle(order)
    nexts = [iter(samples) for samples in parts]
    return tuple(next(nexts[number]) for number in order)


def _sent(slot: Slot, data: SingleData) -> SingleData:
    """The dataset; a warm-up sends random prompts that no stage sends, whatever seed and generator these have."""
    is_fixed = isinstance(slot, Warmup) and isinstance(data, RandomData)
    return data.model_copy(update={"generator": "Distinct", "seed": None}) if is_fixed else data


def _part_seed(seed: int, part: int) -> int:
    """32-bit seed of a part: parts with equal datasets get different prompts."""
    return int.from_bytes(hashlib.sha256(f"{_VERSION}\x1f{seed}\x1f{part}".encode()).digest()[:4], "big")
