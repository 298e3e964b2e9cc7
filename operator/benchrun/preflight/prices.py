"""What deciding would take, as far as a spec tells it before anything is measured."""

import math
from collections.abc import Iterable

from benchrun_client.contract import (
    MIN_REPEATS,
    Load,
    least_count,
    requests_to_bound,
)

from benchrun.api import BenchmarkRunSpec, Price, Workload
from benchrun.measure import detectable_percent
from benchrun.plan import estimate, gpus

MAX_VALUES = (
    100  # As many repeats as a spec may have; more servers are not told either.
)


def percentile_price(
    spec: BenchmarkRunSpec, workload: Workload, percentile: str, *, is_same: bool
) -> Price | None:
    """Return what bounds a percentile at the load point of a workload where it takes most.

    `is_same`: repeats send the same requests, so that they count as one. At a rate the time until
    the stage is steady is not known, and not counted.
    """
    count = least_count(float(percentile))
    if count is None:
        return None
    distinct = 1 if is_same else spec.most_repeats
    a_stage = math.ceil(count / distinct)
    each = [
        (
            load,
            requests_to_bound(float(percentile), users=load.users, a_stage=a_stage),
        )
        for load in workload.load.points
    ]
    prices = [_price(spec, [stage], spec.most_repeats) for stage in each]
    return max(prices, key=lambda price: price.weight)


def repeats_price(spec: BenchmarkRunSpec) -> Price:
    """Return what the fewest repeats take that show the noise, over all load points."""
    stages = [
        (load, workload.requests_at(load))
        for workload in spec.workloads
        for load in workload.load.points
    ]
    return _price(spec, stages, MIN_REPEATS)


def _price(
    spec: BenchmarkRunSpec, stages: Iterable[tuple[Load, int]], repeats: int
) -> Price:
    """Return the price of these stages, each measured so often."""
    every = list(stages)
    seconds = [load.least_seconds(requests) for load, requests in every]
    known = [float(each) for each in seconds if each is not None]
    took = repeats * sum(known) if len(known) == len(every) else None
    held = gpus(spec)
    return Price(
        requests=repeats * sum(requests for _, requests in every),
        repeats=repeats,
        minutes=None if took is None else took / 60,
        gpu_seconds=took * held if took is not None and held else None,
    )


def gate_price(spec: BenchmarkRunSpec, questions: int) -> Price | None:
    """Return what lets the gate find a change of its limit; None if nothing usual does.

    So many figures are compared. If one server a side is not enough it is servers, else repeats; an
    endpoint is the same server, however often it is measured.
    """
    baseline = spec.baseline
    if baseline is None:
        return None
    if spec.started is None and not baseline.one_server_is_enough:
        return None
    limit = float(baseline.max_regression_percent)
    low = 2
    high = MAX_VALUES
    if detectable_percent(high, questions) > limit:
        return None
    while low < high:
        middle = (low + high) // 2
        is_enough = detectable_percent(middle, questions) <= limit
        low, high = (low, middle) if is_enough else (middle + 1, high)
    if not baseline.one_server_is_enough:
        return Price(servers=low)
    measuring = estimate(spec).gpu_seconds
    sides = 2 * low / spec.most_repeats
    return Price(
        repeats=low,
        gpu_seconds=None if measuring is None else sides * measuring,
    )
