"""Does the product say what is true: coverage of its intervals, errors of its gates and searches,
mistakes by dose, clean stages, timings.

Queues, gates and searches are simulated, at idle priority beside the rest. The rest is measured:
servers are simulated and log their own truth; the client, its load engine, the rules and the
comparison are the real ones. Needs the vLLM for CPUs that `python3 devcluster vllm` installs, and
root. What is assumed and how each figure is estimated: docs/truth.md. Progress goes to standard
error; the last line on standard output is one JSON object. Exits 1 when a limit is not kept."""

import argparse
import asyncio
import json
import math
import os
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from statistics import fmean

from benchrun.api import Finding
from benchrun_client.contract import StageRecord
from truth_kit import capacity, coverage, doses, gates, pairs, simulated_searches, timing
from truth_kit.clean import clean_runs, clean_stages, is_fast
from truth_kit.lab import Experiment, Failed, Outcome, measure_all
from truth_kit.machine import Machine, watched
from truth_kit.mistakes import MISTAKES
from truth_kit.physical import own_network

CLEAN_STAGES, MAX_CLEAN_STAGES = 300, 700
PAIRS = 600
REAL_SERVERS = 10
LANES = 4
"""Experiments at a time: each client and its server want most of a core while they start, little
when they measure."""

DOSES = sum(len(mistake.tried) for mistake in doses.MISTAKES)

Figure = float | str | None
"""None: the product does not tell what it takes to know it."""
Found = Mapping[str, Figure]
LIMITS: Mapping[str, tuple[float, float]] = {
    "coverage_percent": (90, 100),
    "false_met_percent": (0, 5),
    "closed_coverage_percent": (90, 100),
    "closed_false_met_percent": (0, 5),
    "met_found_percent": (80, 100),
    "false_regressed_percent": (0, 5),
    "power_told_error_points": (0, 5),
    "search_above_truth_percent": (0, 5),
    "search_drifting_above_truth_percent": (0, 5),
    "mistakes_found": (len(MISTAKES), len(MISTAKES)),
    "doses": (DOSES, DOSES),
    "harmful_unnoticed_percent": (0, 5),
    "p99_bounded_or_slowed": (5, 1000),
    "named_rightly_percent": (95, 100),
    "named_unknown_percent": (0, 30),
    "nobody_named_percent": (0, 5),
    "server_blames_others_percent": (0, 5),
    "clean_stages": (CLEAN_STAGES, MAX_CLEAN_STAGES),
    "stages_untimed": (0, 0),
    "false_suspect": (0, 0),
    "false_invalid": (0, 0),
    "timed_requests_percent": (50, 100),
    "max_timing_error_percent": (0, 2),
    "saturated_unnoticed": (0, 0),
    "aa_different_percent": (0, 5),
    "ab_found_percent": (90, 100),
}
"""Least and greatest that each may be."""
ALIKE = ("NoDetectableDifference", "Equivalent")
WORDS: Mapping[str, Sequence[str]] = {"real_aa": ALIKE, "real_bb": ALIKE, "real_ab": ("Worse",)}


@dataclass(frozen=True, slots=True)
class Lab:
    """How experiments are run."""

    lanes: int
    machine: Machine
    named: str
    """Only mistakes whose name holds this."""
    arms: asyncio.Future[Mapping[str, Sequence[Outcome]]]
    """The outcomes of the pairs' servers, once they are measured."""

    @property
    def lanes_timed(self) -> int:
        """For those whose client and servers run ahead of all processes: they wait more than they
        work."""
        return self.lanes + 1

    @property
    def lanes_busy(self) -> int:
        """For those that send so much that they would wait for each other."""
        return self.lanes // 2

    async def measured(
        self,
        experiments: Sequence[Experiment],
        *,
        lanes: int | None = None,
        whole: Collection[str] = (),
    ) -> list[tuple[Experiment, Outcome]]:
        """Those that could be run; without the stages in which the machine itself stood still, but
        for these names. One of which no stage is left is run once more."""
        found = await self._measured(experiments, lanes or self.lanes, whole)
        lost = [experiment for experiment, outcome in found if not outcome.records]
        kept = [(experiment, outcome) for experiment, outcome in found if outcome.records]
        return kept + await self._measured(lost, lanes or self.lanes, whole)

    async def _measured(
        self, experiments: Sequence[Experiment], lanes: int, whole: Collection[str]
    ) -> list[tuple[Experiment, Outcome]]:
        found = []
        async for experiment, outcome in measure_all(experiments, lanes=lanes, say=_say):
            quiet = outcome.only(lambda record: not self.machine.disturbed(record))
            if experiment.name in whole:
                quiet = outcome
            if stood := _stages([outcome]) - _stages([quiet]):
                _say(f"  {experiment.name}: the machine stood still in {stood} of its stages")
            found.append((experiment, quiet))
        return found


