"""Loads without a mistake, of many kinds, on which the judge must keep silent."""

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, cycle, islice
from typing import Any

from truth_kit.lab import Experiment
from truth_kit.mistakes import open_loop, users

STAGE_SECONDS = 10.5
LOAD_POINTS_A_RUN = 5
REPEATS = 3
QUEUE_REPEATS = 2
_TTFTS_MS = (8, 20, 60, 150)
_TPOTS_MS = (4, 8, 15)
_JITTERS_MS = (0, 1, 2)
_RATES = ("4", "10", "20", "30")
_USERS = (1, 4, 12, 24)
_TOKENS = (8, 24, 48)
MOST_REQUESTS_A_SECOND = 36
MOST_TOKENS_A_SECOND = 1200
"""Most tokens a second of a load point: five clients and their servers share two cores. The ramp of
`capacity` shows what one client carries with a core to itself."""

QUEUE_LOADS: Mapping[float, float] = {
    0.5: 12.0,
    0.7: 12.0,
    0.8: 12.0,
    0.9: 20.0,
    0.95: 30.0,
}
"""Load as a share of capacity -> duration of its stages in seconds: several relaxation times of the
queue."""
_LENGTHS = ((32, 4, 5), (64, 12, 3), (256, 40, 1))
"""Prompt tokens, output tokens, and the number of such requests out of nine: lengths vary by more
than their mean."""
_SLOTS = (3, 4)
_QUEUE_TTFT_MS = 50
_QUEUE_TPOT_MS = 6
_PER_RUNNING_US = 200
_PREFILL_US = 100


def clean_runs(stages: int, *, seed: int = 1) -> Iterator[Experiment]:
    """Yield runs with so many stages in all, two without queues and then one with."""
    plain = _plain_runs(random.Random(seed))
    queues = _queueing_runs(random.Random(seed))
    runs = chain.from_iterable(
        (next(plain), next(plain), next(queues)) for _ in cycle("-")
    )
    while stages > 0:
        run = next(runs)
        stages -= clean_stages(run)
        yield run


def clean_stages(run: Experiment) -> int:
    """Return the number of stages of a run."""
    return LOAD_POINTS_A_RUN * run.repeats


def _plain_runs(draw: random.Random) -> Iterator[Experiment]:
    """Yield runs of five load points, on servers of different speed that are never full."""
    for number in cycle(range(1000)):
        ttft = draw.choice(_TTFTS_MS)
        tpot = draw.choice(_TPOTS_MS)
        jitter = draw.choice(_JITTERS_MS)
        kinds = islice(
            cycle(("open", "users")), number % 2, number % 2 + LOAD_POINTS_A_RUN
        )
        workloads = []
        for position, kind in enumerate(kinds):
            tokens = draw.choice(_TOKENS)
            if kind == "open":
                rates = [
                    rate
                    for rate in _RATES
                    if int(rate) * tokens <= MOST_TOKENS_A_SECOND
                ]
                workload = open_loop(
                    draw.choice(rates), STAGE_SECONDS, tokens=tokens
                )
            else:
                seconds_a_request = (ttft + tpot * (tokens - 1)) / 1000
                most = seconds_a_request * min(
                    MOST_REQUESTS_A_SECOND, MOST_TOKENS_A_SECOND / tokens
                )
                drawn = draw.choice(_USERS)
                count = max(
                    fewer for fewer in _USERS if fewer <= min(drawn, max(most, 1))
                )
                workload = users(
                    count,
                    max(10 * count, int(count * STAGE_SECONDS / seconds_a_request)),
                    tokens=tokens,
                )
            workloads.append({**workload, "name": f"w{position}"})
        flags = (
            f"--sim-ttft-ms={ttft}",
            f"--sim-tpot-ms={tpot}",
            f"--sim-jitter-ms={jitter}",
            f"--seed={number}",
        )
        name = f"clean-{number} ttft={ttft} tpot={tpot} jitter={jitter}"
        yield _run(
            name,
            workloads,
            flags,
            number,
            REPEATS,
            STAGE_SECONDS * LOAD_POINTS_A_RUN,
        )


def _queueing_runs(draw: random.Random) -> Iterator[Experiment]:
    """Yield runs on servers that are full much of the time.

    Requests wait for a slot, tokens take longer the more requests run, and lengths vary.
    """
    parts: list[Mapping[str, Any]] = [
        {
            "name": f"part{n}",
            "dataset": {"random": {"inputTokens": prompt, "outputTokens": tokens}},
        }
        for n, (prompt, tokens, _) in enumerate(_LENGTHS)
    ]
    mix = {
        "mix": [
            {"workload": f"part{n}", "weight": weight}
            for n, (_, _, weight) in enumerate(_LENGTHS)
        ]
    }
    for number in cycle(range(1000)):
        slots = draw.choice(_SLOTS)
        workloads = [
            {
                **open_loop(f"{load * _capacity(slots):.2f}", seconds, dataset=mix),
                "name": f"w{100 * load:.0f}",
            }
            for load, seconds in QUEUE_LOADS.items()
        ]
        flags = (
            *(
                f"--sim-ttft-ms={_QUEUE_TTFT_MS}",
                f"--sim-tpot-ms={_QUEUE_TPOT_MS}",
                f"--max-num-seqs={slots}",
            ),
            *(
                f"--sim-tpot-us-per-running={_PER_RUNNING_US}",
                f"--sim-prefill-us-per-token={_PREFILL_US}",
            ),
        )
        seconds = sum(QUEUE_LOADS.values())
        yield _run(
            f"queue-{number} slots={slots}",
            [*parts, *workloads],
            flags,
            number,
            QUEUE_REPEATS,
            seconds,
        )


def _capacity(slots: int) -> float:
    """Return the requests a second that a full server answers."""
    total = sum(weight for _, _, weight in _LENGTHS)
    a_token_ms = _QUEUE_TPOT_MS + _PER_RUNNING_US * slots / 1000
    mean_ms = sum(
        weight
        * (_QUEUE_TTFT_MS + prompt * _PREFILL_US / 1000 + (tokens - 1) * a_token_ms)
        / total
        for prompt, tokens, weight in _LENGTHS
    )
    return 1000 * slots / mean_ms


def _run(
    name: str,
    workloads: Sequence[Mapping[str, Any]],
    flags: Sequence[str],
    seed: int,
    repeats: int,
    seconds_a_repeat: float,
) -> Experiment:
    measurement = {"warmup": {"auto": {}}, "seed": seed}
    return Experiment(
        name=name,
        workloads=workloads,
        servers=(tuple(flags),),
        repeats=repeats,
        about_seconds=repeats * seconds_a_repeat,
        measurement=measurement,
        # Otherwise they would wait for a core, which is a mistake that `doses` injects.
        client_ahead=True,
        servers_ahead=True,
    )
