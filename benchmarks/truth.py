"""Does the judge say what is true: every mistake injected, clean stages left alone, timings right, comparisons right.

Servers are simulated and log their own truth; the client, its load engine, the rules and the comparison are the real
ones. Needs the vLLM for CPUs that `python3 devcluster vllm` installs, and root for one experiment. Progress goes to
standard error; the last line on standard output is one JSON object. Exits 1 when a limit is not kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from truth_kit import capacity, pairs, timing
from truth_kit.clean import clean_runs
from truth_kit.lab import Experiment, Failed, Outcome, measure
from truth_kit.machine import watched
from truth_kit.mistakes import MISTAKES

CLEAN_STAGES, MAX_CLEAN_STAGES = 200, 500
PAIRS = 2000
REAL_SERVERS = 10
LANES = 3
"""Experiments at a time: each client and its server want most of a core while they start, little when they measure."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What is printed."""

    mistakes_injected: int
    mistakes_found: int
    clean_stages: int
    """Those in which the machine itself did not stand still."""
    disturbed_stages: int
    """Clean ones in which it did; nothing is concluded from them."""
    false_suspect: int
    false_invalid: int
    max_timing_error_percent: float
    """Of means and medians off by more than 5 ms, and of throughput."""
    max_p99_error_percent: float
    """Of p99s off by more than 5 ms; told, not limited: of some hundred requests, a moment in which the machine was busy
    elsewhere is the p99."""
    aa_different_percent: float
    ab_found_percent: float
    saturated_unnoticed: int
    """Stages whose TTFT was off by 10 % or more without being called saturated."""
    stages_timed: int
    """Clean stages whose requests were all found in the servers' log."""
    real_aa: str
    real_bb: str
    real_ab: str

    def beyond_limits(self) -> Iterator[str]:
        """Every limit that was not kept."""
        limits = {
            f"{self.mistakes_found} of {self.mistakes_injected} mistakes found": self.mistakes_found
            == self.mistakes_injected,
            f"{self.false_suspect} clean stages suspected": self.false_suspect <= 2,
            f"{self.clean_stages} clean stages measured": self.clean_stages >= CLEAN_STAGES,
            f"{self.stages_timed} clean stages timed": self.stages_timed == self.clean_stages,
            f"{self.false_invalid} clean stages called invalid": self.false_invalid == 0,
            f"timings off by {self.max_timing_error_percent} %": self.max_timing_error_percent <= 2,
            f"{self.aa_different_percent} % of A/A differ": self.aa_different_percent <= 5,
            f"{self.ab_found_percent} % of A/B found": self.ab_found_percent >= 90,
            f"{self.saturated_unnoticed} saturated stages unnoticed": self.saturated_unnoticed == 0,
            f"real A/A: {self.real_aa}": self.real_aa == "NoDetectableDifference",
            f"real B/B: {self.real_bb}": self.real_bb == "NoDetectableDifference",
            f"real A/B: {self.real_ab}": self.real_ab == "Worse",
        }
        yield from (text for text, kept in limits.items() if not kept)


