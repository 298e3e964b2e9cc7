"""A/A and A/B: whether the comparison finds what is there, and nothing else.

A thousand pairs of five fresh servers a side are too many to run. They are resampled from recorded
stages: a server is the requests of recorded stages drawn anew. Each server has its own speed in
prefill and in decoding, alike but not equal, and each load point differs once more; arm B takes 5 %
longer for everything. A pair has one to six load points, thus 5 to 30 questions. Every such server
goes through the real judge, every pair through the real comparison. Some pairs are run for real.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from benchrun.api import DEFAULT_METRICS, BenchmarkRunSpec, Result
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.compare import Compared
from benchrun.judge.results import results
from benchrun.plan import load_points
from benchrun_client.contract import RequestColumns, StageRecord

from truth_kit import product
from truth_kit.lab import Experiment, Outcome
from truth_kit.mistakes import users
from truth_kit.spread import spread

SERVER_DEVIATION = 0.015
POINT_DEVIATION = 0.005
"""Relative deviation of a load point's speed from the server's others; SERVER_DEVIATION is that of
a server's speed."""
CORRELATION = 0.6
"""Correlation of a server's speeds in prefill and decoding."""
EFFECT = 0.05
SERVERS_A_SIDE = 5
POINTS = (1, 2, 4, 6)
POOL = 60
"""Number of servers of an arm that are made from one record."""
TTFT_MS = 40.0
TPOT_MS = 12.0
BLOCK = 8
"""Number of real servers that are split together: four a side."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Shares of all pairs, in percent."""

    aa_different: float
    ab_found: float


@dataclass(frozen=True, slots=True)
class _Task:
    spec: str
    """Spec as JSON, because models that derive from the contract's cannot be pickled."""
    records: Sequence[StageRecord]
    pairs: int
    seed: int


