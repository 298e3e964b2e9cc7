"""Whether the throughput of a server grows when more requests run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import NamedTuple

from benchrun.api import Sample
from benchrun.measure.request_figures import known, risen
from benchrun.measure.server_pressure import MeanLengths, Pressure
from benchrun.measure.timeline import by_server
from benchrun.measure.windows import Window


class Pace(NamedTuple):
    """The rates of one server between two successive samples; gauges are the mean of both."""

    seconds: float
    running: float
    waiting: float
    kv_percent: float | None
    prompt_rate: float  # Prompt tokens a second.
    generation_rate: float  # Output tokens a second.

    @property
    def token_rate(self) -> float:
        return self.prompt_rate + self.generation_rate

    @property
    def prompt_share(self) -> float:
        """Return the share of prompt tokens among all tokens, 0 to 1; 0 without tokens."""
        return self.prompt_rate / self.token_rate if self.token_rate else 0.0


# Paces of one server in one stage, in chronological order.
Stretch = Sequence[Pace]


def stretches(windows: Iterable[Window]) -> list[Stretch]:
    """Return the paces of each server and stage; samples that lack a figure give none."""
    servers = [
        own for window in windows for own in by_server(window.samples).values()
    ]
    return [
        [pace for a, b in pairwise(own) if (pace := _between(a, b)) is not None]
        for own in servers
    ]


def mean_pace(parts: Stretch) -> Pace:
    """Return the mean of several paces, weighted by their durations."""
    seconds = sum(part.seconds for part in parts)
    weighted = ("running", "waiting", "prompt_rate", "generation_rate")
    means = {
        name: sum(getattr(part, name) * part.seconds for part in parts) / seconds
        for name in weighted
    }
    usage = known(part.kv_percent for part in parts)
    return Pace(
        seconds=seconds,
        kv_percent=sum(usage) / len(usage) if usage else None,
        **means,
    )


def _between(first: Sample, last: Sample) -> Pace | None:
    seconds = last.at - first.at
    running = _mean(first.running, last.running)
    waiting = _mean(first.waiting, last.waiting)
    prompt = risen(first.prompt_tokens, last.prompt_tokens)
    generation = risen(first.generation_tokens, last.generation_tokens)
    if (
        seconds <= 0
        or running is None
        or waiting is None
        or prompt is None
        or generation is None
    ):
        return None
    usage = _mean(first.kv_cache, last.kv_cache)
    kv_percent = None if usage is None else 100 * usage
    return Pace(
        seconds,
        running,
        waiting,
        kv_percent,
        prompt / seconds,
        generation / seconds,
    )


def _mean(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else (first + last) / 2


# A server that runs twice as many requests at once and completes no more in a second has no room
# left, whatever else is full. One that completes more for every request it may run is held back by
# what keeps it from running more.

MIN_RUNNING_RATIO = 1.5
"""Least ratio between two numbers of running requests that are compared. With less variation, the
effect on throughput can't be told."""
FLAT_PERCENT = 5.0
"""Throughput that grows by at most this percentage counts as flat: 1.5 times as many running
requests would bring 50 % if all of them helped."""
GROWING_EXPONENT = 0.3
"""Throughput counts as growing if it rises with at least this power of the number of running
requests: twice as many bring at least 23 %."""
MAX_SHARE_DIFFERENCE = 0.1
"""Largest difference between the share of prompt tokens in a pace and in the whole. Paces that
differ more did other work: a prompt token costs little, an output token much."""
PART = 5
"""Number of successive paces that are averaged before they are sorted. A gauge shows a moment:
sorted singly, samples that are high and low by chance, at the same load, would be compared."""
MIN_PARTS = 6


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """The mean number of running requests of a server, and its throughput with them."""

    name: str
    running: float
    throughput: (
        float  # Throughput in any unit that is the same for all compared points.
    )
    kv_percent: float | None = None
    # Whether the throughput equals the arrivals: no more requests came.
    all_served: bool = False


@dataclass(frozen=True, slots=True)
class OperatingPointPair:
    """Two operating points; in `high` more requests run than in `low`."""

    low: OperatingPoint
    high: OperatingPoint

    @property
    def running_ratio(self) -> float:
        """Return the ratio of the running requests, high to low.

        A ratio below MIN_RUNNING_RATIO proves nothing.
        """
        return self.high.running / self.low.running

    @property
    def change_percent(self) -> float:
        """Return the change of the throughput from low to high, in percent."""
        return 100 * (self.high.throughput / self.low.throughput - 1)

    @property
    def is_flat(self) -> bool:
        """Return whether throughput does not grow although more requests run."""
        return self.change_percent <= FLAT_PERCENT and not self.high.all_served

    @property
    def grows(self) -> bool:
        return self.high.throughput / self.low.throughput >= self.growing_ratio

    @property
    def growing_ratio(self) -> float:
        """Return the least ratio of throughputs that counts as growth."""
        return float(self.running_ratio**GROWING_EXPONENT)


