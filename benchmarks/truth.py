"""Whether the product's statements are true: certainty, rows, gates, searches, timings, findings.

Its timings are compared with vLLM's own client; its findings are tested on mistakes and on clean
stages. Queues, gates and searches are simulated, at idle priority beside the rest. The rest is
measured: servers are simulated and log their own truth; the client, its load engine, the rules and
the comparison are the real ones. The host's disturbances excuse nothing: each part has a partner in
the same minutes. Needs the vLLM for CPUs that `python3 devcluster vllm` installs, and root. What is
assumed and how each figure is estimated: docs/truth.md. Progress goes to standard error; the last
line on standard output is one JSON object. Exits 1 when a limit is not kept.
"""

import argparse
import asyncio
import json
import os
import sys
import time
from collections.abc import (
    Awaitable,
    Callable,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import asdict, dataclass

from benchrun.api import Finding, Severity
from truth_kit import (
    auto_repeats,
    capacity,
    certainty,
    doses,
    gates,
    paired,
    pairs,
    simulated_searches,
    steady,
)
from truth_kit.clean import clean_runs
from truth_kit.lab import Experiment, Failed, Outcome, measure_all
from truth_kit.mistakes import MISTAKES, TWINS, counting_codes
from truth_kit.physical import own_network

CLEAN_STAGES = 70
PAIRS = 400
REAL_SERVERS = 10
LANES = 4
"""Experiments that run at the same time: a client and its server want most of a core while they
start, and little while they measure."""

DOSES = sum(len(mistake.doses) for mistake in doses.MISTAKES)

Figure = float | str | None
"""None: the product does not report what this figure needs."""
Found = Mapping[str, Figure]
LIMITS: Mapping[str, tuple[float, float]] = {
    "false_met_percent": (0, 5),
    "false_missed_percent": (0, 5),
    "false_met_beyond_percent": (0, 5),
    "false_missed_beyond_percent": (0, 5),
    "met_at_twice_percent": (90, 100),
    "met_at_twice_slow_percent": (70, 100),
    "met_at_three_percent": (95, 100),
    "missed_at_half_percent": (90, 100),
    "obvious_undecided": (0, 0),
    "interval_given_percent": (90, 100),
    "coverage_percent": (90, 100),
    "steady_error_percent": (0, 5),
    "steady_tail_error_percent": (0, 5),
    "steady_coverage_percent": (90, 100),
    "steady_false_met_percent": (0, 5),
    "slow_false_met_percent": (0, 5),
    "slow_decided_once_percent": (0, 5),
    "auto_decided_percent": (90, 100),
    "auto_false_percent": (0, 5),
    "auto_cost_ratio": (0, auto_repeats.MAX_RATIO),
    "false_regressed_percent": (0, 5),
    "power_told_error_points": (0, 5),
    "search_above_truth_percent": (0, 5),
    "search_none_found_percent": (0, 1),
    "search_median_below_percent": (0, 10),
    "search_others_above_truth_percent": (0, 5),
    "search_others_none_found_percent": (0, 1),
    "search_others_median_below_percent": (0, 10),
    "search_drifting_above_truth_percent": (0, 5),
    "aa_different_percent": (0, 5),
    "ab_found_percent": (90, 100),
    "paired_error_ratio_at_least": (0, paired.MAX_RATIO),
    "saturated_unnoticed": (0, 0),
    "mistakes_found": (len(MISTAKES), len(MISTAKES)),
    "doses": (DOSES, DOSES),
    "harmful_unnoticed_percent": (0, 5),
    "named_rightly_percent": (95, 100),
    "named_unknown_percent": (0, 30),
    "nobody_named_percent": (0, 5),
    "server_blames_others_percent": (0, 5),
    "clean_stages": (CLEAN_STAGES, 100),
    "false_suspect_percent": (0, 5),
    "false_invalid": (0, 0),
}
"""Least and greatest allowed value of each figure."""
ALIKE = ("NoDetectableDifference", "Equivalent")
WORDS: Mapping[str, Sequence[str]] = {
    "real_aa": ALIKE,
    "real_bb": ALIKE,
    "real_ab": ("Worse",),
}
CLIENTS_OWN = ("ClientSaturated", "ClientThrottled")
"""Codes that say that the client had too little of a core. On a shared host that may be true."""


@dataclass(frozen=True, slots=True)
class Lab:
    """How experiments are run."""

    lanes: int
    named: str
    """Only mistakes whose name contains this text."""
    arms: asyncio.Future[Mapping[str, Sequence[Outcome]]]
    """Outcomes of the pairs' servers, set once they are measured."""

    @property
    def lanes_timed(self) -> int:
        """Return the lanes for experiments whose client and servers run ahead of all processes.

        They wait more than they work, so there is one lane more.
        """
        return self.lanes + 1

    async def measured(
        self,
        experiments: Sequence[Experiment],
        *,
        lanes: int,
        as_listed: bool = False,
    ) -> list[tuple[Experiment, Outcome]]:
        """Run the experiments, and return the outcomes of those that did not fail."""
        ended = measure_all(experiments, lanes=lanes, say=_say, as_listed=as_listed)
        return [each async for each in ended]


async def _gate(lab: Lab) -> Found:
    found = await asyncio.to_thread(gates.measured, say=_say)
    return {
        "false_regressed_percent": found.false_regressed,
        "regressed_found_percent": found.regressed_found,
        "not_regressed_found_percent": found.not_regressed_found,
        "power_told_error_points": found.power_told_error,
    }


async def _paired(lab: Lab) -> Found:
    return await paired.measured(say=_say)


async def _capacity(lab: Lab) -> Found:
    # It runs alone, for it is about what one process can carry.
    ramps = await lab.measured([capacity.RAMP], lanes=1)
    if not ramps or not capacity.overloads(ramps[0][1]):
        raise Failed("the ramp did not take the client beyond its capacity")
    return {"saturated_unnoticed": sum(capacity.unnoticed(ramps[0][1], say=_say))}


async def _mistakes(lab: Lab) -> Found:
    chosen = [mistake for mistake in MISTAKES if lab.named in mistake.name]
    ended = await lab.measured([*TWINS, *chosen], lanes=lab.lanes)
    twins = [_severities(outcome) for each, outcome in ended if each in TWINS]
    if len(twins) != len(TWINS):
        raise Failed("a clean twin could not be measured")
    found = 0
    for experiment, outcome in ended:
        if experiment in TWINS:
            continue
        told = _severities(outcome)
        counting = counting_codes(told, *twins)
        missed: dict[str, str] = {
            code: severity
            for code, severity in experiment.expected.items()
            if told.get(code) != severity
            or (severity != "Note" and code not in counting)
        }
        evidence = {
            k: v
            for f in outcome.judged.findings
            if f.code in experiment.expected
            for k, v in f.evidence.items()
        }
        missed |= {
            name: word
            for name, word in experiment.evidence.items()
            if evidence.get(name) != word
        }
        found += not missed
        _say(
            f"  {'MISSED ' + str(missed) if missed else 'found'}: {experiment.name}; it says {told}"
        )
    _say(f"  the clean twins say {twins}")
    return {"mistakes_injected": len(chosen), "mistakes_found": found}


async def _doses(lab: Lab) -> Found:
    seen: dict[doses.Dose, list[doses.Seen]] = {}
    lanes: Mapping[doses.Beside, int] = {
        "any": lab.lanes_timed,
        "few": lab.lanes // 2,
        "alike": lab.lanes,
        "none": 1,
    }
    for beside, at_a_time in lanes.items():
        chosen = [
            m for m in doses.MISTAKES if lab.named in m.name and m.beside == beside
        ]
        experiments = {
            (mistake.name, dose): mistake.dosed(dose)
            if dose is not None
            else mistake.twin()
            for mistake in chosen
            for dose in (None, *mistake.doses)
        }
        ended = await lab.measured(
            list(experiments.values()), lanes=at_a_time, as_listed=True
        )
        outcomes = {experiment.name: outcome for experiment, outcome in ended}
        twins = {
            name: outcomes[experiment.name]
            for (name, dose), experiment in experiments.items()
            if dose is None and experiment.name in outcomes
        }
        for (name, dose), experiment in experiments.items():
            if dose is not None and name in twins and experiment.name in outcomes:
                found = doses.seen(
                    outcomes[experiment.name], twins[name], twins.values()
                )
                seen[name, dose] = list(found)
    tally = doses.tally(seen, say=_say)
    return {"doses": sum(map(bool, seen.values())), **asdict(tally)}


async def _clean(lab: Lab) -> Found:
    runs = list(clean_runs(CLEAN_STAGES))
    clean = [
        outcome for _, outcome in await lab.measured(runs, lanes=lab.lanes_timed)
    ]
    stages = sum(len(outcome.records) for outcome in clean)
    blamed = list(_blamed(clean))
    late = sum(each.count for each in blamed if each.code in CLIENTS_OWN)
    suspect, invalid = (
        sum(
            each.count
            for each in blamed
            if each.severity == severity and each.code not in CLIENTS_OWN
        )
        for severity in ("Suspect", "Invalid")
    )
    return {
        "clean_stages": stages,
        "clean_called_late": late,
        "false_suspect_percent": 100 * suspect / max(1, stages),
        "false_invalid": invalid,
    }


async def _arms(lab: Lab) -> Found:
    """Measure the servers that `_pairs` compares."""
    arms: dict[str, list[Outcome]] = {"A": [], "B": []}
    lanes = lab.lanes_timed  # Twenty servers in four rounds.
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


Part = Callable[[Lab], Awaitable[Found]]


def _simulated(measured: Callable[..., Found]) -> Part:
    """Return a part made of a function that simulates, and that takes `say`."""

    async def part(lab: Lab) -> Found:
        return await asyncio.to_thread(measured, say=_say)

    return part


SIMULATED: Mapping[str, Part] = {
    "certainty": _simulated(certainty.measured),
    "steady": _simulated(steady.measured),
    "auto": _simulated(auto_repeats.measured),
    "gate": _gate,
    "search": _simulated(simulated_searches.measured),
    "pairs": _pairs,
}
"""Parts that run one after the other at idle priority, beside the measured parts."""
MEASURED: Mapping[str, Part] = {
    "pairs": _arms,
    "paired": _paired,
    "capacity": _capacity,
    "mistakes": _mistakes,
    "doses": _doses,
    "clean": _clean,
}
"""Parts that run one after the other."""
PARTS = tuple(dict.fromkeys((*SIMULATED, *MEASURED)))


def main() -> int:
    """Measure, print the figures, compare them with the limits, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--only",
        choices=PARTS,
        action="append",
        help="this part; more than once: these",
    )
    parser.add_argument(
        "--named", default="", help="only mistakes whose name holds this"
    )
    parser.add_argument(
        "--lanes",
        type=int,
        default=LANES,
        help="experiments at a time (default: %(default)s)",
    )
    arguments = parser.parse_args()
    chosen = arguments.only or PARTS
    if any(part in MEASURED for part in chosen):
        own_network()
    found = asyncio.run(_measure(chosen, arguments.lanes, arguments.named))
    figures = {
        name: round(value, 2) if isinstance(value, float) else value
        for name, value in found.items()
    }
    print(json.dumps(figures), flush=True)
    beyond = [] if arguments.named else list(_beyond(figures))
    for line in beyond:
        _say(f"limit not kept: {line}")
    return 1 if beyond else 0


async def _measure(chosen: Sequence[str], lanes: int, named: str) -> Found:
    """Run the simulated parts beside the measured ones, and return all figures."""
    lab = Lab(lanes, named, arms=asyncio.get_running_loop().create_future())

    async def in_turn(parts: Mapping[str, Part]) -> dict[str, Figure]:
        found: dict[str, Figure] = {}
        for name, part in parts.items():
            if name in chosen:
                _say(f"{name} begins")
                found |= await part(lab)
                _say(f"{name} ends")
        return found

    simulated, measured = await asyncio.gather(
        in_turn(SIMULATED), in_turn(MEASURED)
    )
    return simulated | measured


def _beyond(figures: Found) -> Iterator[str]:
    """Yield a line for every limit that is not kept; parts that were not run have none."""
    for name, (least, most) in LIMITS.items():
        value = figures.get(name, least)
        if not isinstance(value, int | float) or not least <= value <= most:
            yield f"{name} is {value}, not within {least} to {most}"
    yield from (
        f"{name} is {figures[name]}"
        for name, words in WORDS.items()
        if figures.get(name, words[0]) not in words
    )


def _severities(outcome: Outcome) -> Mapping[str, Severity]:
    return {finding.code: finding.severity for finding in outcome.judged.findings}


def _blamed(clean: Iterable[Outcome]) -> Iterator[Finding]:
    for outcome in clean:
        for finding in outcome.judged.findings:
            if finding.severity != "Note":
                _say(
                    f"  blamed: {finding.code} {finding.worst_stage} x{finding.count} "
                    f"{finding.evidence}"
                )
                yield finding


def _say(what: str) -> None:
    load = os.getloadavg()[0]
    print(
        f"{time.monotonic() - _BEGAN:7.1f} s  load {load:4.1f}  {what}",
        file=sys.stderr,
        flush=True,
    )


_BEGAN = time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
