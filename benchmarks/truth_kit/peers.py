"""How often intervals of ours and of other tools hold the truth, on the same simulated stages.

guidellm gives intervals of one stage, AIPerf of several runs; each estimator is imported as it is,
in the tool's own environment (`PEERS`). Stages begin in the steady state of queues whose
percentiles are known. Ours is asked about both; where it calls a percentile uncertain (`?`), it
gives none.
"""

import json
import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from benchrun_client.contract import (
    RequestSample,
    interval,
    is_bounded,
    stage_shape,
)

from truth_kit import certainty
from truth_kit.processes import CACHE
from truth_kit.spread import spread

PEERS = CACHE / "peers"
TOOLS: Mapping[str, tuple[int, int]] = {"guidellm": (2000, 1), "aiperf": (400, 5)}
"""Requests of a stage, and stages, of which a tool gives intervals."""
RELEASES = {"guidellm": "0.8.1", "aiperf": "0.13.0"}
POINTS = 60  # Load points of a setting.
QUEUES = ("M/M/1", "M/M/8", "M/G/32")
SERVERS = tuple(
    server
    for server in certainty.SERVERS
    if server.name.partition(" ")[0] in QUEUES
)


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was seen of an estimator, a server and a percentile."""

    tool: str  # "ours of" another: ours, on its stages.
    server: str
    load: float
    percent: int
    given: int
    held: int
    points: int

    @property
    def held_percent(self) -> float | None:
        """Return how often an interval holds the truth; None where few are given."""
        return (
            100 * self.held / self.given if self.given >= self.points / 3 else None
        )


def are_installed() -> bool:
    """Return whether the environments of the tools are there."""
    return all((PEERS / tool / "bin" / "python").exists() for tool in TOOLS)


def measured(*, say: Callable[[str], None]) -> Mapping[str, float | None]:
    """Simulate, ask every estimator, and return the figures by name."""
    tasks = [(tool, place) for tool in TOOLS for place in range(len(SERVERS))]
    seen = [each for found in spread(_of_server, tasks) for each in found]
    for each in seen:
        say(f"  {_in_words(each)}")
    ours = [each for each in seen if each.tool.startswith("ours")]
    return {
        "coverage_worst_percent": _worst(ours),
        "given_percent": _given(ours),
        **{
            f"{tool}_coverage_worst_percent": _worst(
                [each for each in seen if each.tool == tool]
            )
            for tool in TOOLS
        },
        **{
            f"{tool}_given_percent": _given(
                [each for each in seen if each.tool == tool]
            )
            for tool in TOOLS
        },
    }


def _worst(seen: Sequence[Coverage]) -> float | None:
    held = [each.held_percent for each in seen if each.held_percent is not None]
    return round(min(held), 1) if held else None


def _given(seen: Sequence[Coverage]) -> float | None:
    points = sum(each.points for each in seen)
    return (
        round(100 * sum(each.given for each in seen) / points, 1)
        if points
        else None
    )


def _of_server(task: tuple[str, int]) -> list[Coverage]:
    tool, place = task
    server = SERVERS[place]
    count, repeats = TOOLS[tool]
    truth = certainty.truth_of(server)
    random = Random(f"peers {tool} {server.name}")
    points = [
        [server.stage(count, random) for _ in range(repeats)] for _ in range(POINTS)
    ]
    theirs = _answers(tool, [[each.values["e2el"] for each in p] for p in points])
    ours = [_ours(server, point) for point in points]
    return [
        _coverage(name, server, percent, intervals, truth["e2el", percent])
        for name, intervals in ((tool, list(theirs)), (f"ours of {tool}", ours))
        for percent in certainty.PERCENTS
    ]


def _coverage(
    tool: str,
    server: certainty.Server,
    percent: int,
    intervals: Sequence[Mapping[str, Sequence[float] | None]],
    truth: float,
) -> Coverage:
    tally: Counter[str] = Counter()
    for each in intervals:
        found = each[str(percent)]
        if found is not None:
            tally["given"] += 1
            tally["held"] += found[0] <= truth <= found[1]
    given, held = tally["given"], tally["held"]
    return Coverage(
        tool, server.name, server.load, percent, given, held, len(intervals)
    )


def _ours(
    server: certainty.Server, stages: Sequence[certainty.Stage]
) -> Mapping[str, Sequence[float] | None]:
    shapes = [
        stage_shape(stage.begins, stage.ends, users=server.users)
        for stage in stages
    ]
    sample = RequestSample(shapes, [stage.values["e2el"] for stage in stages])
    found = {
        percent: interval(sample, percent) if is_bounded(sample, percent) else None
        for percent in certainty.PERCENTS
    }
    return {
        str(percent): None if each is None else (each.low, each.high)
        for percent, each in found.items()
    }


def _answers(
    tool: str, points: Sequence[Sequence[Sequence[float]]]
) -> Iterator[Mapping[str, Sequence[float] | None]]:
    """Yield what the tool's estimator says of each load point."""
    own = {
        name: value for name, value in os.environ.items() if name != "PYTHONPATH"
    }
    lines = "".join(f"{json.dumps(point)}\n" for point in points)
    answered = subprocess.run(
        [
            str(PEERS / tool / "bin" / "python"),
            str(Path(__file__).with_name("peer_intervals.py")),
            tool,
        ],
        env=own,
        input=lines,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    yield from map(json.loads, answered.stdout.splitlines())


def _in_words(seen: Coverage) -> str:
    held = "-" if seen.held_percent is None else f"{seen.held_percent:.0f} %"
    return (
        f"{seen.tool}: {seen.server} p{seen.percent}: holds the truth {held} "
        f"of {seen.given} given, {seen.points} load points"
    )
