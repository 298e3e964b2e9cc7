"""A/A and A/B: does the comparison find what is there, and nothing else.

Two thousand pairs of five fresh servers a side are too many to run. They are resampled from recorded stages: a server is
the requests of a recorded run drawn anew, all its times stretched by one factor of 1.5 % deviation, and in arm B by 5 %
more. Every such server goes through the real judge, every pair through the real comparison. Some pairs are run for real.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun.api import DEFAULT_METRICS, BenchmarkRunSpec, BenchmarkRunStatus
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.compare import Compared, compare
from benchrun.judge.results import results
from benchrun.plan import cells
from benchrun_client.contract import RequestColumns, StageRecord

from truth_kit.lab import Experiment, Outcome
from truth_kit.mistakes import users

SERVER_DEVIATION = 0.015
EFFECT = 0.05
SERVERS_A_SIDE = 5
POOL = 100
"""Servers of an arm that are made of one record."""
ENDED = "2026-01-01T00:00:00Z"
TTFT_MS, TPOT_MS = 40.0, 12.0


@dataclass(frozen=True, slots=True)
class Shares:
    """Of all pairs, in percent."""

    aa_different: float
    ab_found: float


def resampled(outcomes: Sequence[Outcome], *, pairs: int, seed: int = 1) -> Shares:
    """A/A and A/B over so many pairs of each."""
    draw = random.Random(seed)
    different = found = 0
    each = -(-pairs // len(outcomes))
    # The servers of a pair come from one record: what differs between records would be noise beyond the 1.5 %.
    for outcome in outcomes:
        arm_a = [_server(outcome, draw, effect=0.0, number=n) for n in range(POOL)]
        arm_b = [_server(outcome, draw, effect=EFFECT, number=POOL + n) for n in range(POOL)]
        for _ in range(each):
            chosen = draw.sample(arm_a, 2 * SERVERS_A_SIDE)
            same = _compared(chosen[:SERVERS_A_SIDE], chosen[SERVERS_A_SIDE:])
            different += same.outcome != "NoDetectableDifference"
            slower = _compared(draw.sample(arm_a, SERVERS_A_SIDE), draw.sample(arm_b, SERVERS_A_SIDE))
            found += slower.outcome == "Worse"
    total = each * len(outcomes)
    return Shares(100 * different / total, 100 * found / total)


def real_arms(servers: int) -> Iterator[tuple[str, Experiment]]:
    """So many fresh servers of each arm, to be run; in turns, so that neither has the machine's better hour."""
    for number in range(servers):
        for arm, factor in (("A", 1.0), ("B", 1.0 + EFFECT)):
            flags = (f"--sim-ttft-ms={TTFT_MS * factor}", f"--sim-tpot-ms={TPOT_MS * factor}", "--sim-jitter-ms=1")
            yield (
                arm,
                Experiment(
                    name=f"{arm}{number}",
                    workloads=[users(4, 140)],
                    servers=((*flags, f"--seed={number}"),),
                    measurement={"warmup": {"auto": {}}},
                ),
            )


def real_words(arm_a: Sequence[Outcome], arm_b: Sequence[Outcome]) -> dict[str, str]:
    """What the comparison says of servers that were really run, five a side: one arm with the other (twice), and each arm
    with itself."""
    a = [_measured(outcome, number) for number, outcome in enumerate(arm_a)]
    b = [_measured(outcome, 1000 + number) for number, outcome in enumerate(arm_b)]
    half = len(a) // 2
    words = {_compared(a[:half], b[:half]).outcome, _compared(a[half:], b[half:]).outcome}
    return {
        "ab": words.pop() if len(words) == 1 else "Mixed",
        "aa": _compared(a[:half], a[half:]).outcome,
        "bb": _compared(b[:half], b[half:]).outcome,
    }


def _compared(baseline: Sequence[MeasuredRun], candidate: Sequence[MeasuredRun]) -> Compared:
    return compare(baseline, candidate, metrics=DEFAULT_METRICS)


def _server(of: Outcome, draw: random.Random, *, effect: float, number: int) -> MeasuredRun:
    factor = math.exp(draw.gauss(0.0, SERVER_DEVIATION)) * (1 + effect)
    records = tuple(_stretched(record, factor, draw) for record in of.records)
    judged = results(cells(of.spec), records, [], spec=of.spec, compilations=())
    return _run(of.spec, list(judged.results), number)


def _measured(outcome: Outcome, number: int) -> MeasuredRun:
    return _run(outcome.spec, list(outcome.judged.results), number)


def _run(spec: BenchmarkRunSpec, rows: list[Any], number: int) -> MeasuredRun:
    """The lab's servers are fresh processes, which to the comparison a run with a server of its own is."""
    fresh = spec.model_dump(by_alias=True, exclude_none=True, exclude_defaults=True)
    del fresh["endpoint"]
    fresh["server"] = {"image": "simulator", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    status = BenchmarkRunStatus(completion_time=ENDED, results=rows)
    return MeasuredRun(f"server-{number}", str(number), BenchmarkRunSpec.model_validate(fresh), status)


def _stretched(record: StageRecord, factor: float, draw: random.Random) -> StageRecord:
    """The stage's requests drawn anew, with repetition, at a server that takes so much longer for everything."""
    columns = record.requests
    count = len(columns.ok)
    chosen = [draw.randrange(count) for _ in range(count)]

    def drawn(values: Sequence[int], stretch: float = 1.0) -> tuple[int, ...]:
        return tuple(round(values[i] * stretch) for i in chosen)

    requests = RequestColumns(
        start_us=tuple(round(us * factor) for us in columns.start_us),
        queue_us=drawn(columns.queue_us),
        ttft_us=drawn(columns.ttft_us, factor),
        e2el_us=drawn(columns.e2el_us, factor),
        input_tokens=drawn(columns.input_tokens),
        output_tokens=drawn(columns.output_tokens),
        asked_tokens=drawn(columns.asked_tokens),
        ended=tuple(columns.ended[i] for i in chosen),
        ok=tuple(columns.ok[i] for i in chosen),
    )
    duration = record.scalars.get("duration") or 0.0
    return record.model_copy(
        update={"requests": requests, "scalars": {**record.scalars, "duration": duration * factor}}
    )