def resampled(outcomes: Sequence[Outcome], *, pairs: int) -> Shares:
    """Compare so many resampled A/A pairs and A/B pairs, and return the shares found different."""
    # The servers of a pair come from one record: what differs between records would be noise beyond
    # the 1.5 %.
    each = -(-pairs // len(outcomes))
    tasks = [
        _Task(_json(outcome.spec), outcome.records, each, seed)
        for seed, outcome in enumerate(outcomes)
    ]
    found = list(spread(_resampled, tasks))
    different, worse = (
        100 * sum(column) / (each * len(outcomes))
        for column in zip(*found, strict=True)
    )
    return Shares(different, worse)


def _resampled(task: _Task) -> tuple[int, int]:
    """Return how many pairs of one arm are called different, and of both arms called worse."""
    random = Random(task.seed)
    spec = BenchmarkRunSpec.model_validate_json(task.spec)
    arm_a, arm_b = (
        [_server(spec, task.records, random, effect=effect) for _ in range(POOL)]
        for effect in (0.0, EFFECT)
    )
    different = found = 0
    for number in range(task.pairs):
        points = POINTS[number % len(POINTS)]
        chosen = _first(points, random.sample(arm_a, 2 * SERVERS_A_SIDE), name="a")
        slower = _first(points, random.sample(arm_b, SERVERS_A_SIDE), name="b")
        same = compared(chosen[:SERVERS_A_SIDE], chosen[SERVERS_A_SIDE:])
        different += same.outcome in ("Better", "Worse", "Mixed")
        found += compared(chosen[:SERVERS_A_SIDE], slower).outcome == "Worse"
    return different, found


def _first(
    points: int, servers: Sequence[Sequence[Result]], *, name: str
) -> list[MeasuredRun]:
    return [
        product.run_of_rows(f"{name}-{number}", rows[:points])
        for number, rows in enumerate(servers)
    ]


def compared(
    baseline: Sequence[MeasuredRun], candidate: Sequence[MeasuredRun]
) -> Compared:
    """Compare two groups of servers over the default metrics.

    Raises ValueError when they are not comparable.
    """
    return product.compared(baseline, candidate, DEFAULT_METRICS)


def _json(spec: BenchmarkRunSpec) -> str:
    return spec.model_dump_json(by_alias=True, exclude_unset=True)


def _server(
    spec: BenchmarkRunSpec,
    stages: Sequence[StageRecord],
    random: Random,
    *,
    effect: float,
) -> list[Result]:
    common = random.gauss(0.0, math.sqrt(CORRELATION))
    speeds = [
        SERVER_DEVIATION * (common + random.gauss(0.0, math.sqrt(1 - CORRELATION)))
        for _ in range(2)
    ]
    rows = []
    for number in range(max(POINTS)):
        point = random.gauss(0.0, POINT_DEVIATION)
        prefill, decoding = (
            math.exp(speed + point) * (1 + effect) for speed in speeds
        )
        records = [
            _stretched(record, prefill, decoding, random) for record in stages
        ]
        (row,) = results(
            load_points(spec),
            records,
            [],
            spec=spec,
            servers=[product.NEVER_COMPILED],
        ).results
        rows.append(
            row.model_copy(
                update={
                    "load_point": f"w/rate={number + 1}",
                    "workload": "w",
                    "axis": "RequestRate",
                    "value": str(number + 1),
                }
            )
        )
    return rows


def real_arms(servers: int) -> Iterator[Experiment]:
    """Yield experiments for so many fresh servers of each arm.

    The arms take turns, so that neither has the machine's better hour.
    """
    for number in range(servers):
        for arm, factor in (("A", 1.0), ("B", 1.0 + EFFECT)):
            flags = (
                f"--sim-ttft-ms={TTFT_MS * factor}",
                f"--sim-tpot-ms={TPOT_MS * factor}",
                "--sim-jitter-ms=1",
            )
            yield Experiment(
                name=f"{arm}{number}",
                workloads=[users(4, 140)],
                servers=((*flags, f"--seed={number}"),),
                measurement={"warmup": {"auto": {}}},
                client_ahead=True,
                servers_ahead=True,
            )


def real_vllm(servers: int) -> Iterator[Experiment]:
    """Yield experiments for so many equal fresh servers of real vLLM on CPUs."""
    for number in range(servers):
        yield Experiment(
            name=f"vLLM {number}",
            workloads=[users(4, 240)],
            real_servers=True,
            measurement={"warmup": {"auto": {}}},
        )


def halves() -> Iterator[tuple[Sequence[int], Sequence[int]]]:
    """Yield the ways to halve a block so that any two have half of each side in common.

    They are the rows of a Hadamard matrix (J. J. Sylvester, 1867). Differences between the halves
    of equal servers are then uncorrelated; there are not more such ways. Neighbours in time are on
    one side in some and on both in others.
    """
    for row in range(1, BLOCK):
        sides = [(row & number).bit_count() % 2 for number in range(BLOCK)]
        first, second = (
            [n for n, side in enumerate(sides) if side == of] for of in (0, 1)
        )
        yield first, second


def words_of_halves(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the comparison's outcomes for the halves of equal servers.

    They come block by block in the order in which the servers ran.
    """
    runs = [
        product.run_of_rows(f"server-{n}", each.judged.results, spec=each.spec)
        for n, each in enumerate(outcomes)
    ]
    blocks = (runs[at : at + BLOCK] for at in range(0, len(runs), BLOCK))
    return [
        compared([block[n] for n in first], [block[n] for n in second]).outcome
        for block in blocks
        for first, second in halves()
    ]


def real_words(
    arm_a: Sequence[Outcome], arm_b: Sequence[Outcome]
) -> dict[str, str]:
    """Return the comparison's outcomes for servers that were really run, half an arm to a side.

    "ab" compares one arm with the other (twice; "Mixed" when the two outcomes differ), "aa" and
    "bb" each arm with itself.
    """
    a, b = (
        [
            product.run_of_rows(f"{arm}{n}", each.judged.results, spec=each.spec)
            for n, each in enumerate(outcomes)
        ]
        for arm, outcomes in (("a", arm_a), ("b", arm_b))
    )
    half = len(a) // 2
    words = {
        compared(a[:half], b[:half]).outcome,
        compared(a[half:], b[half:]).outcome,
    }
    return {
        "ab": words.pop() if len(words) == 1 else "Mixed",
        "aa": compared(a[:half], a[half:]).outcome,
        "bb": compared(b[:half], b[half:]).outcome,
    }


def _stretched(
    record: StageRecord, prefill: float, decoding: float, random: Random
) -> StageRecord:
    """Draw the stage's requests anew, with repetition, at a slower or faster server.

    It takes `prefill` times as long until the first token, and `decoding` times as long after it.
    """
    columns = record.requests
    count = len(columns.ok)
    chosen = [random.randrange(count) for _ in range(count)]
    ttft = [round(columns.ttft_us[i] * prefill) for i in chosen]
    e2el = [
        first + round((columns.e2el_us[i] - columns.ttft_us[i]) * decoding)
        for first, i in zip(ttft, chosen, strict=True)
    ]
    slower = sum(e2el) / max(1, sum(columns.e2el_us[i] for i in chosen))
    drawn = {
        name: tuple(column[i] for i in chosen) for name, column in columns if column
    }
    drawn |= {
        "start_us": tuple(round(us * slower) for us in columns.start_us),
        "ttft_us": tuple(ttft),
        "e2el_us": tuple(e2el),
    }
    duration = record.scalars.get("duration") or 0.0
    return record.model_copy(
        update={
            "requests": RequestColumns(**drawn),
            "scalars": {**record.scalars, "duration": duration * slower},
        }
    )