async def _coverage(lab: Lab) -> Found:
    found = await asyncio.to_thread(coverage.measured, say=_say)
    loops = {"": found.open_loops, "closed_": found.closed_loops}
    figures: dict[str, Figure] = {"met_found_percent": found.met_found}
    for prefix, shares in loops.items():
        figures |= {
            f"{prefix}coverage_percent": shares.coverage,
            f"{prefix}coverage_sparse_settings": shares.sparse_settings,
            f"{prefix}coverage_sparse_percent": shares.sparse_coverage,
            f"{prefix}coverage_sparse_worst_percent": shares.sparse_worst,
            f"{prefix}coverage_without_intervals": shares.without_intervals,
            f"{prefix}false_met_percent": shares.false_met,
            f"{prefix}false_missed_percent": shares.false_missed,
            f"{prefix}intervals_given_percent": shares.intervals_given,
        }
    return figures


async def _gate(lab: Lab) -> Found:
    found = await asyncio.to_thread(gates.measured, say=_say)
    return {
        "false_regressed_percent": found.false_regressed,
        "regressed_found_percent": found.regressed_found,
        "not_regressed_found_percent": found.not_regressed_found,
        "power_told_error_points": found.power_told_error,
    }


async def _search(lab: Lab) -> Found:
    return await asyncio.to_thread(simulated_searches.measured, say=_say)


async def _capacity(lab: Lab) -> Found:
    # Alone, for it is about what one process can carry.
    ramps = await lab.measured([capacity.RAMP], lanes=1)
    if not ramps or not capacity.overloads(ramps[0][1]):
        raise Failed("the ramp did not take the client beyond its capacity")
    return {"saturated_unnoticed": sum(capacity.unnoticed(ramps[0][1], say=_say))}


async def _mistakes(lab: Lab) -> Found:
    chosen = [mistake for mistake in MISTAKES if lab.named in mistake.name]
    found = 0
    async for experiment, outcome in measure_all(chosen, lanes=lab.lanes, say=_say):
        told = {finding.code: finding.severity for finding in outcome.judged.findings}
        missed: dict[str, str] = {c: s for c, s in experiment.expected.items() if told.get(c) != s}
        evidence = {
            k: v
            for f in outcome.judged.findings
            if f.code in experiment.expected
            for k, v in f.evidence.items()
        }
        missed |= {
            name: word for name, word in experiment.evidence.items() if evidence.get(name) != word
        }
        found += not missed
        _say(
            f"  {'MISSED ' + str(missed) if missed else 'found'}: {experiment.name}; it says {told}"
        )
    return {"mistakes_injected": len(chosen), "mistakes_found": found}


async def _doses(lab: Lab) -> Found:
    truths: dict[tuple[str, int], doses.Truth] = {}
    seen: dict[doses.Dose, list[doses.Seen]] = {}
    chosen = [mistake for mistake in doses.MISTAKES if lab.named in mistake.name]
    # What runs beside any comes first, and the references with it: the others are held against
    # them. A median of several stages bears one in which the machine stood still.
    both = (doses.SLOW, doses.FAST)
    groups: Sequence[tuple[doses.Beside, Collection[doses.Place], int]] = (
        ("any", (doses.SLOW,), lab.lanes),
        ("any", (doses.FAST,), lab.lanes_busy),
        ("few", both, lab.lanes_busy),
        ("alike", both, lab.lanes),
        ("none", both, 1),
    )
    whole = {
        each.experiment(place, dose).name for each in doses.REFERENCES for place, dose in each.tried
    }
    for beside, places, lanes in groups:
        tried = {
            mistake.experiment(place, dose).name: (mistake, place, dose)
            for mistake in (*doses.REFERENCES, *chosen)
            if mistake.beside == beside
            for place, dose in mistake.tried
            if place in places
        }
        experiments = [mistake.experiment(place, dose) for mistake, place, dose in tried.values()]
        ended = [
            (*tried[each.name], outcome)
            for each, outcome in await lab.measured(experiments, lanes=lanes, whole=whole)
        ]
        for mistake, place, _, outcome in ended:
            if mistake in doses.REFERENCES:
                truths[place.name, mistake.prompt_tokens] = doses.truths(outcome)
        for mistake, place, dose, outcome in ended:
            if mistake not in doses.REFERENCES:
                truth = truths[place.name, mistake.prompt_tokens]
                seen[mistake.name, place.name, dose] = list(
                    doses.seen(mistake, outcome, truth, lab.machine.slowed)
                )
    found = doses.tally(seen, say=_say)
    return {"doses": sum(map(bool, seen.values())), **asdict(found)}


