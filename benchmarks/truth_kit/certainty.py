"""Whether Met, Missed and intervals are right, and given, on stages with known percentiles.

Each stage begins in its server's steady state. A limit at the true percentile shows the errors,
limits far from it the power. The truth of queues is in closed form or from long simulations, that
of other servers from 400,000 requests.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import median

from benchrun_client.contract import (
    RequestSample,
    StageShape,
    decided,
    interval,
    stage_shape,
)

from truth_kit import batching, queues
from truth_kit.spread import spread

PERCENTS = (50, 90, 95, 99)
TIMES = (1.0, 1.2, 1.5, 2.0, 3.0, 0.8, 0.67, 0.5)
HIGH_LOAD = 0.7
"""Share of capacity up to which power is required."""
INTERVAL_LOAD = 0.8
TRUTH_REQUESTS = 400_000
CHUNK = 16
US = 1000.0
SECONDS_A_SERVICE_US = 2_000_000.0
NEARLY_CONSTANT_US = 50_000.0

Values = Mapping[str, list[float]]
"""Values by latency, in microseconds, in order of sending."""
Percentiles = Mapping[tuple[str, int], float]
"""True values by latency and percentile, in microseconds."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A stage as the client would see it; instants in microseconds."""

    begins: list[float]
    ends: list[float]
    values: Values


@dataclass(frozen=True, slots=True)
class Server:
    """A kind of server under a kind of load."""

    name: str
    load: float
    """Load of an open loop as a share of capacity; 0 for users."""
    users: int | None
    figures: tuple[str, ...]

    def stage(self, count: int, random: Random) -> Stage:
        """Draw a stage of so many requests, from the server's steady state."""
        return _STAGES[self.name.partition(" ")[0]](self, count, random)

    @property
    def has_levels(self) -> bool:
        """Return whether latencies have two levels only, so that no power is demanded.

        A count alone decides on a limit between two levels, and 0.9 % above it can not be told from
        1 %.
        """
        return self.name.startswith("levels")

    @property
    def relaxes_slowly(self) -> bool:
        """Return whether this is one server with a long memory, so that less power is demanded."""
        return self.name.startswith("M/M/1")


def _queue_stage(server: Server, count: int, random: Random) -> Stage:
    found = queues.stage(
        _QUEUES[server.name.partition(" ")[0]], server.load, count, random
    )
    return _stage_of([(each.sent, each.sojourn) for each in found])


def _stage_of(rows: Sequence[tuple[float, float]]) -> Stage:
    begins = [SECONDS_A_SERVICE_US * sent for sent, _ in rows]
    # Whole microseconds, as records have them.
    values = [float(round(SECONDS_A_SERVICE_US * sojourn)) for _, sojourn in rows]
    ends = [begin + value for begin, value in zip(begins, values, strict=True)]
    return Stage(begins, ends, {"e2el": values})


def _constant_stage(server: Server, count: int, random: Random) -> Stage:
    """Draw a stage with eight answers at a time, each nearly as long as the others."""
    scatter = float(server.name.split()[1].removesuffix("%")) / 100

    def service(chance: Random) -> float:
        return max(1e-3, chance.gauss(1.0, scatter))

    queue = queues.Queue(server.name, 8, service, users=server.users)
    if server.users is None:
        found = queues.stage(queue, server.load, count, random)
    else:
        warm = 20 * server.users
        found = queues.closed_stage(queue, warm + count, random)[warm:]
    first = found[0].sent
    rows = [(each.sent - first, each.sojourn) for each in found]
    return _stage_of(rows)


def _levels_stage(server: Server, count: int, random: Random) -> Stage:
    """Draw a stage of equally long answers, except a few that take ten times as long.

    Each answer is served by itself.
    """
    slow = float(server.name.split()[1].removesuffix("%")) / 100
    rows = [
        (2.0 * place, 10.0 if random.random() < slow else 1.0)
        for place in range(count)
    ]
    return _stage_of(rows)


