"""Searches on simulated queues whose highest load is known.

They show how often the load found lies above it, and how far below. The search is the client's own,
stage for stage. Only the server is simulated: first come, first served, with Poisson arrivals and k
places. The limit is the percentile of the response time (E2EL) at the load that is to be found: in
closed form for M/M/k, from a simulation of a million requests for M/G/k. A stage begins with an
empty server, as real ones do.
"""

import math
import os
import random
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from heapq import heapreplace
from statistics import fmean, median
from typing import Literal, NamedTuple

from _records import columns
from benchrun_client.contract import (
    Limit,
    RateLoad,
    RequestColumns,
    SearchPlan,
    UsersLoad,
    most_search_stages,
    spelled,
)
from benchrun_client.contract.datasets import RandomData
from benchrun_client.search.bisection import Position, after, first, outcome_of
from benchrun_client.search.load_results import LoadResult, result_of

from truth_kit import batching

SERVICE_MS = 1000.0
LONG_RUN = 1_000_000
TOLERANCE_PERCENT = 5


@dataclass(frozen=True, slots=True)
class Case:
    """A queue, the utilisation up to which it keeps its limit, and the stages of the search."""

    servers: int
    # Spread of the logarithm of service times; None: they are exponential.
    sigma: float | None
    rho: float
    percentile: float
    requests: int  # Number of requests per stage.
    limit_ms: int
    kind: Literal["queue", "batching", "constant", "users"] = "queue"
    """Server and its limit: a queue with a limit on E2EL, or a server with continuous batching, or
    with nearly constant answers at a rate or with users; the latter have a limit on TTFT."""
    drift_percent: float = 0.0
    """Percent by which the server takes longer for a request from each stage to the next; below 0:
    it gets faster."""

    @property
    def truth(self) -> float:
        """Return the requests a second, or users, up to which the limit is kept.

        This is true of the server before any drift.
        """
        if self.kind == "batching":
            return self.rho * batching.CAPACITY
        if self.kind == "users":
            return float(self.servers)
        return self.rho * self.servers / SERVICE_MS * 1000

    def slower(self, stages: int) -> float:
        """Return how many times longer the server takes after so many stages."""
        return (1 + self.drift_percent / 100) ** stages

    def truth_at(self, stages: int) -> float:
        """Return the requests a second up to which the limit is kept after so many stages.

        Servers that drift are M/M/k; others keep their truth.
        """
        slower = self.slower(stages)
        if slower == 1 or self.kind != "queue":
            return self.truth
        late = 1 - self.percentile / 100
        limit = self.limit_ms / SERVICE_MS / slower
        low = 0.0
        high = 1.0
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (
                (middle, high)
                if share_beyond(self.servers, middle, limit) <= late
                else (low, middle)
            )
        return low * self.servers / slower / SERVICE_MS * 1000


class Shares(NamedTuple):
    """The results of many searches."""

    searches: int
    above_truth_percent: float
    none_found_percent: float
    median_below_percent: float
    """Percent by which the median load found is below the truth; a search that finds none counts as
    0."""
    mean_stages: float


def simulated(
    case: Case,
    rate: float,
    requests: int,
    chance: random.Random,
    *,
    scatter: float | None = None,
) -> tuple[list[float], list[float]]:
    """Simulate a stage at this rate (requests a second).

    Return when each request began and when it ended, in milliseconds. With `scatter`, service times
    are nearly constant: normal with this relative deviation.
    """
    mean_log = -(case.sigma**2) / 2 if case.sigma is not None else 0.0
    free = [0.0] * case.servers
    now = 0.0
    begins = []
    ends = []
    for _ in range(requests):
        now += chance.expovariate(rate / 1000)
        if scatter is not None:
            service = chance.gauss(1.0, scatter)
        elif case.sigma is None:
            service = chance.expovariate(1.0)
        else:
            service = chance.lognormvariate(mean_log, case.sigma)
        end = max(now, free[0]) + SERVICE_MS * service
        heapreplace(free, end)
        begins.append(now)
        ends.append(end)
    return begins, ends


def share_beyond(servers: int, rho: float, t: float) -> float:
    """Return the share of M/M/k's responses that take longer than `t` mean service times.

    By L. Kleinrock (Queueing Systems I, 1975) the share that waits is A. K. Erlang's formula C; it
    waits for an exponential time, before an exponential service.
    """
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