async def _clean(lab: Lab) -> Found:
    """More are measured while those in which the machine did not stand still are too few."""
    alone = await lab.measured([timing.ALONE], lanes=1, whole={timing.ALONE.name})
    clean: list[Outcome] = []
    runs, planned = clean_runs(MAX_CLEAN_STAGES), 0
    # Some more than are missing: a second round of a single run would leave the other lanes idle.
    while due := list(_enough(runs, round(1.03 * (CLEAN_STAGES - _stages(clean))))):
        planned += sum(map(clean_stages, due))
        due.sort(key=lambda run: (not is_fast(run), run.about_seconds))
        # The fast ones first, where fewer run at a time.
        few = lab.lanes * math.ceil(sum(map(is_fast, due)) / lab.lanes)
        for some, lanes in ((due[:few], lab.lanes), (due[few:], lab.lanes_timed)):
            clean += [outcome for _, outcome in await lab.measured(some, lanes=lanes)]
    slowed, slow = lab.machine.slowed, lab.machine.slow
    forgiven = timing.forgiven_ms(alone[0][1], lab.machine.work_seconds, slow=slow, slowed=slowed)
    return {
        "clean_stages": _stages(clean),
        "disturbed_stages": planned - _stages(clean),
        "slowed_stages": sum(map(slowed, _records(clean))),
        "false_suspect": sum(_blamed(clean, "Suspect", slowed)),
        "false_invalid": sum(_blamed(clean, "Invalid", slowed)),
        "late_where_slowed": sum(_late_where_slowed(clean, slowed)),
        **_timing(clean, forgiven, slow),
    }


def _timing(clean: Sequence[Outcome], forgiven: timing.Forgiven, slow: timing.Slow) -> Found:
    errors = [error for outcome in clean for error in timing.errors(outcome, forgiven, slow)]
    ranked = sorted(errors, key=lambda error: -error.percent)
    tails = [error for error in ranked if error.figure.startswith("p99")]
    others = [error for error in ranked if not error.figure.startswith("p99")]
    beyond = sum(error.percent > LIMITS["max_timing_error_percent"][1] for error in others)
    _say(
        f"{beyond} of {len(others)} timings are beyond the limit; the worst: {others[:5]}; worst "
        f"p99: {tails[0]}"
    )
    timed = len(
        {(id(outcome), error.stage) for outcome in clean for error in timing.errors(outcome)}
    )
    kept = [keep for record in _records(clean) for keep in timing.undisturbed(record, slow(record))]
    return {
        "timed_requests_percent": 100 * fmean(kept),
        "forgiven_ttft_ms": max(forgiven(record)["ttft"] for record in _records(clean)),
        "max_timing_error_percent": others[0].percent,
        "max_p99_error_percent": tails[0].percent,
        "stages_untimed": _stages(clean) - timed,
    }


async def _arms(lab: Lab) -> Found:
    """The servers that `_pairs` compares."""
    arms: dict[str, list[Outcome]] = {"A": [], "B": []}
    lanes = lab.lanes + 1  # Twenty in four rounds.
    async for experiment, outcome in measure_all(
        list(pairs.real_arms(REAL_SERVERS)), lanes=lanes, say=_say
    ):
        arms[experiment.name[0]].append(outcome)
    if any(len(arm) != REAL_SERVERS for arm in arms.values()):
        raise Failed("a server of the pairs could not be measured")
    lab.arms.set_result(arms)
    return {}


async def _pairs(lab: Lab) -> Found:
    arms = await lab.arms
    shares = await asyncio.to_thread(pairs.resampled, arms["A"], pairs=PAIRS)
    words = await asyncio.to_thread(pairs.real_words, arms["A"], arms["B"])
    return {
        "aa_different_percent": shares.aa_different,
        "ab_found_percent": shares.ab_found,
        **{f"real_{name}": word for name, word in words.items()},
    }