def main() -> int:
    """Measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--only", help="only the mistakes whose name holds this, and nothing else")
    parser.add_argument("--lanes", type=int, default=LANES, help="experiments at a time (default: %(default)s)")
    arguments = parser.parse_args()
    if arguments.only is not None:
        chosen = [mistake for mistake in MISTAKES if arguments.only in mistake.name]
        found = asyncio.run(_mistakes(chosen, lanes=arguments.lanes))
        print(json.dumps({"mistakes_injected": len(chosen), "mistakes_found": found}))
        return 0 if found == len(chosen) else 1
    figures = asyncio.run(_measure(lanes=arguments.lanes))
    print(json.dumps(asdict(figures)), flush=True)
    beyond = tuple(figures.beyond_limits())
    for line in beyond:
        _say(f"limit not kept: {line}")
    return 1 if beyond else 0


async def _measure(*, lanes: int) -> Figures:
    # Alone, for it is about what one process can carry.
    ramps = [outcome async for _, outcome in _all([capacity.RAMP], lanes=1)]
    if not ramps or not capacity.overloads(ramps[0]):
        raise Failed("the ramp did not take the client beyond its capacity")
    unnoticed = sum(capacity.unnoticed(ramps[0], say=_say))
    found = await _mistakes(MISTAKES, lanes=lanes)
    measured, clean = await _clean(lanes=lanes)
    arms: dict[str, list[Outcome]] = {"A": [], "B": []}
    real = list(pairs.real_arms(REAL_SERVERS))
    async for experiment, outcome in _all([experiment for _, experiment in real], lanes=lanes):
        arms[experiment.name[0]].append(outcome)
    if any(len(arm) != REAL_SERVERS for arm in arms.values()):
        raise Failed("a server of the pairs could not be measured")
    _say("comparing pairs")
    shares = pairs.resampled([*arms["A"]], pairs=PAIRS)
    words = pairs.real_words(arms["A"], arms["B"])
    errors = [error for outcome in clean for error in timing.errors(outcome)]
    tails = [error for error in errors if error.figure.startswith("p99")]
    worst, worst_tail = (
        max(some, key=lambda error: error.percent) for some in ([e for e in errors if e not in tails], tails)
    )
    _say(f"worst timing of {len(errors)}: {worst}; worst p99: {worst_tail}")
    return Figures(
        mistakes_injected=len(MISTAKES),
        mistakes_found=found,
        clean_stages=_stages(clean),
        disturbed_stages=measured - _stages(clean),
        false_suspect=sum(_blamed(clean, "Suspect")),
        false_invalid=sum(_blamed(clean, "Invalid")),
        max_timing_error_percent=round(worst.percent, 2),
        max_p99_error_percent=round(worst_tail.percent, 2),
        aa_different_percent=round(shares.aa_different, 2),
        ab_found_percent=round(shares.ab_found, 2),
        saturated_unnoticed=unnoticed,
        stages_timed=len({(id(outcome), error.stage) for outcome in clean for error in timing.errors(outcome)}),
        real_aa=words["aa"],
        real_bb=words["bb"],
        real_ab=words["ab"],
    )


async def _clean(*, lanes: int) -> tuple[int, list[Outcome]]:
    """How many stages were measured, and the outcomes without those in which the machine stood still. More are measured while
    these are too few."""
    clean: list[Outcome] = []
    experiments = list(clean_runs(MAX_CLEAN_STAGES))
    measured = 0
    with watched() as machine:
        while experiments and _stages(clean) < CLEAN_STAGES:
            due, experiments = experiments[:lanes], experiments[lanes:]
            async for experiment, outcome in _all(due, lanes=lanes):
                quiet = outcome.only(lambda record: not machine.disturbed(record))
                _say(
                    f"  {experiment.name}: the machine stood still in {_stages([outcome]) - _stages([quiet])} of its stages"
                )
                measured += _stages([outcome])
                clean.append(quiet)
    return measured, clean


def _stages(outcomes: Iterable[Outcome]) -> int:
    return sum(len(outcome.records) for outcome in outcomes)


async def _mistakes(experiments: Sequence[Experiment], *, lanes: int) -> int:
    found = 0
    async for experiment, outcome in _all(experiments, lanes=lanes):
        told = {finding.code: finding.severity for finding in outcome.judged.findings}
        missed: dict[str, str] = {c: s for c, s in experiment.expected.items() if told.get(c) != s}
        evidence = {
            k: v for f in outcome.judged.findings if f.code in experiment.expected for k, v in f.evidence.items()
        }
        missed |= {name: word for name, word in experiment.evidence.items() if evidence.get(name) != word}
        found += not missed
        _say(f"  {'MISSED ' + str(missed) if missed else 'found'}: {experiment.name}; it says {told}")
    return found


async def _all(experiments: Sequence[Experiment], *, lanes: int) -> AsyncIterator[tuple[Experiment, Outcome]]:
    """Run them, so many at a time; in the order in which they end."""
    lane = asyncio.Semaphore(lanes)

    async def one(experiment: Experiment) -> tuple[Experiment, Outcome | Failed]:
        async with lane:
            try:
                return experiment, await measure(experiment)
            except Failed as failure:
                return experiment, failure

    for ended in asyncio.as_completed([one(experiment) for experiment in experiments]):
        experiment, outcome = await ended
        if isinstance(outcome, Failed):
            _say(f"{experiment.name}: {outcome}")
            continue
        _say(f"{experiment.name}: {len(outcome.records)} stages in {outcome.wall_seconds:.0f} s")
        yield experiment, outcome


def _blamed(clean: Iterable[Outcome], severity: str) -> Iterator[int]:
    for outcome in clean:
        for finding in outcome.judged.findings:
            if finding.severity == severity:
                _say(f"  blamed: {finding.code} {finding.worst_stage} x{finding.count} {finding.evidence}")
                yield finding.count


def _say(what: str) -> None:
    load = os.getloadavg()[0]
    print(f"{time.monotonic() - _BEGAN:7.1f} s  load {load:4.1f}  {what}", file=sys.stderr, flush=True)


_BEGAN = time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