def limit_at(
    servers: int, sigma: float | None, rho: float, percentile: float
) -> int:
    """Return the percentile of the response time at this utilisation, in milliseconds."""
    if sigma is None:
        low = 0.0
        high = 1000.0
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
        for begin, end in zip(
            *simulated(case, case.truth, LONG_RUN, random.Random(0)), strict=True
        )
    )
    return round(times[math.ceil(percentile / 100 * LONG_RUN) - 1])


def case_of(
    servers: int, sigma: float | None, rho: float, percentile: float, requests: int
) -> Case:
    """Build a case with its limit."""
    return Case(
        servers,
        sigma,
        rho,
        percentile,
        requests,
        limit_at(servers, sigma, rho, percentile),
    )


def search_of(case: Case, *, max_repeats: int = 6) -> SearchPlan:
    """Build the search of a case, from a tenth of the truth (users: from 1) to four times it."""
    probes = 16
    metric: Literal["E2EL", "TTFT"] = "E2EL" if case.kind == "queue" else "TTFT"
    is_of_users = case.kind == "users"
    limit = Limit(
        metric=metric,
        percentile=f"{case.percentile:g}",
        max_milliseconds=case.limit_ms,
    )
    blank: dict[str, object] = {
        "workload": "queue",
        "lowest": UsersLoad(concurrency=1)
        if is_of_users
        else RateLoad(requests_per_second=spelled(f"{case.truth / 10:.4g}")),
        "highest": spelled(f"{case.truth * 4:.4g}"),
        "tolerance_percent": str(TOLERANCE_PERCENT),
        "max_probes": probes,
        "max_repeats": max_repeats,
        "objectives": (limit,),
        "max_failed_percent": "1",
        "data": RandomData(input_tokens=1, output_tokens=1),
        "requests": case.requests,
    }
    return SearchPlan.model_validate(
        blank | {"seeds": (0,) * most_search_stages(probes, max_repeats)}
    )


Row = tuple[float, float, float]
"""Instant at which a request was sent, its TTFT and its E2EL, in milliseconds."""


def stage(
    case: Case, load: float, slower: float, chance: random.Random
) -> list[Row]:
    """Simulate a stage at a load, in requests a second or users, that begins with an empty server.

    A slower server is the same one with time stretched.
    """
    if case.kind == "batching":
        server = batching.Server(case.requests, chance, rate=load)
        return [
            (each.sent, each.ttft, each.e2el) for each in server.served().answers
        ]
    if case.kind == "users":
        return _users(case, int(load), chance)
    scatter = CONSTANT_SCATTER if case.kind == "constant" else None
    begins, ends = simulated(
        case, slower * load, case.requests, chance, scatter=scatter
    )
    # The first token comes after a fifth of a nearly constant answer.
    late = 0.8 * SERVICE_MS if case.kind == "constant" else 0.0
    rows = zip(begins, ends, strict=True)
    return [
        (slower * a, slower * (b - a - late), slower * (b - a)) for a, b in rows
    ]


CONSTANT_SCATTER = 0.02


def _users(case: Case, users: int, chance: random.Random) -> list[Row]:
    """Simulate the requests of users who begin spread over a round."""
    free = [0.0] * case.servers
    ready = [SERVICE_MS * number / users for number in range(users)]
    rows = []
    for _ in range(case.requests):
        sent = ready[0]
        served = SERVICE_MS * chance.gauss(1.0, CONSTANT_SCATTER)
        begun = max(sent, free[0])
        heapreplace(free, begun + served)
        heapreplace(ready, begun + served)
        rows.append((sent, begun - sent + 0.2 * SERVICE_MS, begun - sent + served))
    return rows


def requests_of(rows: list[Row]) -> RequestColumns:
    """Build the columns of a record, in order of sending."""
    rows = sorted(rows)
    first = rows[0][0]
    return columns(
        [round(1000 * (sent - first)) for sent, _, _ in rows],
        [round(1000 * max(ttft, 0.0)) for _, ttft, _ in rows],
        [round(1000 * e2el) for _, _, e2el in rows],
        tokens=(1, 2),
    )


class Found(NamedTuple):
    """The end of one search: the load found, or None, and the stages it took."""

    load: float | None
    stages: int


