"""`repeats: Auto` on simulated servers whose percentiles are known: is it right, and what it costs.

Repeats of a load point go on by the client's own rules until one objective is decided. Its limit is
so many times the true percentile. At the truth itself nothing can be decided rightly, so every word
there is false. The cost is held against the ideal fixed number: the fewest repeats with which nine
of ten runs are decided by the test without looks.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean
from typing import NamedTuple

from benchrun_client.contract import (
    ERROR,
    LOOKS,
    AutoPlan,
    Limit,
    Outcome,
    RateLoad,
    RequestSample,
    Stage,
    decided,
    look_error,
    looks_within,
    stage_shape,
)
from benchrun_client.contract.datasets import RandomData
from benchrun_client.search import until_decided
from benchrun_client.search.load_results import LoadResult

from truth_kit import certainty
from truth_kit.spread import spread

REQUESTS = 400
MOST_REPEATS = LOOKS[7]
"""Most repeats that the budget of a run is enough for: 27."""
PERCENT = 90
AT_TRUTH = 1.0
TIMES = (0.8, AT_TRUTH, 1.25, 2.0)
RUNS = 60
"""Runs of a server with each limit. Over the servers 5 % have a standard error of 1.3 points."""
CHUNK = 10
DECIDED = 0.9  # Share of runs that the ideal number decides.
MAX_RATIO = 2.0
SERVERS = tuple(
    each
    for each in certainty.SERVERS
    if each.name
    in (
        "M/M/1 at 0.5",
        "M/M/1 at 0.7",
        "M/M/8 at 0.7",
        "batching at 0.7",
        "batching 16 users",
    )
)
_LOOKS = looks_within(MOST_REPEATS)
_COUNTS: tuple[int, ...] = (*range(1, 13), 14, 16, 18, 20, 22, 24, MOST_REPEATS)
"""Numbers of repeats among which the ideal one is found."""


class Setting(NamedTuple):
    """A server, and its limit as a multiple of the true percentile."""

    server: str
    times: float


class Run(NamedTuple):
    """One run: the word that it ends with, after how many repeats, and what fixed numbers give."""

    outcome: Outcome
    repeats: int
    fixed: tuple[Outcome, ...]
    """Outcome after each of `_COUNTS` repeats, without the error divided among looks."""


@dataclass(frozen=True, slots=True)
class _Task:
    server: certainty.Server
    true: float
    """True percentile of the objective's latency, in microseconds."""
    seed: int
    runs: int


