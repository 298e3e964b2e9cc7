"""Whether a server did more when it had more to do, and how fast it went."""

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
    """One server between two neighbouring samples of one stage; gauges are the mean of both."""

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
        """Return the share of prompt tokens among all tokens, 0 to 1; 0 where nothing moved."""
        return self.prompt_rate / self.token_rate if self.token_rate else 0.0


# Paces of one server in one stage, in chronological order.
Stretch = Sequence[Pace]


def stretches(windows: Iterable[Window]) -> list[Stretch]:
    """Return one stretch per server and stage; two samples that lack a figure give no pace."""
    servers = [
        own for window in windows for own in by_server(window.samples).values()
    ]
    return [
        [pace for a, b in pairwise(own) if (pace := _between(a, b)) is not None]
        for own in servers
    ]


def mean_pace(parts: Stretch) -> Pace:
    """Return the mean of several paces, weighted by their time."""
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
"""Least ratio of the highest to the lowest number running: with less variation, its effect on
throughput is not known."""
FLAT_PERCENT = 5.0
"""Percent of additional throughput that counts as none: half again as many running requests would
bring 50 % if they helped in full."""
GROWING_EXPONENT = 0.3
"""Throughput that rises with at least this power of the number running grows: twice as many running
requests bring 23 % or more."""
MAX_SHARE_DIFFERENCE = 0.1
"""Largest difference of a pace's share of prompt tokens from that of the whole. Beyond it the pace
does other work: a prompt token is cheap, an output token dear."""
PART = 5
"""Neighbouring paces that are averaged first. A gauge shows a moment: if single samples were
sorted, those that happen to be high would be compared with those that happen to be low at the same
load."""
MIN_PARTS = 6


@dataclass(frozen=True, slots=True)
class OperatingPoint:
    """What a server had at hand on average, and what it did."""

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
    """Two operating points, the one with more running last."""

    low: OperatingPoint
    high: OperatingPoint

    @property
    def running_ratio(self) -> float:
        """Return how many times as many ran; below MIN_RUNNING_RATIO nothing can be concluded."""
        return self.high.running / self.low.running

    @property
    def change_percent(self) -> float:
        """Return the change of the throughput from low to high, in percent."""
        return 100 * (self.high.throughput / self.low.throughput - 1)

    @property
    def is_flat(self) -> bool:
        """Premise: the one with more running was asked for more than it did."""
        return self.change_percent <= FLAT_PERCENT and not self.high.all_served

    @property
    def grows(self) -> bool:
        return self.high.throughput / self.low.throughput >= self.growing_ratio

    @property
    def growing_ratio(self) -> float:
        """Return the least ratio of throughputs that counts as growth."""
        return float(self.running_ratio**GROWING_EXPONENT)


def comparisons(points: Iterable[OperatingPoint]) -> list[OperatingPointPair]:
    """Return every pair of points far enough apart in what was running, the widest first."""
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
    """Compare the least busy with the busiest third of a load point's own time.

    None where they do not differ enough, and where the load does not keep the server `always_busy`
    (users, or all at once) and nothing waited in the busiest third: its throughput is then the rate
    of arrivals.
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
"""Tokens of a full step: three times as many as make arithmetic take longer than reading the
weights."""
PROMPT_TO_OUTPUT = 10
"""Prompt tokens per output token with which nine tenths of each step are prompts."""
STEADY_PERCENT = 10.0
"""Most percent by which the prompt throughput of the two halves of a queue may differ."""
MIN_PACES = 3


@dataclass(frozen=True, slots=True)
class FullSteps:
    """Steps full of prompts, and a throughput that the queue does not change."""

    step_tokens: float  # Mean tokens of one step of an engine.
    prompt_rate: float  # Prompt tokens a second while others waited.
    change_percent: float
    """Percent that this rate changed from the first half of the queue to the second."""


def full_steps(
    pressure: Pressure, stretches: Iterable[Stretch], lengths: MeanLengths | None
) -> FullSteps | None:
    """Return the figures of steps that are full of prompts.

    None where steps are not full of prompts, where their throughput changes, or where either is not
    known.
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
