"""Searches on simulated queues whose highest load is known: how often the load found lies above it,
and how far below.

The search is the client's own, stage for stage. Only the server is simulated: first come, first
served, with Poisson arrivals and k places. The limit is the percentile of the response time (E2EL)
at the load that is to be found: in closed form for M/M/k, from a simulation of a million requests
for M/G/k. A stage begins with an empty server, as real ones do."""

import math
import os
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from heapq import heapreplace
from statistics import median
from typing import NamedTuple

from benchrun_client.contract import Limit, RandomData, Search, stage_parts
from benchrun_client.search.bisection import LoadResult, Position, after, first, outcome_of, spelled

SERVICE_MS = 1000.0
LONG_RUN = 1_000_000
TOLERANCE_PERCENT = 5


@dataclass(frozen=True, slots=True)
class Case:
    """A queue, the utilisation up to which it keeps its limit, and the stages of the search."""

    servers: int
    sigma: float | None  # Of log service times; None: they are exponential.
    rho: float
    percentile: float
    requests: int  # Of each stage.
    limit_ms: int
    drift_percent: float = 0.0
    """From each stage to the next the server takes so much longer for a request; below 0: it gets
    faster."""

    @property
    def truth(self) -> float:
        """Requests a second up to which the limit is kept by the server as it is at first."""
        return self.rho * self.servers / SERVICE_MS * 1000

    def slower(self, stages: int) -> float:
        """How many times longer the server takes after so many stages."""
        return (1 + self.drift_percent / 100) ** stages

    def truth_at(self, stages: int) -> float:
        """Requests a second up to which the limit is kept by the server as it is after so many
        stages; drifting ones are M/M/k."""
        slower = self.slower(stages)
        if slower == 1:
            return self.truth
        late, limit = 1 - self.percentile / 100, self.limit_ms / SERVICE_MS / slower
        low, high = 0.0, 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if share_beyond(self.servers, middle, limit) <= late
                else (low, middle)
            )
        return low * self.servers / slower / SERVICE_MS * 1000


class Shares(NamedTuple):
    """What came of many searches."""

    searches: int
    above_truth_percent: float
    none_found_percent: float
    median_below_percent: float
    """How far the median load found is below the truth; where none was found it counts as 0."""
    median_stages: float


def simulated(
    case: Case, rate: float, requests: int, chance: random.Random
) -> tuple[list[float], list[float]]:
    """When each request of a stage at this rate (requests a second) began and ended, in
    milliseconds."""
    mean_log = -(case.sigma**2) / 2 if case.sigma is not None else 0.0
    free, now = [0.0] * case.servers, 0.0
    begins, ends = [], []
    for _ in range(requests):
        now += chance.expovariate(rate / 1000)
        service = (
            chance.expovariate(1.0)
            if case.sigma is None
            else chance.lognormvariate(mean_log, case.sigma)
        )
        end = max(now, free[0]) + SERVICE_MS * service
        heapreplace(free, end)
        begins.append(now)
        ends.append(end)
    return begins, ends


def share_beyond(servers: int, rho: float, t: float) -> float:
    """The share of M/M/k's responses that take longer than `t` mean service times (L. Kleinrock,
    Queueing Systems I, 1975): so many wait (A. K. Erlang's formula C), for an exponential time,
    before an exponential service."""
    load = rho * servers
    term = total = 1.0
    for n in range(1, servers):
        term *= load / n
        total += term
    waiting = term * load / servers / (1 - rho)
    waiting /= total + waiting
    rate = servers - load
    both = (
        t * math.exp(-t)
        if abs(rate - 1) < 1e-9
        else (math.exp(-t) - math.exp(-rate * t)) / (rate - 1)
    )
    return math.exp(-t) + waiting * both


def limit_at(servers: int, sigma: float | None, rho: float, percentile: float) -> int:
    """The percentile of the response time at this utilisation, in milliseconds."""
    if sigma is None:
        low, high = 0.0, 1000.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if share_beyond(servers, rho, middle) > 1 - percentile / 100
                else (low, middle)
            )
        return round(SERVICE_MS * high)
    case = Case(servers, sigma, rho, percentile, LONG_RUN, 0)
    times = sorted(
        end - begin
        for begin, end in zip(*simulated(case, case.truth, LONG_RUN, random.Random(0)), strict=True)
    )
    return round(times[math.ceil(percentile / 100 * LONG_RUN) - 1])


