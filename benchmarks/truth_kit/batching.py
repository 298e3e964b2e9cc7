"""A simulated server with continuous batching, written apart from the project's simulator.

In each step the server decodes one token of every running sequence and prefills waiting prompts
within its token budget; a step takes a base time, and more with prefilled tokens and sequences.
Times are in milliseconds.
"""

import math
from collections.abc import Callable
from heapq import heapify, heappop, heappush
from random import Random
from typing import NamedTuple

BASE_MS = 12.0
MS_A_PROMPT_TOKEN = 0.12
MS_A_SEQUENCE = 0.25
MAX_SEQUENCES = 256
BUDGET_TOKENS = 2048
PROMPT_TOKENS = 512
PROMPT_SIGMA = 1.0
OUTPUT_TOKENS = 128
OUTPUT_SIGMA = 0.8
"""Spread of the logarithm of lognormal lengths, as `PROMPT_SIGMA`; the token counts above are the
means."""
CAPACITY = 10.2
"""Requests a second at which a long queue is served."""
STEADY_ROUNDS = 15
STEADY_SECONDS = 60.0
"""Time until a server that began empty is steady: rounds of a closed loop, or seconds of an open
one."""

Speed = Callable[[float], float]


class Answer(NamedTuple):
    """One request of a stage, in milliseconds from the stage's begin."""

    sent: float
    ttft: float
    e2el: float
    tokens: int

    @property
    def tpot(self) -> float:
        """Return the milliseconds per output token after the first."""
        return (self.e2el - self.ttft) / (self.tokens - 1)


class Server:
    """One stage: `count` requests, at a rate or from users."""

    def __init__(
        self,
        count: int,
        random: Random,
        *,
        rate: float | None = None,
        users: int | None = None,
        spread_ms: float = 0.0,
        speed: Speed | None = None,
    ) -> None:
        """Draw the requests of the stage.

        `rate` is in requests a second. Users begin evenly within `spread_ms`. `speed` returns how
        many times longer a step takes at an instant in milliseconds.
        """
        self._count = count
        self._speed = speed
        self._prompts = [
            _length(random, PROMPT_TOKENS, PROMPT_SIGMA, 1, 8000)
            for _ in range(count)
        ]
        self._outputs = [
            _length(random, OUTPUT_TOKENS, OUTPUT_SIGMA, 2, 2000)
            for _ in range(count)
        ]
        self._is_closed = users is not None
        self._arrivals: list[float] = []
        if users is not None:
            begun = min(users, count)
            self._arrivals = [spread_ms * number / users for number in range(begun)]
        elif rate is not None:
            now = 0.0
            for _ in range(count):
                now += random.expovariate(rate / 1000)
                self._arrivals.append(now)
        self._issued = len(self._arrivals)
        heapify(self._arrivals)

    def served(self) -> "Served":
        """Serve all requests."""
        count = self._count
        arrivals = self._arrivals
        sent, first, end = ([0.0] * count for _ in range(3))
        decodes: list[Decodes] = []
        waiting: list[int] = []
        ending: list[tuple[int, int]] = []
        taken = 0
        admitted = 0
        running = 0
        done = 0
        step = 0
        now = 0.0
        prefilling: tuple[int, int] | None = None
        while done < count:
            while arrivals and arrivals[0] <= now:
                sent[taken] = heappop(arrivals)
                waiting.append(taken)
                taken += 1
            if not running and prefilling is None and admitted == len(waiting):
                now = arrivals[0]
                continue
            budget = BUDGET_TOKENS - running
            prefilled = 0
            ready: list[int] = []
            while budget > 0:
                if prefilling is None:
                    if (
                        admitted == len(waiting)
                        or running + len(ready) >= MAX_SEQUENCES
                    ):
                        break
                    prefilling = waiting[admitted], self._prompts[waiting[admitted]]
                    admitted += 1
                number, left = prefilling
                part = min(budget, left)
                budget -= part
                prefilled += part
                prefilling = (number, left - part) if part < left else None
                if prefilling is None:
                    ready.append(number)
            took = BASE_MS + MS_A_PROMPT_TOKEN * prefilled + MS_A_SEQUENCE * running
            steps = 1
            if self._speed is not None:
                took *= self._speed(now)
            elif not prefilled:
                # Until a sequence ends or a request arrives, all steps are alike.
                steps = ending[0][0] - step
                if arrivals:
                    steps = min(steps, math.ceil((arrivals[0] - now) / took))
            now += took * steps
            step += steps
            decodes.append(Decodes(now, took, running, steps))
            for number in ready:
                first[number] = now
                running += 1
                heappush(ending, (step + self._outputs[number] - 1, number))
            while ending and ending[0][0] <= step:
                number = heappop(ending)[1]
                end[number] = now
                running -= 1
                done += 1
                if self._is_closed and self._issued < count:
                    self._issued += 1
                    heappush(arrivals, now)
        answers = [
            Answer(sent[i], first[i] - sent[i], end[i] - sent[i], self._outputs[i])
            for i in range(count)
        ]
        return Served(answers, decodes)


class Decodes(NamedTuple):
    """Equal steps one after the other: in each, all running sequences get a token."""

    end: float  # Of the last step, in milliseconds from the stage's begin.
    gap: float  # Milliseconds from a sequence's token before.
    sequences: int
    steps: int


class Served(NamedTuple):
    """A stage that was served."""

    answers: list[Answer]  # In order of sending.
    decodes: list[Decodes]  # In order of time.


def _length(random: Random, mean: int, sigma: float, least: int, most: int) -> int:
    drawn = random.lognormvariate(math.log(mean) - sigma * sigma / 2, sigma)
    return int(min(max(drawn, least), most))


def steady_stage(
    count: int,
    random: Random,
    *,
    rate: float | None = None,
    users: int | None = None,
    speed: Speed | None = None,
) -> Served:
    """Return so many requests to a server that has reached its steady state."""
    warm = STEADY_ROUNDS * users if users else round(STEADY_SECONDS * (rate or 0.0))
    spread_ms = 3000.0 if users else 0.0
    server = Server(
        warm + count,
        random,
        rate=rate,
        users=users,
        spread_ms=spread_ms,
        speed=speed,
    )
    return part_of(server.served(), warm, warm + count)


def part_of(served: Served, begin: int, end: int) -> Served:
    """Return the requests from position `begin` up to `end`, and the decoding of that time."""
    answers = served.answers[begin:end]
    began = answers[0].sent
    ended = answers[-1].sent
    return Served(
        [each._replace(sent=each.sent - began) for each in answers],
        [
            each._replace(end=each.end - began)
            for each in served.decodes
            if began < each.end <= ended
        ],
    )
