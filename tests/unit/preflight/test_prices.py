"""What a spec tells of a price: requests, repeats, minutes and GPU-seconds before a run."""

from typing import Any

import pytest
from benchrun.api import Price
from benchrun.measure import detectable_percent
from benchrun.preflight.prices import gate_price, percentile_price, repeats_price
from unit.api.spec_cases import workload
from unit.preflight.checks import spec

GPUS = {"server.resources": {"limits": {"nvidia.com/gpu": "2"}}}


def of_percentile(
    load: dict[str, Any],
    percentile: str,
    *,
    repeats: int = 1,
    is_same: bool = False,
) -> Price | None:
    made = spec(
        {"workloads": [workload("a", load=load, requests=10)], "repeats": repeats}
        | GPUS
    )
    return percentile_price(made, made.workloads[0], percentile, is_same=is_same)


@pytest.mark.parametrize(
    ("load", "percentile", "repeats", "price"),
    [
        pytest.param(
            {"requestRates": ["2"]},
            "99",
            1,
            Price(requests=556, repeats=1, minutes=278 / 60, gpu_seconds=556),
            id="a rate: its steady part is nine tenths at most",
        ),
        pytest.param(
            {"requestRates": ["1", "4"]},
            "90",
            2,
            Price(requests=56, repeats=2, minutes=56 / 60, gpu_seconds=112),
            id="of several rates the slowest takes most",
        ),
        pytest.param(
            {"concurrencies": [64]},
            "99",
            1,
            Price(requests=16 * 64, repeats=1),
            id="users: twelve rounds and those outside of the steady part",
        ),
        pytest.param(
            {"concurrencies": [64]},
            "50",
            1,
            Price(requests=8 * 64, repeats=1),
            id="users: no steady part in less than eight rounds",
        ),
        pytest.param(
            {"concurrencies": [2]},
            "99",
            1,
            Price(requests=508, repeats=1),
            id="few users: five values beyond",
        ),
    ],
)
def test_what_bounds_a_percentile(
    load: dict[str, Any], percentile: str, repeats: int, price: Price
) -> None:
    assert of_percentile(load, percentile, repeats=repeats) == price


def test_repeats_of_equal_requests_count_as_one() -> None:
    load = {"concurrencies": [2]}
    alone, same, distinct = (
        of_percentile(load, "99", repeats=repeats, is_same=is_same)
        for repeats, is_same in ((1, True), (4, True), (4, False))
    )
    assert alone is not None
    assert same is not None
    assert distinct is not None
    assert same.requests == 4 * (alone.requests or 0)
    assert distinct.requests == 4 * (125 + 8)


def test_three_repeats_are_those_of_all_load_points() -> None:
    made = spec(
        {
            "workloads": [
                workload("a", load={"requestRates": ["1", "2"]}, requests=60),
            ]
        }
        | GPUS
    )
    assert repeats_price(made) == Price(
        requests=360, repeats=3, minutes=4.5, gpu_seconds=540
    )


@pytest.mark.parametrize("limit", ["1", "3", "10"])
def test_a_gate_takes_the_fewest_that_find_a_change_of_its_limit(
    limit: str,
) -> None:
    made = spec(
        {
            "baseline": {
                "name": "b",
                "maxRegressionPercent": limit,
                "oneServerIsEnough": True,
            }
        }
    )
    price = gate_price(made, 5)
    assert price is not None
    repeats = price.repeats or 0
    assert detectable_percent(repeats, 5) <= float(limit)
    assert repeats == 2 or detectable_percent(repeats - 1, 5) > float(limit)


def test_where_one_server_is_not_enough_servers_are_told() -> None:
    made = spec({"baseline": {"name": "b", "maxRegressionPercent": "3"}})
    price = gate_price(made, 5)
    assert price is not None
    assert (price.repeats, (price.servers or 0) > 2) == (None, True)
    tiny = spec({"baseline": {"name": "b", "maxRegressionPercent": "0.01"}})
    assert gate_price(tiny, 5) is None
    assert gate_price(spec({}), 5) is None
