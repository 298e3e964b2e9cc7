"""Whether prices are right: what is told to be enough, held against what it takes.

A setting is a server, or two sides of them, a size that leaves something open, and a question. What
is told is the median over the measurements that leave it open. What it takes is the least size, in
the proportions that were told, with which a share of `POWER` of new measurements decides it.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from statistics import median

from benchrun.api import Change, ComparedMetric
from benchrun.judge.comparison.figures import NoisyFigure
from benchrun.judge.comparison.hypotheses import Hypothesis, answers, family_error
from benchrun.judge.comparison.prices import values_of_change
from benchrun.measure import mean_of
from benchrun_client.contract import (
    POWER,
    Needed,
    RequestSample,
    decided,
    is_bounded,
    needed_to_bound,
    needed_to_decide,
    stage_shape,
)

from truth_kit import certainty

TOLD_BY = 96
"""Measurements that a told number is the median of, of which as many as `LEAST_OPEN` leave the
question open."""
LEAST_OPEN = 32
TRIED = 40  # Measurements of each size that is tried.
HALVINGS = 5
"""Sizes that are tried: the last two differ by 6 %."""
WIDEST = (
    4.0  # What it takes is looked for from a fourth to four times of what was told.
)
TRUTH_REQUESTS = 100_000
FIGURES = 5
EQUIVALENT_PERCENT = 1.0
METRIC: ComparedMetric = "MeanTTFT"


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a measurement: of a load point, or on each side."""

    requests: int  # Of a stage; of a comparison 1.
    repeats: int  # Or fresh servers on each side.

    @property
    def total(self) -> int:
        """Return what a price counts."""
        return self.requests * self.repeats

    def times(self, factor: float, *, by_repeats: bool) -> "Size":
        """Return a size so many times as large, by more repeats or by longer stages."""
        if by_repeats:
            return Size(self.requests, max(2, round(self.repeats * factor)))
        return Size(max(2, round(self.requests * factor)), self.repeats)