def case_of(
    servers: int, sigma: float | None, rho: float, percentile: float, requests: int
) -> Case:
    """A case with its limit."""
    return Case(
        servers, sigma, rho, percentile, requests, limit_at(servers, sigma, rho, percentile)
    )


def search_of(case: Case, *, max_repeats: int = 3) -> Search:
    """From a tenth of the truth to four times it."""
    probes = 16
    limit = Limit(metric="E2EL", percentile=f"{case.percentile:g}", max_milliseconds=case.limit_ms)
    blank: dict[str, object] = {
        "workload": "queue",
        "axis": "rate",
        "lowest": spelled(Decimal(f"{case.truth / 10:.4g}")),
        "highest": spelled(Decimal(f"{case.truth * 4:.4g}")),
        "tolerance_percent": str(TOLERANCE_PERCENT),
        "max_probes": probes,
        "max_repeats": max_repeats,
        "objectives": (limit,),
        "max_failed_percent": "1",
        "data": RandomData(input_tokens=1, output_tokens=1),
        "requests": case.requests,
    }
    return Search.model_validate(blank | {"seeds": (0,) * ((probes + 3) * max_repeats)})


class Found(NamedTuple):
    """What one search ended with."""

    load: float | None
    stages: int


def one_search(case: Case, seed: int) -> Found:
    """Search once, from the first stage to the last."""
    search, stages = search_of(case), 0
    here: Position | None = first(search)
    results: list[LoadResult] = []
    while here is not None:
        chance = random.Random(f"{case}/{seed}/{here.number}/{here.repeat}")
        # A slower server is the same one with time stretched.
        slower = case.slower(stages)
        begins, ends = (
            [slower * at for at in instants]
            for instants in simulated(case, slower * float(here.value), case.requests, chance)
        )
        times = [1000 * (end - begin) for begin, end in zip(begins, ends, strict=True)]
        results = results if here.repeat > 1 else []
        results.append(LoadResult(0, stage_parts(begins, ends), {"E2EL": times}))
        stages += 1
        outcome = outcome_of(search, here, results)
        if here.confirmation and outcome == "Met":
            return Found(float(here.value), stages)
        here = after(search, here, outcome)
    return Found(None, stages)


CASES = (
    (1, None, 0.6, 90.0, 4000),
    (1, None, 0.7, 50.0, 4000),
    (8, None, 0.9, 95.0, 6000),
    (32, 0.5, 0.95, 95.0, 6000),
)
"""Servers, spread of service times, utilisation, percentile, requests a stage."""
DRIFTS_PERCENT = (-1.0, 0.5)
"""Of a stage: over a search of twenty a server that gets faster by a fifth, as one that warms up,
or slower by a tenth."""
DRIFTING = ((1, None, 0.7, 50.0, 2000), (8, None, 0.9, 95.0, 6000))
"""Of the cases those that drift."""


def simulated_searches(count: int = 200, *, drifting: int = 40) -> tuple[Shares, Shares]:
    """So many searches, shared out evenly over the cases, on all cores; and those whose server
    drifts."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        cases = list(pool.map(case_of, *zip(*CASES, strict=True)))
        still = list(pool.map(case_of, *zip(*DRIFTING, strict=True)))
        drift = [
            replace(case, drift_percent=percent) for case in still for percent in DRIFTS_PERCENT
        ]
        of_cases = [
            [
                (
                    case,
                    pool.map(partial(one_search, case), range(searches // len(some)), chunksize=5),
                )
                for case in some
            ]
            for some, searches in ((cases, count), (drift, drifting))
        ]
        steady, drifted = (
            shares([(case, each) for case, found in some for each in found]) for some in of_cases
        )
    return steady, drifted


def shares(ends: list[tuple[Case, Found]]) -> Shares:
    """Of these searches together."""
    # The confirmation is the last stage: the load found is held against the server as it is then.
    ratios = [
        found.load / case.truth_at(found.stages - 1) if found.load else 0.0 for case, found in ends
    ]
    return Shares(
        searches=len(ends),
        above_truth_percent=100 * sum(ratio > 1 for ratio in ratios) / len(ends),
        none_found_percent=100 * sum(found.load is None for _, found in ends) / len(ends),
        median_below_percent=100 * (1 - median(ratios)),
        median_stages=median(found.stages for _, found in ends),
    )
