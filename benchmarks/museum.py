"""Wrong benchmarks that people have published, replayed: which of them a tool notices.

Each exhibit is an incident with its public thread. Its mistake is replayed on a simulated server,
through the real client and the rules, and a clean twin is measured in the same minutes. Those that
disturb no client are replayed through `vllm bench serve`, too. Needs the vLLM for CPUs that
`python3 devcluster vllm` installs, and root. Writes docs/museum.json, from which `make crds` makes
the page. Progress goes to standard error; the last line on standard output is one JSON object.
Exits 1 when a twin is blamed, or fewer incidents are named or prevented than the limit.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchrun.api import Severity
from museum_kit import tally, vllm_column
from museum_kit.exhibits import EXHIBITS, Exhibit
from truth_kit.lab import Experiment, Outcome, measure_all
from truth_kit.physical import own_network

RESULT_FILE = Path(__file__).parents[1] / "docs" / "museum.json"
LANES = 4
LEAST_RIGHT_PERCENT = 90
"""Share of the exhibits that must be named or prevented."""


def main() -> int:
    """Replay the exhibits, print the counts, write the result file, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--named", default="", help="only threads with this in them"
    )
    parser.add_argument(
        "--lanes", type=int, default=LANES, help="experiments at a time"
    )
    parser.add_argument(
        "--ours-only", action="store_true", help="without `vllm bench serve`"
    )
    arguments = parser.parse_args()
    chosen = [each for each in EXHIBITS if arguments.named in each.thread]
    own_network()
    shown = asyncio.run(
        _shown(chosen, lanes=arguments.lanes, theirs=not arguments.ours_only)
    )
    figures = tally.figures(shown)
    _write(shown)
    print(json.dumps(figures), flush=True)
    right = figures["named"] + figures["prevented"]
    return int(
        figures["false_alarms"] > 0
        or 100 * right < LEAST_RIGHT_PERCENT * len(chosen)
    )


async def _shown(
    chosen: Sequence[Exhibit], *, lanes: int, theirs: bool
) -> list[tally.Shown]:
    alike = _twins(chosen)
    outcomes = await _outcomes(alike, lanes)
    said = await _vllm(alike) if theirs else {}
    shown = []
    for each in alike:
        pair = outcomes.get(each.wrong.name), outcomes.get(each.clean.name)
        if pair[0] is None or pair[1] is None:
            _say(f"{each.thread} could not be replayed")
            continue
        shown.append(_judged(each, pair[0], pair[1], said))
    return shown


def _twins(chosen: Sequence[Exhibit]) -> list[Exhibit]:
    """Return the exhibits with one twin for all whose twins are alike."""
    twins: list[Experiment] = []
    shared = []
    for each in chosen:
        same = (t for t in twins if replace(t, name=each.clean.name) == each.clean)
        twin = next(same, None)
        if twin is None:
            twin = each.clean
            twins.append(twin)
        shared.append(replace(each, clean=twin))
    return shared


def _experiments(exhibits: Iterable[Exhibit]) -> list[Experiment]:
    both = [run for each in exhibits for run in (each.wrong, each.clean)]
    return list({each.name: each for each in both}.values())


async def _outcomes(
    exhibits: Sequence[Exhibit], lanes: int
) -> Mapping[str, Outcome]:
    ended = measure_all(_experiments(exhibits), lanes=lanes, say=_say)
    return {experiment.name: outcome async for experiment, outcome in ended}


async def _vllm(
    exhibits: Sequence[Exhibit],
) -> Mapping[str, vllm_column.Said]:
    said = {}
    for experiment in _experiments(exhibits):
        if vllm_column.can_replay(experiment):
            said[experiment.name] = await vllm_column.said_of(experiment)
            _say(f"vllm bench serve: {experiment.name}: {said[experiment.name]}")
    return said


def _judged(
    exhibit: Exhibit,
    wrong: Outcome,
    clean: Outcome,
    said: Mapping[str, vllm_column.Said],
) -> tally.Shown:
    told, usual = _severities(wrong), _severities(clean)
    right = exhibit.is_prevented
    word = tally.word_of(
        exhibit,
        told,
        usual,
        prevented=right is not None and right(wrong, clean),
    )
    findings = dict.fromkeys(
        [*tally.naming(exhibit, told, usual), *tally.blaming(told, usual)]
    )
    theirs = said.get(exhibit.wrong.name), said.get(exhibit.clean.name)
    vllm: tally.Theirs | None = (
        None
        if theirs[0] is None or theirs[1] is None
        else "flagged"
        if theirs[0].flags(theirs[1])
        else "silent"
    )
    _say(f"{exhibit.thread}: {word}: {told}; its twin: {usual}")
    return replace(
        tally.unseen(exhibit),
        twin=exhibit.clean.name,
        ours=word,
        said=list(findings),
        alarms=tally.alarms(usual),
        vllm=vllm,
    )


def _severities(outcome: Outcome) -> Mapping[str, Severity]:
    return {finding.code: finding.severity for finding in outcome.judged.findings}


def _write(shown: Sequence[tally.Shown]) -> None:
    """Hang what was shown into the museum, where what was not keeps its last result."""
    stored = json.loads(RESULT_FILE.read_text(encoding="utf-8"))["exhibits"]
    content = museum([tally.Shown(**each) for each in stored], shown)
    RESULT_FILE.write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def museum(
    stored: Sequence[tally.Shown], shown: Sequence[tally.Shown]
) -> Mapping[str, Any]:
    """Return the content of the result file: all exhibits, in the order of the catalogue."""
    last = {each.thread: each for each in (*stored, *shown)}
    hung = [
        replace(
            last.get(exhibit.thread, tally.unseen(exhibit)),
            told=exhibit.told,
            replay=exhibit.replay,
            by_default=exhibit.by_default,
        )
        for exhibit in EXHIBITS
    ]
    return {"figures": tally.figures(hung), "exhibits": list(map(asdict, hung))}


def _say(what: str) -> None:
    print(
        f"{time.monotonic() - _BEGAN:7.1f} s  {what}", file=sys.stderr, flush=True
    )


_BEGAN = time.monotonic()


if __name__ == "__main__":
    sys.exit(main())