@dataclass(frozen=True, slots=True)
class Setting:
    """A question to measurements of a size."""

    name: str
    size: Size
    ask: Callable[[Size, Random], "Answer"]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a measurement answers."""

    is_decided: bool
    told: Size | None = None  # What would decide it.


@dataclass(frozen=True, slots=True)
class Found:
    """What was seen of a setting."""

    setting: str
    told: float  # Requests, or servers a side: the median.
    takes: float
    each: tuple[float, ...]  # What each measurement told.
    decided_percent: float  # Of measurements of the size that was told.

    @property
    def error_percent(self) -> float:
        """Return how far what is told is off, in percent of what it takes."""
        return 100 * abs(self.told / self.takes - 1)


def found(setting: Setting) -> Found | None:
    """Measure a setting; None if too few measurements leave it open, or it is nowhere decided."""
    random = Random(setting.name)
    told = [
        answer.told
        for answer in (setting.ask(setting.size, random) for _ in range(TOLD_BY))
        if not answer.is_decided and answer.told is not None
    ]
    if len(told) < LEAST_OPEN:
        return None
    typical = sorted(told, key=lambda each: each.total)[len(told) // 2]
    by_repeats = typical.repeats > 2
    takes = _takes(setting, typical, random, by_repeats=by_repeats)
    if takes is None:
        return None
    return Found(
        setting.name,
        median(each.total for each in told),
        takes,
        tuple(float(each.total) for each in told),
        100 * _share(setting, typical, random),
    )


def _takes(
    setting: Setting, told: Size, random: Random, *, by_repeats: bool
) -> float | None:
    """Return the least total that decides so often; None if it is not near what was told."""
    low = 1 / WIDEST
    high = WIDEST
    if _share(setting, told.times(high, by_repeats=by_repeats), random) < POWER:
        return None
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        size = told.times(middle, by_repeats=by_repeats)
        if _share(setting, size, random) < POWER:
            low = middle
        else:
            high = middle
    return told.total * math.sqrt(low * high)


def _share(setting: Setting, size: Size, random: Random) -> float:
    answers = [setting.ask(size, random).is_decided for _ in range(TRIED)]
    return sum(answers) / len(answers)


# Load points.


def _sample(
    server: certainty.Server, figure: str, size: Size, random: Random
) -> RequestSample:
    stages = [server.stage(size.requests, random) for _ in range(size.repeats)]
    shapes = [
        stage_shape(stage.begins, stage.ends, users=server.users)
        for stage in stages
    ]
    return RequestSample(shapes, [stage.values[figure] for stage in stages])


def _told(size: Size, needed: Needed | None) -> Size | None:
    if needed is None:
        return None
    return Size(math.ceil(size.requests * needed.longer), needed.repeats)


def _bounding(
    server: certainty.Server, figure: str, percent: float
) -> Callable[[Size, Random], Answer]:
    def ask(size: Size, random: Random) -> Answer:
        sample = _sample(server, figure, size, random)
        if is_bounded(sample, percent):
            return Answer(is_decided=True)
        needed = needed_to_bound(sample, percent)
        return Answer(is_decided=False, told=_told(size, needed))

    return ask


def _deciding(
    server: certainty.Server, figure: str, percent: int, times: float
) -> Callable[[Size, Random], Answer]:
    def ask(size: Size, random: Random) -> Answer:
        limit = times * _truth(server, figure, percent)
        sample = _sample(server, figure, size, random)
        if decided(sample, percent, limit).outcome != "Inconclusive":
            return Answer(is_decided=True)
        needed = needed_to_decide(sample, percent, limit)
        return Answer(is_decided=False, told=_told(size, needed))

    return ask


@cache
def _truth(server: certainty.Server, figure: str, percent: int) -> float:
    values = sorted(
        server.stage(TRUTH_REQUESTS, Random(f"truth {server.name}")).values[figure]
    )
    return values[math.ceil(len(values) * percent / 100) - 1]


# Comparisons.


def _comparing(cv: float, change: float) -> Callable[[Size, Random], Answer]:
    def side(size: Size, random: Random, level: float) -> NoisyFigure:
        values = [level + random.gauss(0, cv) for _ in range(size.repeats)]
        mean = mean_of(values)
        return NoisyFigure(math.exp(mean.estimate), mean)

    def ask(size: Size, random: Random) -> Answer:
        asked = [
            Hypothesis(
                METRIC,
                side(size, random, 0.0),
                side(size, random, change if place == 0 else 0.0),
            )
            for place in range(FIGURES)
        ]
        first: Change = answers(asked)[0]
        if first.word in ("Better", "Worse", "Equivalent"):
            return Answer(is_decided=True)
        count = values_of_change(
            asked[0],
            first,
            error=family_error(asked),
            margin=math.log1p(EQUIVALENT_PERCENT / 100),
        )
        return Answer(
            is_decided=False, told=None if count is None else Size(1, count)
        )

    return ask


# The settings.

_SERVERS = {server.name: server for server in certainty.SERVERS}
_OF_PERCENTILES = (
    ("M/M/8 at 0.7", "e2el", Size(100, 1), 95),
    ("M/M/8 at 0.7", "e2el", Size(200, 1), 99),
    ("M/G/32 at 0.8", "e2el", Size(400, 1), 95),
    ("M/G/32 at 0.8", "e2el", Size(100, 3), 99),
    ("batching at 0.7", "ttft", Size(100, 1), 95),
    ("batching 16 users", "e2el", Size(40, 1), 90),
    ("batching 64 users", "ttft", Size(400, 1), 95),
    ("batching 64 users", "e2el", Size(150, 1), 50),
)
_OF_OBJECTIVES = tuple(
    (name, figure, size, percent, times)
    for name, figure in (
        ("M/M/8 at 0.7", "e2el"),
        ("M/M/1 at 0.5", "e2el"),
        ("M/G/32 at 0.8", "e2el"),
        ("batching at 0.7", "ttft"),
        ("batching 16 users", "e2el"),
    )
    for size, percent, times in (
        (Size(100, 1), 50, 1.2),
        (Size(200, 1), 95, 1.7),
        (Size(200, 1), 95, 0.6),
        (Size(100, 3), 50, 1.1),
        (Size(200, 3), 90, 0.85),
        (Size(200, 3), 95, 1.2),
    )
)
_OF_CHANGES = tuple(
    (cv, change, servers)
    for cv in (0.015, 0.04)
    for change in (0.02, 0.04, 0.08)
    for servers in (3, 5, 8)
)


def settings() -> Iterator[Setting]:
    """Yield all settings, percentiles first, then objectives, then changes."""
    for name, figure, size, percent in _OF_PERCENTILES:
        yield Setting(
            f"percentile: {name}, {figure} p{percent}, {size.requests} x {size.repeats}",
            size,
            _bounding(_SERVERS[name], figure, percent),
        )
    for name, figure, size, percent, times in _OF_OBJECTIVES:
        yield Setting(
            f"objective: {name}, {figure} p{percent} x {times}, "
            f"{size.requests} x {size.repeats}",
            size,
            _deciding(_SERVERS[name], figure, percent, times),
        )
    for cv, change, servers in _OF_CHANGES:
        yield Setting(
            f"change: CV {100 * cv:g} %, by {100 * change:g} %, {servers} servers a side",
            Size(1, servers),
            _comparing(cv, change),
        )


def of_place(place: int) -> Found | None:
    """Measure the setting at a place in the list."""
    return found(list(settings())[place])


def in_words(seen: Found) -> str:
    """Return a line on a setting."""
    return (
        f"{seen.setting}: told {seen.told:.0f}, takes {seen.takes:.0f} "
        f"({seen.error_percent:.0f} % off), decided {seen.decided_percent:.0f} %"
    )


def errors_of_each(seen: Sequence[Found]) -> list[float]:
    """Return how far each measurement's own number is off, in percent."""
    return [100 * abs(told / each.takes - 1) for each in seen for told in each.each]
