"""Loads without a mistake, of many kinds: what the judge must keep silent about."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import cycle, islice

from truth_kit.lab import Experiment
from truth_kit.mistakes import open_loop, users

STAGE_SECONDS = 11.5
CELLS_A_RUN = 5
REPEATS = 5
_TTFTS_MS, _TPOTS_MS, _JITTERS_MS = (8, 20, 60, 150), (4, 8, 15), (0, 1, 2)
_RATES, _USERS, _TOKENS = ("4", "10", "25", "40"), (1, 4, 12, 24), (8, 24, 48)


def clean_runs(stages: int, *, seed: int = 1) -> Iterator[Experiment]:
    """Runs with so many stages in all: five load points five times each, on servers of different speed."""
    draw = random.Random(seed)
    for number in range(-(-stages // (CELLS_A_RUN * REPEATS))):
        ttft, tpot, jitter = draw.choice(_TTFTS_MS), draw.choice(_TPOTS_MS), draw.choice(_JITTERS_MS)
        kinds = islice(cycle(("open", "users")), number % 2, number % 2 + CELLS_A_RUN)
        workloads = []
        for position, kind in enumerate(kinds):
            tokens = draw.choice(_TOKENS)
            if kind == "open":
                workload = open_loop(draw.choice(_RATES), STAGE_SECONDS, tokens=tokens)
            else:
                count = draw.choice(_USERS)
                seconds_a_request = (ttft + tpot * tokens + 3) / 1000
                workload = users(count, max(10 * count, int(count * STAGE_SECONDS / seconds_a_request)), tokens=tokens)
            workloads.append({**workload, "name": f"w{position}"})
        flags = (f"--sim-ttft-ms={ttft}", f"--sim-tpot-ms={tpot}", f"--sim-jitter-ms={jitter}", f"--seed={number}")
        yield Experiment(
            name=f"clean-{number} ttft={ttft} tpot={tpot} jitter={jitter}",
            workloads=workloads,
            servers=(flags,),
            repeats=REPEATS,
            measurement={"warmup": {"auto": {}}, "seed": number},
        )
