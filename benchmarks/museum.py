"""Wrong benchmarks that people have published, replayed: which of them a tool notices.

Each exhibit is an incident with its public thread. Its mistake is replayed on a simulated server,
through the real client and the rules, and a clean twin is measured in the same minutes. Those that
disturb no client are replayed through other tools, too, as they are installed. Needs what
`python3 devcluster vllm` and `python3 devcluster peers` install, and root. Writes docs/museum.json
after each batch, from which `make crds` makes the page. Progress goes to standard error; the last
line on standard output is one JSON object.
Exits 1 when a twin is blamed, or fewer incidents are named or prevented than the limit.
"""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchrun.api import Severity
from museum_kit import columns, tally
from museum_kit.exhibits import EXHIBITS, Exhibit
from museum_kit.said import Said
from truth_kit.lab import Experiment, Outcome, measure_all
from truth_kit.physical import own_network

RESULT_FILE = Path(__file__).parents[1] / "docs" / "museum.json"
LANES = 4
TRIES = 3
"""How often a twin is measured that is blamed while its host is busy (`tally.BUSY_PERCENT`)."""
LEAST_RIGHT_PERCENT = 90
"""Share of the exhibits that must be named or prevented."""


def main() -> int:
    """Replay the exhibits, print the counts, write the result file, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "--named",
        default="",
        help="only threads with one of these words, with commas",
    )
    parser.add_argument(
        "--lanes", type=int, default=LANES, help="experiments at a time"
    )
    parser.add_argument(
        "--tools",
        default=",".join(columns.TOOLS),
        help="other tools, with commas; empty: none",
    )
    parser.add_argument(
        "--left",
        action="store_true",
        help="only what was not replayed yet, or whose twin is blamed on a busy host",
    )
    parser.add_argument(
        "--tries",
        type=int,
        default=TRIES,
        help="how often a busy host is not believed",
    )
    parser.add_argument(
        "--theirs-only", action="store_true", help="without benchrun itself"
    )
    arguments = parser.parse_args()
    words = arguments.named.split(",")
    chosen = [e for e in EXHIBITS if any(word in e.thread for word in words)]
    tools = [each for each in arguments.tools.split(",") if each]
    own_network()
    replays = _replays(
        chosen, ours=not arguments.theirs_only, tools=tools, left=arguments.left
    )
    asyncio.run(_replay(replays, lanes=arguments.lanes, tries=arguments.tries))
    threads = {each.thread for each in chosen}
    figures = tally.figures([e for e in _stored() if e.thread in threads])
    print(json.dumps(figures), flush=True)
    right = figures["named"] + figures["prevented"]
    return int(
        figures["false_alarms"] > 0
        or 100 * right < LEAST_RIGHT_PERCENT * len(chosen)
    )


OURS = ""
Replay = tuple[str, Sequence[Exhibit]]
"""A tool, `OURS` or another's name, and the exhibits of a twin that it is to replay."""


def _replays(
    chosen: Sequence[Exhibit], *, ours: bool, tools: Sequence[str], left: bool
) -> Iterator[Replay]:
    """Yield what to replay; of `left` only what has no result yet."""
    last = {each.thread: each for each in _stored()}
    for tool in (*([OURS] if ours else []), *tools):
        for batch in _batches(_twins(chosen)):
            wanted = [
                each
                for each in batch
                if not (left and _is_seen(last.get(each.thread), tool))
            ]
            if wanted:
                yield tool, wanted


def _is_seen(shown: tally.Shown | None, tool: str) -> bool:
    if shown is None:
        return False
    if tool != OURS:
        return tool in shown.theirs
    return shown.ours is not None and not (shown.alarms and shown.host_was_busy)


async def _replay(replays: Iterator[Replay], *, lanes: int, tries: int) -> None:
    """Replay exhibits, those of a twin together, and hang each up as soon as it is seen."""
    for tool, batch in replays:
        _write(
            await _shown(batch, lanes, tries)
            if tool == OURS
            else await _seen_by(tool, batch)
        )


def _batches(exhibits: Sequence[Exhibit]) -> Iterator[Sequence[Exhibit]]:
    """Yield the exhibits of each twin."""
    for twin in dict.fromkeys(each.clean.name for each in exhibits):
        yield [each for each in exhibits if each.clean.name == twin]