def measured(
    *, say: Callable[[str], None], scale: float = 1.0
) -> Mapping[str, float | None]:
    """Simulate runs, and return the figures by name; `scale` multiplies the number of runs."""
    runs = max(1, round(RUNS * scale))
    tasks = [
        _Task(server, _objective(server, truth), seed, min(CHUNK, runs))
        for server, truth in certainty.truths_of(SERVERS).items()
        for seed in range(-(-runs // CHUNK))
    ]
    found: dict[Setting, list[Run]] = defaultdict(list)
    for part in spread(simulated, tasks):
        for setting, own in part.items():
            found[setting] += own
    for setting, own in found.items():
        say(f"  {_in_words(setting, own)}")
    return figures(found)


def simulated(task: _Task) -> Mapping[Setting, list[Run]]:
    """Simulate the runs of a task, each with every limit."""
    found: dict[Setting, list[Run]] = defaultdict(list)
    for number in range(task.runs):
        random = Random(f"auto {task.server.name} {task.seed} {number}")
        stages = [
            _result(task.server, task.server.stage(REQUESTS, random))
            for _ in range(MOST_REPEATS)
        ]
        samples = {count: _sample(stages[:count]) for count in {*_COUNTS, *_LOOKS}}
        for times in TIMES:
            found[Setting(task.server.name, times)].append(
                _run(stages, samples, task.true * times)
            )
    return found


def _objective(server: certainty.Server, truth: certainty.Percentiles) -> float:
    return truth[server.figures[0], PERCENT]


def _result(server: certainty.Server, stage: certainty.Stage) -> LoadResult:
    shape = stage_shape(stage.begins, stage.ends, users=server.users)
    values = stage.values[server.figures[0]]
    return LoadResult(len(values), 0, shape, {"E2EL": values})


def _sample(stages: Sequence[LoadResult]) -> RequestSample:
    return RequestSample(
        [stage.shape for stage in stages],
        [stage.values["E2EL"] for stage in stages],
    )


def _run(
    stages: Sequence[LoadResult], samples: Mapping[int, RequestSample], limit: float
) -> Run:
    """Repeat as the client does; only how a look decides is read from samples made before."""
    auto = AutoPlan(
        objectives=(
            Limit(metric="E2EL", percentile=str(PERCENT), max_milliseconds=1),
        ),
        max_failed_percent="1",
        max_requests=MOST_REPEATS * REQUESTS,
        looks=_LOOKS,
    )
    planned = [_stage(repeat) for repeat in range(1, MOST_REPEATS + 1)]
    here: until_decided.LookPosition | None = until_decided.FIRST
    word: Outcome = "Inconclusive"
    repeats = 0
    while here is not None:
        stage = planned[here.number]
        repeats = stage.repeat
        if until_decided.is_look(stage, here):
            word = decided(
                samples[repeats], PERCENT, limit, error=look_error(auto.looks)
            ).outcome
        here = until_decided.following(
            auto,
            planned,
            here,
            done=word != "Inconclusive",
            spent=until_decided.StagesCost(REQUESTS * repeats, 0.0),
            costs={"queue/rate=1": until_decided.StagesCost(REQUESTS, 0.0)},
        )
    fixed = tuple(
        decided(samples[count], PERCENT, limit, error=ERROR).outcome
        for count in _COUNTS
    )
    return Run(word, repeats, fixed)


def _stage(repeat: int) -> Stage:
    return Stage(
        id=f"queue/rate=1/r{repeat}",
        workload="queue",
        repeat=repeat,
        load=RateLoad(requests_per_second="1"),
        data=RandomData(input_tokens=1, output_tokens=1),
        requests=REQUESTS,
        seed=repeat,
    )


def right_word(times: float) -> Outcome:
    """Return the word that is right at a limit; none is at the truth."""
    if times == AT_TRUTH:
        return "Inconclusive"
    return "Met" if times > AT_TRUTH else "Missed"


def ideal_repeats(times: float, runs: Sequence[Run]) -> int | None:
    """Return the fewest repeats with which `DECIDED` of the runs are decided rightly, or None."""
    right = right_word(times)
    for place, count in enumerate(_COUNTS):
        if sum(run.fixed[place] == right for run in runs) >= DECIDED * len(runs):
            return count
    return None


def figures(found: Mapping[Setting, Sequence[Run]]) -> Mapping[str, float | None]:
    """Return the figures by name.

    Costs are of the settings whose ideal number is within half of the budget, so that twice of it
    could be spent.
    """
    shares: list[float] = []
    ratios: list[float] = []
    for setting, runs in found.items():
        ideal = ideal_repeats(setting.times, runs)
        if setting.times == AT_TRUTH or ideal is None:
            continue
        if MAX_RATIO * ideal > MOST_REPEATS:
            continue
        right = right_word(setting.times)
        shares.append(
            100
            * fmean(
                run.outcome == right and run.repeats <= max(3, MAX_RATIO * ideal)
                for run in runs
            )
        )
        ratios.append(fmean(run.repeats for run in runs) / ideal)
    return {
        "auto_decided_percent": fmean(shares) if shares else None,
        "auto_decided_least_percent": min(shares, default=None),
        "auto_false_percent": max(_false_percents(found)),
        "auto_cost_ratio": fmean(ratios) if ratios else None,
        "auto_cost_ratio_worst": max(ratios, default=None),
    }


def _false_percents(found: Mapping[Setting, Sequence[Run]]) -> Iterator[float]:
    """Yield for each limit the share of runs that end with a false word, over all servers."""
    for times in TIMES:
        runs = [
            r
            for setting, own in found.items()
            for r in own
            if setting.times == times
        ]
        if not runs:
            continue
        allowed = {right_word(times), "Inconclusive"}
        yield 100 * fmean(run.outcome not in allowed for run in runs)


def _in_words(setting: Setting, runs: Sequence[Run]) -> str:
    words = dict.fromkeys(("Met", "Missed", "Inconclusive"), 0)
    for run in runs:
        words[run.outcome] += 1
    repeats = fmean(run.repeats for run in runs)
    ideal = (
        None if setting.times == AT_TRUTH else ideal_repeats(setting.times, runs)
    )
    took = f"{repeats:.1f} repeats, ideal {ideal}"
    return f"{setting.server}, limit x {setting.times:g}: {words}, {took}"
