"""Reproduce the random numbers that vLLM 0.9's random dataset draws, as far as a plan needs them.

The plan needs the lengths of prompts, and the position in the stream of random numbers at which the
beginnings of prompts are drawn.

vLLM 0.9 draws the lengths of prompts, the lengths of answers and then the beginnings, all from one
stream. A draw from a range discards numbers outside of it, so the position depends on both ranges
and on the number of prompts. If two stages begin at the same position, their prompts begin alike,
whatever the vocabulary. (`numpy.random.seed` and `randint`: the Mersenne Twister of Matsumoto and
Nishimura, 1998, by its published recurrence.)
"""

from collections.abc import Iterator
from typing import NamedTuple

WORDS = 624
SHIFT = 397
ALL_BITS = 0xFFFFFFFF


class StageDraws(NamedTuple):
    """What vLLM draws for one stage."""

    inputs: tuple[int, ...]  # Lengths of the stage's prompts in tokens.
    place: int  # Numbers of the stream that were taken before the first prompt's beginning.


class _Stream:
    """The stream of random numbers, which counts how many numbers were taken."""

    def __init__(self, seed: int) -> None:
        self._words = _words(seed)
        self.taken = 0

    def drawn(self, low: int, high: int, count: int) -> list[int]:
        """Draw `count` whole numbers from low to high; numbers outside are discarded."""
        span = high - low
        if span == 0:
            return [low] * count
        mask = (1 << span.bit_length()) - 1
        found: list[int] = []
        while len(found) < count:
            self.taken += 1
            number = next(self._words) & mask
            if number <= span:
                found.append(low + number)
        return found


def _words(seed: int) -> Iterator[int]:
    """Yield the random numbers of a seed, 32 bits each, without end."""
    state = [seed & ALL_BITS]
    for place in range(1, WORDS):
        last = state[-1]
        state.append((1812433253 * (last ^ (last >> 30)) + place) & ALL_BITS)
    while True:
        for place in range(WORDS):
            joined = (state[place] & 0x80000000) | (
                state[(place + 1) % WORDS] & 0x7FFFFFFF
            )
            twisted = state[(place + SHIFT) % WORDS] ^ (joined >> 1)
            state[place] = twisted ^ (0x9908B0DF if joined & 1 else 0)
        yield from map(_tempered, state)


def _tempered(word: int) -> int:
    """Return the output of the Mersenne Twister for one word of its state."""
    word ^= word >> 11
    word ^= (word << 7) & 0x9D2C5680
    word ^= (word << 15) & 0xEFC60000
    return word ^ (word >> 18)


def old_draws(
    inputs: tuple[int, int], outputs: tuple[int, int], *, seed: int, requests: int
) -> StageDraws:
    """Return the numbers that vLLM 0.9 draws before the beginnings of prompts.

    `inputs` and `outputs` are the least and greatest lengths of prompts and answers.
    """
    stream = _Stream(seed)
    lengths = stream.drawn(*inputs, requests)
    stream.drawn(*outputs, requests)
    return StageDraws(tuple(lengths), stream.taken)
