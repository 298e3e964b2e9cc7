"""Whether a load point's row is true of its load, though its stages begin with an empty server.

The truth of each load is that of a server in its steady state, over so many requests that its own
chance is small. A mean is right if rows show it on average, a percentile if rows show it on average
or if as many rows show more as less: many requests take the same whole number of steps, and a
percentile at the edge of such a number is one step too high or too low by chance. What is left out
wrongly moves both. Load points are added until chance no longer decides on which side of the limit
a figure is. It also shows what slow changes of a server make of Met. The whole path of the product
is used, from records to rows.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random
from statistics import fmean, median, stdev
from typing import NamedTuple

from benchrun.api import Result
from benchrun_client.contract import Distribution

from truth_kit import batching, product
from truth_kit.spread import spread

FIGURES = ("mean", "p50", "p95", "p99")
LATENCIES = ("ttft", "tpot", "e2el")
TRUTH_REQUESTS = 300_000
TRUTH_CHAINS = (3, 6)
"""Servers whose figures are the truth of a load, on average: at first, and where a figure is then
not known to `TRUTH_ERROR_PERCENT`."""
TRUTH_ERROR_PERCENT = 0.4
"""Standard error of a truth that is small beside the errors of rows."""
POINTS = (32, 64, 128, 256, 512)
"""Load points of a setting: from one number to the next while a figure is not decided."""
LIMIT = 0.05
"""Error of a figure that is allowed, as a share of the truth."""
SURE = 2.0
"""Standard errors by which a figure must be on one side of `LIMIT` to be decided."""
LEAST_SHOWN = 8
"""Fewest valid load points of a setting for a meaningful figure."""
CHUNK = 8
SLOW_RATE = 3.0
SLOW_REQUESTS = 2000
SLOW_LOAD_POINTS = 24
SLOW_PERCENT = 50
SLOW_METRICS: tuple[product.ComparedLatency, ...] = ("TTFT", "TPOT", "E2EL")


@dataclass(frozen=True, slots=True)
class Setting:
    """A load, the requests of a stage, and repeats; every stage begins with an empty server."""

    rate: float | None
    users: int | None
    count: int
    repeats: int
    is_spread: bool = True
    """Whether users begin spread over a round, as they do unless asked otherwise."""

    @property
    def load(self) -> "Load":
        """Return the load alone, which has one truth."""
        return Load(self.rate, self.users)

    def __str__(self) -> str:
        load = f"{self.users} users" if self.users else f"{self.rate:g}/s"
        begun = "" if self.is_spread or not self.users else ", together"
        return f"{load}, {self.count} x {self.repeats}{begun}"


def _settings() -> Iterator[Setting]:
    for users in (4, 16, 64, 256):
        for rounds, repeats in ((10, 1), (20, 1), (50, 1), (20, 2), (20, 5)):
            if users * rounds * repeats <= 26_000:
                yield Setting(None, users, users * rounds, repeats)
        yield Setting(None, users, users * 20, 1, is_spread=False)
    for rate in (3.0, 6.0, 8.0):
        for count, repeats in ((400, 1), (400, 5), (400, 10), (2000, 1), (2000, 2)):
            yield Setting(rate, None, count, repeats)


class Load(NamedTuple):
    """Requests a second, or users."""

    rate: float | None
    users: int | None


Figures = Mapping[str, float]
"""Key of `results[].metrics` -> milliseconds."""


@dataclass(frozen=True, slots=True)
class _Chain:
    """One of the servers whose figures are the truth of a load."""

    load: Load
    number: int


@dataclass(frozen=True, slots=True)
class _Rows:
    """Load points of a setting to be judged."""

    setting: Setting
    truth: Figures
    chunk: int


@dataclass(frozen=True, slots=True)
class _Slow:
    """Load points of a server that changes slowly, with its true medians as limits."""

    change: str
    repeats: int
    limits: Mapping[product.ComparedLatency, int]
    chunk: int


SLOW_CHANGES = ("60 s", "300 s", "wave")
Tally = Counter[str]
Shown = dict[str, list[float]]
"""Key of a figure -> the values of Valid rows divided by the truth."""


class Error(NamedTuple):
    """How far the rows of a setting are from the truth in one figure, in percent of it."""

    percent: float
    standard_error: float
    name: str


def measured(
    *, say: Callable[[str], None], scale: float = 1.0
) -> Mapping[str, float | None]:
    """Simulate, judge, count, and return the figures by name.

    `scale` multiplies the number of load points.
    """
    truths, truth_error = _truths()
    say(f"  truths: {truth_error}")
    shown, tallies = _judged(truths, scale)
    slow = _slow_tallies(scale)
    for name, tally in (*tallies.items(), *slow.items()):
        say(f"  {name}: {dict(tally)}")
    found = _errors(shown)
    for errors in found:
        say(f"  worst: {sorted(errors, reverse=True)[:6]}")
    return {
        "steady_truth_standard_error_percent": truth_error.standard_error,
        **_error_figures(*found),
        **_word_figures(tallies, slow),
    }


# The truth.


def _truths() -> tuple[Mapping[Load, Figures], Error]:
    """Return the truth of each load, and the figure that is known least."""
    runs = defaultdict[Load, list[Figures]](list)
    wanted = list(dict.fromkeys(setting.load for setting in _settings()))
    for before, until in pairwise((0, *TRUTH_CHAINS)):
        chains = [
            _Chain(load, number)
            for load in wanted
            for number in range(before, until)
        ]
        for chain, figures in zip(chains, spread(_long_run, chains), strict=True):
            runs[chain.load].append(figures)
        wanted = [
            load
            for load in wanted
            if _known_least(load, runs[load]).standard_error > TRUTH_ERROR_PERCENT
        ]
    truths = {
        load: {key: fmean(run[key] for run in own) for key in own[0]}
        for load, own in runs.items()
    }
    errors = (_known_least(load, own) for load, own in runs.items())
    return truths, max(errors, key=lambda error: error.standard_error)


def _known_least(load: Load, runs: Sequence[Figures]) -> Error:
    """Return the figure of a load that differs most between its long runs."""
    errors = []
    for key in runs[0]:
        if key.startswith(FIGURES):
            values = [run[key] for run in runs]
            scatter = stdev(values) / math.sqrt(len(values))
            errors.append(
                Error(0.0, 100 * scatter / fmean(values), f"{load} {key}")
            )
    return max(errors, key=lambda error: error.standard_error)


def _long_run(chain: _Chain) -> Figures:
    rate, users = chain.load
    random = Random(f"{rate} {users} {chain.number}")
    served = batching.steady_stage(TRUTH_REQUESTS, random, rate=rate, users=users)
    gaps = ((each.gap, each.sequences * each.steps) for each in served.decodes)
    pools = {
        latency: Distribution.of(getattr(each, latency) for each in served.answers)
        for latency in LATENCIES
    }
    found = {}
    for latency, pool in (pools | {"itl": Distribution.of_counts(gaps)}).items():
        found[f"mean_{latency}_ms"] = pool.mean() or 0.0
        for percent in product.PERCENTS:
            found[f"p{percent}_{latency}_ms"] = pool.percentile(percent) or 0.0
    return found


# What rows show.


def _judged(
    truths: Mapping[Load, Figures], scale: float
) -> tuple[Mapping[Setting, Shown], Mapping[Setting, Tally]]:
    shown: dict[Setting, Shown] = defaultdict(lambda: defaultdict(list))
    tallies: dict[Setting, Tally] = defaultdict(Counter)
    wanted = list(_settings())
    for before, until in pairwise((0, *POINTS)):
        chunks = range(
            round(scale * before / CHUNK), max(1, round(scale * until / CHUNK))
        )
        tasks = [
            _Rows(each, truths[each.load], chunk)
            for each in wanted
            for chunk in chunks
        ]
        for task, (ratios, tally) in zip(tasks, spread(_rows, tasks), strict=True):
            tallies[task.setting] += tally
            for name, values in ratios.items():
                shown[task.setting][name] += values
        wanted = [setting for setting in wanted if not _is_decided(shown[setting])]
    return shown, tallies


def _rows(task: _Rows) -> tuple[Shown, Tally]:
    tally: Tally = Counter()
    ratios: Shown = defaultdict(list)
    for number in range(CHUNK):
        row = _row(
            task.setting,
            Random(f"{task.setting} {task.chunk} {number}"),
            task.truth,
        )
        tally[row.verdict] += 1
        tally.update(each.outcome for each in row.objectives)
        if row.verdict != "Valid":
            continue
        for key, true in task.truth.items():
            if key in row.intervals:
                low, high = row.intervals[key]
                tally["given"] += 1
                tally["covered"] += low <= true <= high
            value = row.figure(key)
            if value is not None and key not in row.uncertain:
                ratios[key].append(value / true)
    return dict(ratios), tally


def _row(setting: Setting, random: Random, truth: Mapping[str, float]) -> Result:
    spread_ms = truth["mean_e2el_ms"] if setting.is_spread else 0.0
    stages = [
        batching.Server(
            setting.count,
            random,
            rate=setting.rate,
            users=setting.users,
            spread_ms=spread_ms,
        ).served()
        for _ in range(setting.repeats)
    ]
    limits = [
        (
            metric,
            percent,
            max(1, math.floor(truth[f"p{percent}_{metric.lower()}_ms"])),
        )
        for metric in ("TTFT", "E2EL")
        for percent in (90, 99)
    ]
    return product.judged_answers(
        stages,
        limits=[(_metric(name), percent, limit) for name, percent, limit in limits],
        rate=setting.rate,
        users=setting.users,
    )


def _metric(name: str) -> product.ComparedLatency:
    return "TTFT" if name == "TTFT" else "TPOT" if name == "TPOT" else "E2EL"


# A server whose speed changes slowly: from minute to minute by chance (AR(1), standard deviation 15
# %), or as a wave of 20 % in half an hour. The truth is its long-run percentile.


def _speed(change: str, random: Random, seconds: float) -> batching.Speed:
    if change == "wave":
        phase = random.random()
        return lambda ms: 1 + 0.2 * math.sin(2 * math.pi * (ms / 1.8e6 + phase))
    relaxation = float(change.split()[0])
    kept = math.exp(-1 / relaxation)
    steps = [random.gauss(0.0, 0.15)]
    for _ in range(int(seconds) + 1):
        steps.append(
            kept * steps[-1] + random.gauss(0.0, 0.15 * math.sqrt(1 - kept * kept))
        )
    return lambda ms: max(0.3, 1 + steps[min(int(ms / 1000), len(steps) - 1)])


def _slow_tallies(scale: float) -> Mapping[str, Tally]:
    """Count the words at the true medians, by the server's change and the number of repeats."""
    limits = dict(
        zip(SLOW_CHANGES, spread(_slow_medians, SLOW_CHANGES), strict=True)
    )
    chunks = range(max(1, round(scale * SLOW_LOAD_POINTS / CHUNK)))
    tasks = [
        _Slow(change, repeats, limits[change], chunk)
        for change in SLOW_CHANGES
        for repeats in (1, 5)
        for chunk in chunks
    ]
    tallies = defaultdict[str, Tally](Counter)
    for task, tally in zip(tasks, spread(_slow_words, tasks), strict=True):
        tallies[f"{task.change} x {task.repeats}"] += tally
    return tallies


