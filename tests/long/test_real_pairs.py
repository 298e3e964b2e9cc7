"""Real vLLM servers on CPUs that are all alike: does the comparison find a difference between them?"""

import asyncio

import pytest
from truth_kit import pairs
from truth_kit.lab import Outcome, measure_all

pytestmark = pytest.mark.timeout(3600)
SERVERS, PAIRS = 12, 20
"""Fresh servers take a minute each to start, so each is in all pairs: halves of them are drawn anew for each pair."""


async def _measured() -> list[Outcome]:
    # One after the other: two servers on two cores are each other's noise.
    return [outcome async for _, outcome in measure_all(list(pairs.real_vllm(SERVERS)), lanes=1, say=print)]


def test_equal_servers_are_called_different_in_at_most_one_of_twenty_pairs() -> None:
    outcomes = asyncio.run(_measured())
    assert len(outcomes) == SERVERS
    words = pairs.splits(outcomes, pairs=PAIRS)
    print(words)
    assert set(words) <= {"NoDetectableDifference", "Equivalent", "Better", "Worse", "Mixed"}, "all are comparable"
    assert sum(word in ("Better", "Worse", "Mixed") for word in words) <= 1