def one_search(case: Case, seed: int) -> Found:
    """Search once, from the first stage to the last."""
    search = search_of(case)
    stages = 0
    here: Position | None = first(search)
    results: list[LoadResult] = []
    while here is not None:
        chance = random.Random(f"{case}/{seed}/{here.number}/{here.repeat}")
        rows = stage(case, float(here.value), case.slower(stages), chance)
        results = results if here.repeat > 1 else []
        results.append(
            result_of(search.load_at(here.value), search.metrics, requests_of(rows))
        )
        stages += 1
        outcome = outcome_of(search, here, results)
        if here.confirmation and outcome == "Met":
            return Found(float(here.value), stages)
        here = after(search, here, outcome)
    return Found(None, stages)


def other_case(
    kind: Literal["batching", "constant", "users"],
    servers: int,
    rho: float,
    percentile: float,
    requests: int,
) -> Case:
    """Build a case of another kind of server, with its limit.

    The limit is the percentile of TTFT at the load that is to be found, from a long stage; for
    users it is one that the first user who has to wait breaks.
    """
    case = Case(servers, None, rho, percentile, requests, 0, kind=kind)
    if kind == "users":
        return replace(case, limit_ms=round(0.26 * SERVICE_MS))
    long = replace(case, requests=LONG_RUN // 4)
    rows = stage(long, case.truth, 1.0, random.Random(0))
    times = sorted(ttft for _, ttft, _ in rows[len(rows) // 20 :])
    return replace(
        case, limit_ms=round(times[math.ceil(percentile / 100 * len(times)) - 1])
    )


OTHERS: tuple[
    tuple[Literal["batching", "constant", "users"], int, float, float, int], ...
] = (
    ("batching", 1, 0.7, 90.0, 6000),
    ("batching", 1, 0.6, 50.0, 4000),
    ("constant", 8, 0.85, 90.0, 4000),
    ("users", 8, 1.0, 90.0, 300),
)
"""Kind, servers, utilisation, percentile and requests of a stage."""
CASES = (
    (1, None, 0.6, 90.0, 4000),
    (1, None, 0.7, 50.0, 4000),
    (8, None, 0.9, 95.0, 6000),
    (32, 0.5, 0.95, 95.0, 6000),
)
"""Servers, spread of service times, utilisation, percentile and requests of a stage."""
DRIFTS_PERCENT = (-1.0, 0.5)
"""Drift per stage. Over a search of twenty stages a server gets faster by a fifth, like one that
warms up, or slower by a tenth."""
DRIFTING = ((1, None, 0.7, 50.0, 2000), (8, None, 0.9, 95.0, 6000))
"""Cases of a drifting server; the fields are those of `CASES`."""


def simulated_searches(
    count: int = 200, *, others: int = 100, drifting: int = 40
) -> dict[str, Shares]:
    """Run so many searches on all cores, and return their shares by group.

    The groups are queues, other servers, and servers that drift; the searches of each are shared
    out evenly over its cases.
    """
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        still = list(pool.map(case_of, *zip(*DRIFTING, strict=True)))
        groups = {
            "": (list(pool.map(case_of, *zip(*CASES, strict=True))), count),
            "others_": (
                list(pool.map(other_case, *zip(*OTHERS, strict=True))),
                others,
            ),
            "drifting_": (
                [
                    replace(case, drift_percent=each)
                    for case in still
                    for each in DRIFTS_PERCENT
                ],
                drifting,
            ),
        }
        running = {
            name: [
                (
                    case,
                    pool.map(
                        partial(one_search, case),
                        range(searches // len(some)),
                        chunksize=5,
                    ),
                )
                for case in some
            ]
            for name, (some, searches) in groups.items()
        }
        return {
            name: shares([(case, each) for case, found in some for each in found])
            for name, some in running.items()
        }


def shares(ends: list[tuple[Case, Found]]) -> Shares:
    """Sum up these searches together."""
    # The confirmation is the last stage: the load found is compared with the server at that time.
    ratios = [
        found.load / case.truth_at(found.stages - 1) if found.load else 0.0
        for case, found in ends
    ]
    return Shares(
        searches=len(ends),
        above_truth_percent=100
        * sum(ratio > 1 + 1e-9 for ratio in ratios)
        / len(ends),
        none_found_percent=100
        * sum(found.load is None for _, found in ends)
        / len(ends),
        median_below_percent=100 * (1 - median(ratios)),
        mean_stages=fmean(found.stages for _, found in ends),
    )