def _slow_medians(change: str) -> Mapping[product.ComparedLatency, int]:
    """Return the medians of a long time, in whole milliseconds."""
    random = Random(f"slow {change}")
    count = 150_000
    speed = _speed(change, random, 1.2 * count / SLOW_RATE)
    served = batching.steady_stage(count, random, rate=SLOW_RATE, speed=speed)
    return {
        metric: math.floor(
            median(getattr(each, metric.lower()) for each in served.answers)
        )
        for metric in SLOW_METRICS
    }


def _slow_words(task: _Slow) -> Tally:
    """Count the words of one stage, or of repeats one after the other."""
    tally: Tally = Counter()
    for number in range(CHUNK):
        random = Random(f"{task.change} {task.repeats} {task.chunk} {number}")
        seconds = 1.3 * task.repeats * SLOW_REQUESTS / SLOW_RATE
        served = batching.steady_stage(
            SLOW_REQUESTS * task.repeats,
            random,
            rate=SLOW_RATE,
            speed=_speed(task.change, random, seconds),
        )
        edges = [SLOW_REQUESTS * place for place in range(task.repeats + 1)]
        row = product.judged_answers(
            [
                batching.part_of(served, begin, end)
                for begin, end in pairwise(edges)
            ],
            limits=[
                (metric, SLOW_PERCENT, limit)
                for metric, limit in task.limits.items()
            ],
            rate=SLOW_RATE,
        )
        tally.update(each.outcome for each in row.objectives)
    return tally