SIMULATED: Mapping[str, Callable[[Lab], Awaitable[Found]]] = {
    "coverage": _coverage, "gate": _gate, "search": _search, "pairs": _pairs,
}  # fmt: skip
MEASURED: Mapping[str, Callable[[Lab], Awaitable[Found]]] = {
    "pairs": _arms, "capacity": _capacity, "mistakes": _mistakes, "doses": _doses, "clean": _clean,
}  # fmt: skip
PARTS = tuple(dict.fromkeys((*SIMULATED, *MEASURED)))


def main() -> int:
    """Measure, print, and compare with the limits."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--only", choices=PARTS, action="append", help="this part; more than once: these"
    )
    parser.add_argument("--named", default="", help="only mistakes whose name holds this")
    parser.add_argument(
        "--lanes", type=int, default=LANES, help="experiments at a time (default: %(default)s)"
    )
    arguments = parser.parse_args()
    chosen = arguments.only or PARTS
    measures = any(part in MEASURED for part in chosen)
    if measures:
        own_network()
    with watched(every_core=measures) as machine:
        found = asyncio.run(_measure(chosen, arguments.lanes, machine, arguments.named))
    figures = {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in found.items()
    }
    print(json.dumps(figures), flush=True)
    beyond = [] if arguments.named else list(_beyond(figures))
    for line in beyond:
        _say(f"limit not kept: {line}")
    return 1 if beyond else 0


async def _measure(chosen: Sequence[str], lanes: int, machine: Machine, named: str) -> Found:
    """The simulated parts one after the other beside the measured ones, of which each has the
    machine's time for itself."""
    lab = Lab(lanes, machine, named, arms=asyncio.get_running_loop().create_future())

    async def in_turn(parts: Mapping[str, Callable[[Lab], Awaitable[Found]]]) -> dict[str, Figure]:
        found: dict[str, Figure] = {}
        for name, part in parts.items():
            if name in chosen:
                _say(f"{name} begins")
                found |= await part(lab)
                _say(f"{name} ends")
        return found

    simulated, measured = await asyncio.gather(in_turn(SIMULATED), in_turn(MEASURED))
    return simulated | measured


def _beyond(figures: Found) -> Iterator[str]:
    """Every limit that is not kept; of parts that were not run, none."""
    for name, (least, most) in LIMITS.items():
        value = figures.get(name, least)
        if not isinstance(value, int | float) or not least <= value <= most:
            yield f"{name} is {value}, not within {least} to {most}"
    yield from (
        f"{name} is {figures[name]}"
        for name, words in WORDS.items()
        if figures.get(name, words[0]) not in words
    )


def _enough(runs: Iterator[Experiment], stages: int) -> Iterator[Experiment]:
    """The next ones, until they have so many stages."""
    while stages > 0 and (run := next(runs, None)) is not None:
        stages -= clean_stages(run)
        yield run


def _stages(outcomes: Iterable[Outcome]) -> int:
    return sum(1 for _ in _records(outcomes))


def _records(outcomes: Iterable[Outcome]) -> Iterator[StageRecord]:
    return (record for outcome in outcomes for record in outcome.records)


def _blamed(
    clean: Iterable[Outcome], severity: str, slowed: Callable[[StageRecord], bool]
) -> Iterator[int]:
    """Where the host slowed the cores the client was late indeed, and to be called so is not
    wrong."""
    for outcome in clean:
        others = (finding for finding in outcome.judged.findings if finding.code not in doses.LATE)
        for finding in chain(_called_late(outcome.only(lambda record: not slowed(record))), others):
            if finding.severity == severity:
                _say(
                    f"  blamed: {finding.code} {finding.worst_stage} x{finding.count} "
                    f"{finding.evidence}"
                )
                yield finding.count


def _late_where_slowed(
    clean: Iterable[Outcome], slowed: Callable[[StageRecord], bool]
) -> Iterator[int]:
    for outcome in clean:
        yield from (finding.count for finding in _called_late(outcome.only(slowed)))


def _called_late(outcome: Outcome) -> Iterator[Finding]:
    if outcome.records:
        yield from (
            each
            for each in outcome.judged.findings
            if each.code in doses.LATE and each.severity != "Note"
        )


def _say(what: str) -> None:
    load = os.getloadavg()[0]
    print(
        f"{time.monotonic() - _BEGAN:7.1f} s  load {load:4.1f}  {what}", file=sys.stderr, flush=True
    )


_BEGAN = time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
