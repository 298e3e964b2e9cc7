"""Whether a load point's row is true of its load, though its stages begin with an empty server.

The truth of each load is that of 300,000 requests of a server in its steady state. It also shows
what slow changes of a server make of Met. The whole path of the product is used, from records to
rows.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random
from statistics import fmean

from benchrun.api import Result

from truth_kit import batching, product
from truth_kit.spread import spread

FIGURES = ("mean", "p50", "p95", "p99")
LATENCIES = ("ttft", "tpot", "e2el")
TRUTH_REQUESTS = 300_000
REQUESTS_A_SETTING = 50_000
LOAD_POINTS = (12, 160)
"""Least and most load points of a setting: short stages scatter more."""
LEAST_SHOWN = 8
"""Fewest valid load points of a setting for a meaningful average."""
CHUNK = 4
SLOW_RATE = 3.0
SLOW_REQUESTS = 2000
SLOW_LOAD_POINTS = 40
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


SLOW_CHANGES = ("60 s", "300 s", "wave")


@dataclass(frozen=True, slots=True)
class _Task:
    setting: Setting | None
    change: str
    """Change of a server that changes slowly; empty: the server does not change."""
    repeats: int
    seed: int


Tally = Counter[str]
Shown = Mapping[str, list[float]]
"""Key of a figure -> the values of Valid rows divided by the truth."""


def measured(*, say: Callable[[str], None], scale: float = 1.0) -> Mapping[str, float | None]:
    """Simulate, judge, count, and return the figures by name.

    `scale` multiplies the number of load points.
    """
    tasks = list(_tasks(scale))
    shown: dict[Setting, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    tallies: dict[Setting | str, Tally] = defaultdict(Counter)
    for task, (ratios, tally) in zip(tasks, spread(_chunk, tasks), strict=True):
        key: Setting | str = task.setting or f"{task.change} x {task.repeats}"
        tallies[key] += tally
        if task.setting is not None:
            for name, values in ratios.items():
                shown[task.setting][name] += values
    return _figures(shown, tallies, say)


def _tasks(scale: float) -> Iterator[_Task]:
    for setting in _settings():
        fitting = REQUESTS_A_SETTING // (setting.count * setting.repeats)
        points = round(scale * min(max(fitting, LOAD_POINTS[0]), LOAD_POINTS[1]))
        for seed in range(-(-points // CHUNK)):
            yield _Task(setting, "", setting.repeats, seed)
    for change in SLOW_CHANGES:
        for repeats in (1, 5):
            points = max(1, round(scale * SLOW_LOAD_POINTS))
            for seed in range(-(-points // CHUNK)):
                yield _Task(None, change, repeats, seed)


@cache
def _truth(rate: float | None, users: int | None) -> Mapping[str, float]:
    answers = batching.steady_stage(
        TRUTH_REQUESTS, Random(f"{rate} {users}"), rate=rate, users=users
    )
    found = {}
    for latency in LATENCIES:
        values = sorted(getattr(each, latency) for each in answers)
        found[f"mean_{latency}_ms"] = fmean(values)
        for percent in product.PERCENTS:
            place = math.ceil(len(values) * percent / 100) - 1
            found[f"p{percent}_{latency}_ms"] = values[place]
    return found


def _chunk(task: _Task) -> tuple[Shown, Tally]:
    tally: Tally = Counter()
    ratios: dict[str, list[float]] = defaultdict(list)
    for number in range(CHUNK):
        if task.setting is None:
            _count_slow(tally, task, number)
            continue
        setting = task.setting
        truth = _truth(task.setting.rate, task.setting.users)
        row = _row(setting, Random(f"{setting} {task.seed} {number}"), truth)
        tally[row.verdict] += 1
        tally.update(each.outcome for each in row.objectives)
        for key, true in truth.items():
            if row.verdict == "Valid" and key in row.intervals:
                low, high = row.intervals[key]
                tally["given"] += 1
                tally["covered"] += low <= true <= high
            value = row.figure(key)
            if row.verdict == "Valid" and value is not None and key not in row.uncertain:
                ratios[key].append(value / true)
    return ratios, tally


def _row(setting: Setting, random: Random, truth: Mapping[str, float]) -> Result:
    spread_ms = truth["mean_e2el_ms"] if setting.is_spread else 0.0
    stages = [
        batching.Server(
            setting.count, random, rate=setting.rate, users=setting.users, spread_ms=spread_ms
        ).answers()
        for _ in range(setting.repeats)
    ]
    limits = [
        (metric, percent, max(1, math.floor(truth[f"p{percent}_{metric.lower()}_ms"])))
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
        steps.append(kept * steps[-1] + random.gauss(0.0, 0.15 * math.sqrt(1 - kept * kept)))
    return lambda ms: max(0.3, 1 + steps[min(int(ms / 1000), len(steps) - 1)])


@cache
def _slow_truth(change: str) -> Mapping[str, int]:
    random = Random(f"slow {change}")
    count = 150_000
    speed = _speed(change, random, 1.2 * count / SLOW_RATE)
    answers = batching.steady_stage(count, random, rate=SLOW_RATE, speed=speed)
    found = {}
    for metric in SLOW_METRICS:
        values = sorted(getattr(each, metric.lower()) for each in answers)
        found[metric] = values[len(values) // 2]
    return {metric: math.floor(value) for metric, value in found.items()}


def _count_slow(tally: Tally, task: _Task, number: int) -> None:
    """Count the words at the true median, of one stage or of repeats one after the other."""
    random = Random(f"{task.change} {task.repeats} {task.seed} {number}")
    seconds = 1.3 * task.repeats * SLOW_REQUESTS / SLOW_RATE
    answers = batching.steady_stage(
        SLOW_REQUESTS * task.repeats,
        random,
        rate=SLOW_RATE,
        speed=_speed(task.change, random, seconds),
    )
    edges = [SLOW_REQUESTS * place for place in range(task.repeats + 1)]
    limits = [(metric, SLOW_PERCENT, limit) for metric, limit in _slow_truth(task.change).items()]
    row = product.judged_answers(
        [answers[a:b] for a, b in pairwise(edges)],
        limits=[(_metric(name), percent, limit) for name, percent, limit in limits],
        rate=SLOW_RATE,
    )
    tally.update(each.outcome for each in row.objectives)


def _figures(
    shown: Mapping[Setting, Mapping[str, Sequence[float]]],
    tallies: Mapping[Setting | str, Tally],
    say: Callable[[str], None],
) -> Mapping[str, float | None]:
    errors: dict[str, list[tuple[float, str]]] = {"steady": [], "tail": []}
    for setting, ratios in shown.items():
        for key, values in ratios.items():
            if len(values) >= LEAST_SHOWN and key.startswith(FIGURES):
                error = 100 * abs(fmean(values) - 1)
                kind = "steady" if key.startswith(("mean", "p50")) else "tail"
                errors[kind].append((error, f"{setting} {key}"))
    for name, tally in tallies.items():
        say(f"  {name}: {dict(tally)}")
    for kind, found in errors.items():
        say(f"  {kind}: worst {sorted(found, reverse=True)[:4]}")
    settings = [tally for key, tally in tallies.items() if isinstance(key, Setting)]
    slow = {key: tally for key, tally in tallies.items() if isinstance(key, str)}
    covered = [
        100 * each["covered"] / each["given"] for each in settings if each["Valid"] >= LEAST_SHOWN
    ]
    once = [tally for key, tally in slow.items() if key.endswith(" 1")]
    repeated = [tally for key, tally in slow.items() if not key.endswith(" 1")]
    valid = sum(tally["Valid"] for tally in settings)
    judged = sum(tally[word] for tally in settings for word in ("Valid", "Suspect", "Invalid"))
    return {
        "steady_error_percent": max(error for error, _ in errors["steady"]),
        "steady_tail_error_percent": max(error for error, _ in errors["tail"]),
        "steady_coverage_percent": min(covered),
        "steady_false_met_percent": max(_met_percent(tally) for tally in settings),
        "steady_valid_percent": 100 * valid / max(1, judged),
        "slow_false_met_percent": max(map(_met_percent, repeated)),
        "slow_decided_once_percent": max(100 - _percent(tally, "Inconclusive") for tally in once),
    }


def _met_percent(tally: Tally) -> float:
    return _percent(tally, "Met")


def _percent(tally: Tally, word: str) -> float:
    every = sum(tally[each] for each in ("Met", "Missed", "Inconclusive"))
    return 100 * tally[word] / max(1, every)