# What is counted.


class _Typical(NamedTuple):
    """How far what rows typically show is from the truth, as a share of it."""

    error: float
    standard_error: float


def _errors(shown: Mapping[Setting, Shown]) -> tuple[list[Error], list[Error]]:
    """Return the errors of means and p50, and those of tails."""
    middle: list[Error] = []
    tail: list[Error] = []
    for setting, ratios in shown.items():
        for key, values in _counted(ratios):
            typical = _typical(key, values)
            error = Error(
                100 * typical.error,
                100 * typical.standard_error,
                f"{setting} {key}",
            )
            (middle if key.startswith(("mean", "p50")) else tail).append(error)
    return middle, tail


def _counted(ratios: Shown) -> Iterator[tuple[str, list[float]]]:
    for key, values in ratios.items():
        if len(values) >= LEAST_SHOWN and key.startswith(FIGURES):
            yield key, values


def _is_decided(ratios: Shown) -> bool:
    errors = [_typical(key, values) for key, values in _counted(ratios)]
    return all(
        abs(each.error - LIMIT) >= SURE * each.standard_error for each in errors
    )


def _typical(key: str, values: Sequence[float]) -> _Typical:
    on_average = _on_average(values)
    return (
        on_average
        if key.startswith("mean")
        else min(on_average, _in_the_middle(values))
    )