def _batching_stage(server: Server, count: int, random: Random) -> Stage:
    rate = None if server.users else server.load * batching.CAPACITY
    served = batching.steady_stage(count, random, rate=rate, users=server.users)
    return stage_of_answers(served.answers)


def stage_of_answers(answers: Sequence[batching.Answer]) -> Stage:
    """Convert the answers of a server with continuous batching to a stage."""
    begins = [US * each.sent for each in answers]
    ends = [US * (each.sent + each.e2el) for each in answers]
    values = {
        "ttft": [float(round(US * each.ttft)) for each in answers],
        "tpot": [round(US * each.tpot, 3) for each in answers],
        "e2el": [float(round(US * each.e2el)) for each in answers],
    }
    return Stage(begins, ends, values)


_QUEUES = {
    "M/M/1": queues.MM1,
    "M/M/8": queues.MM8,
    "M/D/8": queues.Queue("M/D/8", 8, lambda random: 1.0),
    "M/G/32": queues.MG32,
}
_STAGES: Mapping[str, Callable[[Server, int, Random], Stage]] = {
    **dict.fromkeys(_QUEUES, _queue_stage),
    "constant": _constant_stage,
    "levels": _levels_stage,
    "batching": _batching_stage,
}
ALL_FIGURES = ("ttft", "tpot", "e2el")
SERVERS = (
    *(
        Server(f"{name} at {load}", load, None, ("e2el",))
        for name in _QUEUES
        for load in (0.5, 0.7, 0.8, 0.9, 0.95)
    ),
    *(
        Server(f"batching at {load}", load, None, ALL_FIGURES)
        for load in (0.3, 0.5, 0.7, 0.8, 0.9)
    ),
    *(
        Server(f"batching {users} users", 0.0, users, ALL_FIGURES)
        for users in (1, 4, 8, 16, 64, 256)
    ),
    *(
        Server(f"constant {scatter}% at {load}", load, None, ("e2el",))
        for scatter in (0.1, 1, 5)
        for load in (0.5, 0.7, 0.9)
    ),
    *(
        Server(f"levels {slow}%", 0.5, None, ("e2el",))
        for slow in (0.7, 0.9, 1.2, 4, 6)
    ),
    *(
        Server(f"constant {scatter}% 8 users", 0.0, 8, ("e2el",))
        for scatter in (0.1, 1, 5)
    ),
)
SIZES = ((50, 1), (400, 1), (2000, 1), (5000, 1), (400, 3), (400, 5))
"""Requests of a stage, and number of repeats."""
STAGES = {50: 96, 400: 96, 2000: 80, 5000: 16}
REPEATED_STAGES = 32


@dataclass(frozen=True, slots=True)
class Setting:
    """A server, with the requests of a stage and the number of repeats."""

    server: Server
    count: int
    repeats: int

    @property
    def is_long(self) -> bool:
        """Return whether users have answered often enough for anything to be demanded."""
        return self.server.users is None or self.count >= 8 * self.server.users


@dataclass(frozen=True, slots=True)
class _Task:
    setting: Setting
    truth: Percentiles
    seed: int
    load_points: int


Tally = Counter[tuple[str, str, int]]
"""Counts by word, figure and percentile."""


def measured(
    *, say: Callable[[str], None], scale: float = 1.0
) -> Mapping[str, float | None]:
    """Simulate, decide, count, and return the figures by name.

    `scale` multiplies the number of load points.
    """
    tasks = list(_tasks(scale))
    tallies: dict[Setting, Tally] = defaultdict(Counter)
    widths: dict[Setting, list[float]] = defaultdict(list)
    for task, (tally, width) in zip(tasks, spread(_chunk, tasks), strict=True):
        tallies[task.setting] += tally
        widths[task.setting] += width
    for setting, tally in tallies.items():
        say(f"  {_in_words(setting, tally, widths[setting])}")
    return _figures(tallies)