async def _shown(
    batch: Sequence[Exhibit], lanes: int, tries: int
) -> list[tally.Shown]:
    """Replay exhibits of one twin; again where the twin is blamed while the host was busy."""
    twin = batch[0].clean
    left = list(batch)
    shown: dict[str, tally.Shown] = {}
    for times in range(1, tries + 1):
        outcomes = await _outcomes([twin, *(each.wrong for each in left)], lanes)
        shown |= {
            each.thread: _judged(each, *pair)
            for each in left
            if (pair := _pair(each, outcomes)) is not None
        }
        clean = outcomes.get(twin.name)
        if clean is not None:
            shown = {
                thread: replace(each, **_of_twin(clean), times=times)
                for thread, each in shown.items()
            }
        if not _is_disturbed(clean) or times == tries:
            break
        left = [each for each in left if not _is_right(shown.get(each.thread))]
        _say(f"{twin.name}: the host was busy, once more")
    return list(shown.values())


def _is_right(shown: tally.Shown | None) -> bool:
    return shown is not None and shown.ours in ("named", "prevented")


def _of_twin(clean: Outcome) -> Mapping[str, Any]:
    """Return what an exhibit tells of its twin, as it was measured last."""
    return {
        "alarms": tally.alarms(_severities(clean)),
        "waited_percent": round(100 * clean.waited_share, 1),
    }


def _pair(
    exhibit: Exhibit, outcomes: Mapping[str, Outcome]
) -> tuple[Outcome, Outcome] | None:
    wrong = outcomes.get(exhibit.wrong.name)
    clean = outcomes.get(exhibit.clean.name)
    if wrong is None or clean is None:
        _say(f"{exhibit.thread} could not be replayed")
        return None
    return wrong, clean


def _is_disturbed(twin: Outcome | None) -> bool:
    """Return whether a twin was not measured, or is blamed while it waited for a core."""
    if twin is None:
        return True
    is_busy = 100 * twin.waited_share > tally.BUSY_PERCENT
    return is_busy and bool(tally.alarms(_severities(twin)))


async def _seen_by(tool: str, batch: Sequence[Exhibit]) -> list[tally.Shown]:
    """Replay exhibits of one twin through another tool; what it can't replay is left out."""
    column = columns.TOOLS[tool]
    said: dict[str, Said] = {}
    for experiment in _experiments(batch):
        if column.can_replay(experiment):
            said[experiment.name] = await column.said_of(experiment)
            _say(f"{tool}: {experiment.name}: {said[experiment.name]}")
    last = {each.thread: each for each in _stored()}
    seen = []
    for each in batch:
        wrong = said.get(each.wrong.name)
        clean = said.get(each.clean.name)
        if wrong is not None and clean is not None:
            word: tally.Theirs = "flagged" if wrong.flags(clean) else "silent"
            before = last.get(each.thread, tally.unseen(each))
            seen.append(replace(before, theirs={**before.theirs, tool: word}))
    return seen


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
    experiments: Sequence[Experiment], lanes: int
) -> Mapping[str, Outcome]:
    ended = measure_all(experiments, lanes=lanes, say=_say)
    return {experiment.name: outcome async for experiment, outcome in ended}


def _judged(exhibit: Exhibit, wrong: Outcome, clean: Outcome) -> tally.Shown:
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
    waited = round(100 * clean.waited_share, 1)
    _say(
        f"{exhibit.thread}: {word}: {told}; its twin: {usual}, which waited {waited} % for a core"
    )
    before = next((e for e in _stored() if e.thread == exhibit.thread), None)
    return replace(
        before or tally.unseen(exhibit),
        twin=exhibit.clean.name,
        ours=word,
        said=list(findings),
        alarms=tally.alarms(usual),
        waited_percent=waited,
    )


def _severities(outcome: Outcome) -> Mapping[str, Severity]:
    return {finding.code: finding.severity for finding in outcome.judged.findings}


def _write(shown: Sequence[tally.Shown]) -> None:
    """Hang what was shown into the museum, where what was not keeps its last result."""
    content = museum(_stored(), shown)
    RESULT_FILE.write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def _stored() -> list[tally.Shown]:
    stored = json.loads(RESULT_FILE.read_text(encoding="utf-8"))["exhibits"]
    return [tally.Shown(**each) for each in stored]


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
