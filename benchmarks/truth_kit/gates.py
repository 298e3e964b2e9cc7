"""Whether a gate is wrong as rarely as is said, and a comparison finds what it says it could.

Both are tested on simulated figures of fresh servers. A figure of a server is drawn around its true
value with a deviation of 1.5 %, of which a part is common to all figures of that server: a slow
machine is slow in everything. Truth is exact: both sides differ by what was put between them.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from benchrun.api import DEFAULT_METRICS, HIGHER_IS_BETTER, ComparedMetric
from benchrun.judge.comparison.comparability import MeasuredRun

from truth_kit import product
from truth_kit.spread import spread

DEVIATION = 0.015
LIMIT_PERCENT = 5.0
SERVERS = 5
QUESTIONS = (5, 20, 30)
DESIGNS = ((3, 5), (5, 5), (5, 20), (5, 30), (8, 30))
"""Servers a side and number of questions; their power is reported and tried."""
CORRELATIONS = (0.0, 0.6)
COMPARISONS = 1200
"""Comparisons per setting at the limit. A share of 5 % has a standard error of 0.6 points."""
COMPARISONS_BEYOND = 800
"""Comparisons per setting beyond it. A share of 80 % has a standard error of 1.4 points."""
CHUNK = 100
TYPICAL: dict[ComparedMetric, float] = {
    "OutputThroughput": 1200.0, "RequestThroughput": 9.4, "TotalTokenThroughput": 10_800.0,
    "MeanTTFT": 43.0, "MeanTPOT": 11.0, "MeanITL": 11.2, "MeanE2EL": 1440.0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Sides:
    """How two groups of servers are drawn."""

    servers: int
    questions: int
    """Number of questions, a multiple of five: load points with five figures each."""
    correlation: float
    worse_percent: float
    """Percent by which each figure of the candidate is truly worse."""
    first_percent: float = 0.0
    """Percent by which the first figure, a throughput, is greater."""

    def draw(self, random: Random) -> tuple[list[MeasuredRun], list[MeasuredRun]]:
        """Draw the servers of baseline and candidate."""
        return (
            [
                self._server(f"a{n}", random, candidate=False)
                for n in range(self.servers)
            ],
            [
                self._server(f"b{n}", random, candidate=True)
                for n in range(self.servers)
            ],
        )

    def _server(self, name: str, random: Random, *, candidate: bool) -> MeasuredRun:
        common = random.gauss(0.0, math.sqrt(self.correlation))
        own = math.sqrt(1 - self.correlation)
        points = [
            {
                metric: TYPICAL[metric]
                * self._factor(
                    metric, candidate=candidate, is_first=place == number == 0
                )
                * math.exp(
                    DEVIATION * _better(metric) * (common + random.gauss(0.0, own))
                )
                for number, metric in enumerate(DEFAULT_METRICS)
            }
            for place in range(self.questions // len(DEFAULT_METRICS))
        ]
        return product.server_run(name, points)

    def _factor(
        self, metric: ComparedMetric, *, candidate: bool, is_first: bool
    ) -> float:
        if not candidate:
            return 1.0
        return (
            1
            + (
                self.first_percent
                if is_first and self.first_percent
                else -_better(metric) * self.worse_percent
            )
            / 100
        )


def _better(metric: ComparedMetric) -> int:
    """Return the sign of a change for the better."""
    return 1 if metric in HIGHER_IS_BETTER else -1


@dataclass(frozen=True, slots=True)
class _Task:
    sides: Sides
    seed: int


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares in percent, of the worst setting each."""

    false_regressed: float
    """Share of comparisons called Regressed, when every figure is worse by exactly the limit."""
    regressed_found: float
    """Share of comparisons with 30 questions called Regressed, when every figure is worse by twice
    the limit."""
    not_regressed_found: float
    """Share of comparisons with 30 questions called NotRegressed, when nothing has changed."""
    power_told_error: float | None
    """Difference in points between 80 % and the share found of changes of the size that the product
    says it finds in 80 %; None: it does not say."""


def measured(
    *,
    at_limit_each: int = COMPARISONS,
    beyond_each: int = COMPARISONS_BEYOND,
    say: Callable[[str], None],
) -> Shares:
    """Simulate comparisons, count their outcomes, and return the shares."""
    at_limit = [
        Sides(SERVERS, count, r, LIMIT_PERCENT)
        for count in QUESTIONS
        for r in CORRELATIONS
    ]
    beyond, equal = (
        Sides(SERVERS, max(QUESTIONS), CORRELATIONS[1], worse)
        for worse in (2 * LIMIT_PERCENT, 0.0)
    )
    told = {
        design: product.told_percent(*design, deviation_percent=100 * DEVIATION)
        for design in DESIGNS
    }
    at_told = [
        Sides(servers, count, r, 0.0, first_percent=percent)
        for (servers, count), percent in told.items()
        if percent is not None
        for r in CORRELATIONS
    ]
    counts = {
        **_counts(at_limit, at_limit_each),
        **_counts([beyond, equal, *at_told], beyond_each),
    }
    for sides, count in counts.items():
        say(f"  {sides}: {dict(count)}")
    errors = [abs(_share(counts[sides], "first Better") - 80) for sides in at_told]
    return Shares(
        false_regressed=max(
            _share(counts[sides], "Regressed") for sides in at_limit
        ),
        regressed_found=_share(counts[beyond], "Regressed"),
        not_regressed_found=_share(counts[equal], "NotRegressed"),
        power_told_error=max(errors)
        if len(errors) == len(CORRELATIONS) * len(DESIGNS)
        else None,
    )


def _counts(
    settings: Sequence[Sides], comparisons: int
) -> dict[Sides, Counter[str]]:
    tasks = [
        _Task(sides, seed)
        for sides in settings
        for seed in range(-(-comparisons // CHUNK))
    ]
    counts: dict[Sides, Counter[str]] = {sides: Counter() for sides in settings}
    for task, found in zip(tasks, spread(_chunk, tasks), strict=True):
        counts[task.sides] += found
    return counts


def _chunk(task: _Task) -> Counter[str]:
    random = Random(str(task))
    count = Counter[str]()
    for _ in range(CHUNK):
        found = product.compared(
            *task.sides.draw(random),
            DEFAULT_METRICS,
            max_regression_percent=LIMIT_PERCENT,
        )
        first = found.load_points[0].changes[0].word
        count += Counter(
            (
                "comparisons",
                str(found.gate),
                f"outcome {found.outcome}",
                f"first {first}",
            )
        )
    return count


def _share(count: Counter[str], word: str) -> float:
    return 100 * count[word] / count["comparisons"]