def _tasks(scale: float) -> Iterator[_Task]:
    for server, truth in truths_of(SERVERS).items():
        for count, repeats in SIZES:
            wanted = STAGES[count] if repeats == 1 else REPEATED_STAGES
            points = max(1, round(scale * wanted))
            for seed in range(-(-points // CHUNK)):
                yield _Task(
                    Setting(server, count, repeats),
                    truth,
                    seed,
                    min(CHUNK, points),
                )


def truths_of(servers: Sequence[Server]) -> Mapping[Server, Percentiles]:
    """Return the true percentiles of each server."""
    return dict(zip(servers, spread(truth_of, servers), strict=True))


def truth_of(server: Server) -> Percentiles:
    """Return the true percentiles of a server's latencies, by latency and percentile."""
    stage = server.stage(TRUTH_REQUESTS, Random(f"truth {server.name}"))
    ordered = {figure: sorted(stage.values[figure]) for figure in server.figures}
    return {
        (figure, percent): values[math.ceil(len(values) * percent / 100) - 1]
        for figure, values in ordered.items()
        for percent in PERCENTS
    }


def _chunk(task: _Task) -> tuple[Tally, list[float]]:
    setting = task.setting
    tally: Tally = Counter()
    widths: list[float] = []
    for number in range(task.load_points):
        random = Random(
            f"{setting.server.name} {setting.count} {task.seed} {number}"
        )
        stages = [
            setting.server.stage(setting.count, random)
            for _ in range(setting.repeats)
        ]
        shapes = [
            stage_shape(stage.begins, stage.ends, users=setting.server.users)
            for stage in stages
        ]
        for figure in setting.server.figures:
            values = [stage.values[figure] for stage in stages]
            widths += _count(tally, shapes, values, figure, task.truth)
    return tally, widths


def _count(
    tally: Tally,
    shapes: Sequence[StageShape],
    values: Sequence[list[float]],
    figure: str,
    truth: Percentiles,
) -> Iterator[float]:
    """Count the words at every limit, and yield the width of the p95's interval, if it is given.

    The width is the ratio of its ends.
    """
    sample = RequestSample(shapes, values)
    smallest, greatest = sample.range
    for percent in PERCENTS:
        true = truth[figure, percent]
        tally["load points", figure, percent] += 1
        for times in TIMES:
            word: str = decided(sample, percent, true * times).outcome
            if times == 1.0 and word == "Met":
                # Many values may equal the true percentile (an atom), and then keep this limit.
                # Met is an error only if it is also said of a hardly smaller limit.
                less = decided(sample, percent, true * (1 - 1e-9)).outcome
                word = "Met" if less == "Met" else "Met at an atom"
            tally[f"{word} {times}", figure, percent] += 1
            limit = true * times
            is_obvious = 2 * greatest <= limit or smallest >= 2 * limit
            if is_obvious and sample.rounds >= 4:
                tally["obvious", figure, percent] += 1
                tally["undecided obvious", figure, percent] += (
                    word == "Inconclusive"
                )
                tally["obvious at truth", figure, percent] += times == 1.0
        found = interval(sample, percent)
        if found is not None:
            tally["given", figure, percent] += 1
            tally["covered", figure, percent] += found.low <= true <= found.high
            if percent == 95:
                yield found.high / found.low


def _figures(tallies: Mapping[Setting, Tally]) -> Mapping[str, float | None]:
    every = [
        (setting, tally, figure, percent)
        for setting, tally in tallies.items()
        if setting.is_long
        for figure in setting.server.figures
        for percent in PERCENTS
    ]
    # In some settings more than 5 % of stages have all their values far from the true percentile.
    # No rule can always decide on such stages and still be wrong in at most 5 %.
    allowed = [row for row in every if _share(row, "obvious at truth") <= 5]
    usual = [row for row in allowed if row[0].server.load <= INTERVAL_LOAD]
    beyond = [row for row in allowed if row[0].server.load > INTERVAL_LOAD]
    powered = [
        row
        for row in every
        if row[0].repeats == 1
        and row[0].server.load <= HIGH_LOAD
        and not row[0].server.has_levels
    ]
    long = [row for row in powered if row[0].count == 2000]
    slow = [row for row in long if row[0].server.relaxes_slowly]
    quick = [row for row in long if not row[0].server.relaxes_slowly]
    short = [row for row in powered if row[0].count == 400]
    given = [
        row
        for row in every
        if row[0].count == 2000
        and row[0].repeats == 1
        and row[0].server.load <= INTERVAL_LOAD
        and row[3] <= 95
    ]
    return {
        "false_met_percent": _by_server(
            usual, lambda row: _share(row, "Met 1.0"), max
        ),
        "false_missed_percent": _by_server(
            usual, lambda row: _share(row, "Missed 1.0"), max
        ),
        "false_met_beyond_percent": _by_server(
            beyond, lambda row: _share(row, "Met 1.0"), max
        ),
        "false_missed_beyond_percent": _by_server(
            beyond, lambda row: _share(row, "Missed 1.0"), max
        ),
        "always_against_error_settings": len(every) - len(allowed),
        "met_at_twice_percent": _mean(quick, "Met 2.0"),
        "met_at_twice_least_percent": _least(quick, "Met 2.0"),
        "met_at_twice_slow_percent": _mean(slow, "Met 2.0"),
        "met_at_three_percent": _mean(short, "Met 3.0"),
        "met_at_three_least_percent": _least(short, "Met 3.0"),
        "missed_at_half_percent": _mean(long, "Missed 0.5"),
        "missed_at_half_least_percent": _least(long, "Missed 0.5"),
        "obvious": sum(row[1]["obvious", row[2], row[3]] for row in every),
        "obvious_undecided": sum(
            row[1]["undecided obvious", row[2], row[3]] for row in every
        ),
        "interval_given_percent": _least(given, "given"),
        "coverage_percent": _by_server(given, _covered, min),
        "coverage_mean_percent": sum(map(_covered, given)) / len(given),
    }


_Row = tuple[Setting, Tally, str, int]


def _share(row: _Row, word: str) -> float:
    _, tally, figure, percent = row
    return (
        100
        * tally[word, figure, percent]
        / max(1, tally["load points", figure, percent])
    )


def _covered(row: _Row) -> float:
    _, tally, figure, percent = row
    given = tally["given", figure, percent]
    return 100 * tally["covered", figure, percent] / given if given else 100.0


def _mean(rows: Sequence[_Row], word: str) -> float:
    return sum(_share(row, word) for row in rows) / max(1, len(rows))


def _least(rows: Sequence[_Row], word: str) -> float:
    return min((_share(row, word) for row in rows), default=0.0)


def _by_server(
    rows: Sequence[_Row],
    percent: Callable[[_Row], float],
    worst: Callable[..., float],
) -> float:
    """Return the worst server's mean over all its sizes, figures and percentiles, in percent.

    Single settings have too few load points to tell 5 % from 10.
    """
    by_server: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        by_server[row[0].server.name].append(percent(row))
    return worst((sum(own) / len(own) for own in by_server.values()), default=0.0)


def _in_words(setting: Setting, tally: Tally, widths: Sequence[float]) -> str:
    rows = [
        (setting, tally, f, p) for f in setting.server.figures for p in PERCENTS
    ]
    words = {
        "false Met": "Met 1.0",
        "false Missed": "Missed 1.0",
        "Met at 2": "Met 2.0",
        "Met at 3": "Met 3.0",
        "Missed at 0.5": "Missed 0.5",
        "given": "given",
    }
    parts = [f"{name} {_mean(rows, word):.0f}" for name, word in words.items()]
    covered = sum(map(_covered, rows)) / len(rows)
    width = f"{median(widths):.2f}" if widths else "-"
    size = f"{setting.count} x {setting.repeats}"
    return f"{setting.server.name}, {size}: {', '.join(parts)}, held {covered:.0f}, p95 x {width}"