def comparisons(points: Iterable[OperatingPoint]) -> list[OperatingPointPair]:
    """Return the pairs of points whose numbers of running requests differ enough.

    The pair with the largest ratio comes first.
    """
    ordered = sorted(
        (p for p in points if p.running > 0 and p.throughput > 0),
        key=lambda p: p.running,
    )
    pairs = (
        OperatingPointPair(low, high) for low, high in combinations(ordered, 2)
    )
    return sorted(
        (p for p in pairs if p.running_ratio >= MIN_RUNNING_RATIO),
        key=lambda pair: -pair.running_ratio,
    )


def within(
    stretches: Iterable[Stretch], *, always_busy: bool
) -> OperatingPointPair | None:
    """Compare the third of a load point's time in which fewest requests ran with the busiest third.

    None if they do not differ enough. Also None if nothing waited in the busiest third, unless the
    load keeps the server `always_busy` (a closed loop, or all requests at once): the arrivals then
    set the throughput.
    """
    parts = [
        mean_pace(s[i : i + PART])
        for s in stretches
        for i in range(0, len(s) - PART + 1, PART)
    ]
    share = mean_pace(parts).prompt_share if parts else 0.0
    alike = [
        p
        for p in parts
        if p.token_rate > 0 and abs(p.prompt_share - share) <= MAX_SHARE_DIFFERENCE
    ]
    if len(alike) < MIN_PARTS:
        return None
    alike.sort(key=lambda part: part.running)
    third = len(alike) // 3
    least = mean_pace(alike[:third])
    most = mean_pace(alike[-third:])
    if not always_busy and most.waiting < 1:
        return None
    pair = [
        OperatingPoint(n, p.running, p.token_rate, p.kv_percent)
        for n, p in (("low", least), ("high", most))
    ]
    return next(iter(comparisons(pair)), None)


# A GPU reads the weights once a step, so a step of few tokens takes as long as reading them,
# whatever else it does; from some 300 tokens on (FLOP/s over bytes/s of an H100 in bf16, and much
# the same before and after it) the arithmetic takes longer. A request that runs takes part in every
# step, so it is there for as many steps as it has output tokens; by Little's law the steps then
# hold, for each running request, its prompt's and its output's tokens shared among these steps.

FULL_STEP_TOKENS = 1024
"""Tokens of a full step: three times the number from which arithmetic takes longer than reading the
weights."""
PROMPT_TO_OUTPUT = 10
"""Prompt tokens per output token from which nine tenths of each step are prompt tokens."""
STEADY_PERCENT = 10.0
"""Largest change, in percent, of the prompt throughput between the two halves of a queue."""
MIN_PACES = 3


@dataclass(frozen=True, slots=True)
class FullSteps:
    """Figures of steps full of prompts, if throughput does not depend on the queue's length."""

    step_tokens: float  # Mean tokens of one step of an engine.
    prompt_rate: float  # Prompt tokens a second while others waited.
    change_percent: float
    """Change of this rate, in percent, from the first half of the queue to the second."""


def full_steps(
    pressure: Pressure, stretches: Iterable[Stretch], lengths: MeanLengths | None
) -> FullSteps | None:
    """Return the figures of steps that are full of prompts with a steady throughput.

    Return None if steps are not full, if throughput is not steady, or if this is not known.
    """
    queued = [
        pace for stretch in stretches for pace in stretch if pace.waiting >= 1
    ]
    if (
        lengths is None
        or pressure.queued_running is None
        or len(queued) < MIN_PACES
    ):
        return None
    computed = lengths.prompt * (1 - (pressure.prefix_hit_percent or 0.0) / 100)
    step_tokens = (
        pressure.queued_running
        / pressure.engines
        * (computed + lengths.output)
        / max(1.0, lengths.output)
    )
    if (
        computed < PROMPT_TO_OUTPUT * lengths.output
        or step_tokens < FULL_STEP_TOKENS
    ):
        return None
    middle = len(queued) // 2
    first = mean_pace(queued[:middle]).prompt_rate
    last = mean_pace(queued[middle:]).prompt_rate
    if first <= 0 or abs(last / first - 1) * 100 > STEADY_PERCENT:
        return None
    return FullSteps(
        step_tokens, mean_pace(queued).prompt_rate, 100 * (last / first - 1)
    )