def _on_average(values: Sequence[float]) -> _Typical:
    return _Typical(abs(fmean(values) - 1), stdev(values) / math.sqrt(len(values)))


def _in_the_middle(values: Sequence[float]) -> _Typical:
    """Return the error of the median, with the standard error of its rank."""
    root = math.sqrt(len(values))
    ordered = sorted(values)
    low = max(0, math.floor((len(values) - root) / 2))
    high = min(len(values) - 1, math.ceil((len(values) + root) / 2))
    return _Typical(abs(median(values) - 1), (ordered[high] - ordered[low]) / 2)


def _error_figures(
    middle: Sequence[Error], tail: Sequence[Error]
) -> Mapping[str, float]:
    return {
        "steady_error_percent": max(middle).percent,
        "steady_tail_error_percent": max(tail).percent,
        "steady_standard_error_percent": max(
            e.standard_error for e in (*middle, *tail)
        ),
    }


def _word_figures(
    tallies: Mapping[Setting, Tally], slow: Mapping[str, Tally]
) -> Mapping[str, float]:
    settings = tallies.values()
    covered = [
        100 * each["covered"] / each["given"]
        for each in settings
        if each["Valid"] >= LEAST_SHOWN
    ]
    once = [tally for key, tally in slow.items() if key.endswith(" 1")]
    repeated = [tally for key, tally in slow.items() if not key.endswith(" 1")]
    valid = sum(tally["Valid"] for tally in settings)
    judged = sum(
        tally[word]
        for tally in settings
        for word in ("Valid", "Suspect", "Invalid")
    )
    return {
        "steady_coverage_percent": min(covered),
        "steady_false_met_percent": max(_met_by_load(tallies)),
        "steady_valid_percent": 100 * valid / max(1, judged),
        "slow_false_met_percent": max(map(_met_percent, repeated)),
        "slow_decided_once_percent": max(
            100 - _percent(tally, "Inconclusive") for tally in once
        ),
    }


def _met_by_load(tallies: Mapping[Setting, Tally]) -> Iterator[float]:
    """Yield each load's mean over its settings, in percent.

    Single settings have too few load points to tell 5 % from 10.
    """
    of_load: dict[Load, list[float]] = defaultdict(list)
    for setting, tally in tallies.items():
        of_load[setting.load].append(_met_percent(tally))
    yield from map(fmean, of_load.values())


def _met_percent(tally: Tally) -> float:
    return _percent(tally, "Met")


def _percent(tally: Tally, word: str) -> float:
    every = sum(tally[each] for each in ("Met", "Missed", "Inconclusive"))
    return 100 * tally[word] / max(1, every)
