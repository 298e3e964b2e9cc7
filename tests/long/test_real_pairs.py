"""Real vLLM servers on CPUs that are all alike: does the comparison find a difference between them?

Eight servers are halved in seven ways that share nothing: any two halvings have half of each side
in common, so what makes one differ says nothing about another (the rows of a Hadamard matrix).
Random halves are not so, and of eight servers there are not more than seven. Three blocks of eight
make 21 pairs. Within a block they are less than independent in one respect: their noise is
estimated from the same servers."""

import asyncio

import pytest
from truth_kit import pairs
from truth_kit.lab import Outcome, measure_all

pytestmark = pytest.mark.timeout(3600)
BLOCKS = 3


async def _measured() -> list[Outcome]:
    # One after the other: two servers on two cores are each other's noise.
    servers = list(pairs.real_vllm(BLOCKS * pairs.BLOCK))
    return [
        outcome async for _, outcome in measure_all(servers, lanes=1, say=print)
    ]


def test_equal_servers_are_called_different_in_at_most_one_of_twenty_one_pairs() -> (
    None
):
    outcomes = asyncio.run(_measured())
    assert len(outcomes) == BLOCKS * pairs.BLOCK
    words = pairs.words_of_halves(outcomes)
    print(words)
    assert len(words) == 21
    assert set(words) <= {
        "NoDetectableDifference",
        "Equivalent",
        "Better",
        "Worse",
        "Mixed",
    }, "all are comparable"
    assert sum(word in ("Better", "Worse", "Mixed") for word in words) <= 1
