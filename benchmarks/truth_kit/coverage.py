"""Are intervals of percentiles, and Met and Missed, right as often as is said: on stages of queues
whose percentiles are known.

Each objective's limit is the true percentile itself: whoever says Met or Missed there is wrong,
with as good a reason as there will ever be. A test that never decides would pass, so its power is
told as well: how often a limit of 1.5 times the true percentile is Met at half load of several
servers."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from truth_kit import product
from truth_kit.queues import LOADS, OPEN, PERCENTS, QUEUES, closed_stage, percentile, stage
from truth_kit.spread import spread

COUNTS = (400, 2000)
STAGES, CLOSED_STAGES = 300, 900
"""A setting. A share of 5 % of them has a standard error of 1.3 points, of 900 one of 0.7."""
CHUNK = 50
EASY = 1.5
"""Times the true percentile."""
LEAST_GIVEN_SHARE = 0.25
"""Of a setting's stages: with fewer intervals than that, their coverage is hardly known."""


@dataclass(frozen=True, slots=True)
class Setting:
    """So many requests of one queue at one load."""

    queue: int  # Its place in QUEUES.
    load: float  # Of an open loop.
    count: int

    @property
    def closed(self) -> bool:
        """Whether it has users."""
        return QUEUES[self.queue].users is not None

    def __str__(self) -> str:
        return (
            f"{QUEUES[self.queue].name}{'' if self.closed else f' load {self.load}'} n {self.count}"
        )


EASY_SETTINGS = (Setting(1, 0.5, 2000), Setting(2, 0.5, 2000))
"""M/M/8 and M/G/32 with little waiting, where 2,000 requests are enough for a p99."""


@dataclass(frozen=True, slots=True)
class _Task:
    setting: Setting
    seed: int


Tally = Counter[tuple[str, int]]
"""By word and percentile."""


@dataclass(frozen=True, slots=True)
class Shares:
    """In percent."""

    coverage: float
    """Of the intervals that are given, the share that holds the true percentile: of the setting and
    percentile where it is least."""
    sparse_settings: int
    """Settings and percentiles that `coverage` leaves out, for fewer than a quarter of their stages
    have an interval, but some do."""
    sparse_coverage: float
    """The same share of all their intervals together."""
    sparse_worst: float
    """Of the setting and percentile where it is least."""
    without_intervals: int
    """Settings and percentiles without any."""
    false_met: float
    """Of stages whose percentile is exactly the limit, the share called Met: of the setting and
    percentile where it is greatest."""
    false_missed: float
    intervals_given: float
    """Over all."""


@dataclass(frozen=True, slots=True)
class Found:
    """Of all settings."""

    open_loops: Shares
    closed_loops: Shares
    met_found: float
    """At several servers, half load and 2,000 requests, a limit 1.5 times the true percentile,
    called Met: of the percentile where it is least."""


def measured(
    *, stages: int = STAGES, closed_stages: int = CLOSED_STAGES, say: Callable[[str], None]
) -> Found:
    """Simulate, judge, count."""
    settings = [
        Setting(queue, load, count)
        for queue in range(len(QUEUES))
        for load in (LOADS if queue < len(OPEN) else (1.0,))
        for count in COUNTS
    ]
    tasks = [
        _Task(setting, seed)
        for setting in settings
        for seed in range(-(-(closed_stages if setting.closed else stages) // CHUNK))
    ]
    tallies: dict[Setting, Tally] = {setting: Counter() for setting in settings}
    for task, found in zip(tasks, spread(_chunk, tasks), strict=True):
        tallies[task.setting] += found
    for setting, tally in tallies.items():
        say(f"  {setting}: {_in_words(tally)}")
    open_loops, closed_loops = (
        _shares({setting: tally for setting, tally in tallies.items() if setting.closed is closed})
        for closed in (False, True)
    )
    easy = (
        _share("easy", "stages", tallies[setting], percent)
        for setting in EASY_SETTINGS
        for percent in PERCENTS
    )
    return Found(open_loops, closed_loops, min(easy))


def _chunk(task: _Task) -> Tally:
    queue, load, tally = QUEUES[task.setting.queue], task.setting.load, Tally()
    random = Random(f"{task.setting} {task.seed}")
    truth = {percent: percentile(queue, load, percent) for percent in PERCENTS}
    limits = [(percent, times * truth[percent]) for times in (1.0, EASY) for percent in PERCENTS]
    for _ in range(CHUNK):
        if queue.users is not None:
            requests = closed_stage(queue, task.setting.count, random)
            row = product.judged_stage(requests, users=queue.users, limits=limits)
        else:
            requests = stage(queue, load, task.setting.count, random)
            row = product.judged_stage(requests, rate=load * queue.servers, limits=limits)
        tally[row.verdict, 0] += 1
        for percent, at_limit, easy in zip(
            PERCENTS, row.objectives[: len(PERCENTS)], row.objectives[len(PERCENTS) :], strict=True
        ):
            tally["stages", percent] += 1
            tally[at_limit.outcome, percent] += 1
            tally["easy", percent] += easy.outcome == "Met"
            interval = product.interval_ms(row, percent)
            if interval is not None:
                true_ms = 1000 * product.SECONDS_A_SERVICE * truth[percent]
                tally["given", percent] += 1
                tally["covered", percent] += interval[0] <= true_ms <= interval[1]
    return tally


def _shares(tallies: Mapping[Setting, Tally]) -> Shares:
    every = [
        (setting, tally, percent) for setting, tally in tallies.items() for percent in PERCENTS
    ]
    some = [(t, p) for _, t, p in every if t["given", p]]
    given = [(t, p) for t, p in some if t["given", p] >= LEAST_GIVEN_SHARE * t["stages", p]]
    sparse = [each for each in some if each not in given]
    return Shares(
        coverage=min((_share("covered", "given", t, p) for t, p in given), default=0.0),
        sparse_settings=len(sparse),
        sparse_coverage=100
        * sum(t["covered", p] for t, p in sparse)
        / max(1, sum(t["given", p] for t, p in sparse)),
        sparse_worst=min((_share("covered", "given", t, p) for t, p in sparse), default=0.0),
        without_intervals=len(every) - len(some),
        false_met=max(_share("Met", "stages", t, p) for _, t, p in every),
        false_missed=max(_share("Missed", "stages", t, p) for _, t, p in every),
        intervals_given=100 * _sum(every, "given") / _sum(every, "stages"),
    )


def _share(word: str, of: str, tally: Tally, percent: int) -> float:
    return 100 * tally[word, percent] / max(1, tally[of, percent])


def _sum(every: Sequence[tuple[Setting, Tally, int]], word: str) -> int:
    return sum(tally[word, percent] for _, tally, percent in every)


def _in_words(tally: Tally) -> str:
    """By percentile: Met, Missed, covered of given, and Met at the easy limit; in percent."""
    texts = []
    for percent in PERCENTS:
        stages, given = tally["stages", percent], tally["given", percent]
        met, missed, easy = (
            100 * tally[word, percent] / stages for word in ("Met", "Missed", "easy")
        )
        covered = (
            f"{100 * tally['covered', percent] / given:.0f}/{100 * given / stages:.0f}"
            if given
            else "-"
        )
        texts.append(
            f"p{percent} met {met:.0f} missed {missed:.0f} covered {covered} easy {easy:.0f}"
        )
    verdicts = {
        word: tally[word, 0]
        for word in ("Valid", "Suspect", "Invalid", "Unknown")
        if tally[word, 0]
    }
    return "; ".join(texts) + f"; {verdicts}"
