"""The order of measurement: stages, cells, counts and estimates."""

from collections import Counter
from typing import Any

import pytest
from benchrun.api import Workload
from benchrun.plan import canonical, cells, estimate, gpus, planned_stages, requests_of
from unit.plan.specs import Json, concurrencies, rates, spec, spec_body, workload

TWO = [workload("chat", load=rates("1", "inf")), workload("code", load=concurrencies(8))]
EIGHT = [workload("chat", load=rates("1", "2", "4", "8")), workload("code", load=concurrencies(1, 2, 4, 8))]


def order(*, repeats: int = 1, workloads: list[Json], **measurement: Any) -> list[str]:
    return [
        s.id for s in planned_stages(spec(workloads=workloads, repeats=repeats, measurement=measurement), run_uid="u")
    ]


def test_as_listed_repeats_are_outermost_then_workloads_then_load_points() -> None:
    assert order(workloads=TWO, repeats=2, order="AsListed") == [
        "chat/rate=1/r1",
        "chat/rate=inf/r1",
        "code/concurrency=8/r1",
        "chat/rate=1/r2",
        "chat/rate=inf/r2",
        "code/concurrency=8/r2",
    ]


def test_shuffled_every_repeat_holds_every_load_point_once_in_an_order_of_its_own() -> None:
    shuffled, listed = (order(workloads=EIGHT, repeats=3, order=how) for how in ("Shuffled", "AsListed"))
    assert shuffled == order(workloads=EIGHT, repeats=3)
    repeats = [shuffled[n : n + 8] for n in (0, 8, 16)]
    assert [set(repeat) for repeat in repeats] == [set(listed[n : n + 8]) for n in (0, 8, 16)]
    assert len({tuple(stage.rpartition("/")[0] for stage in repeat) for repeat in repeats}) == 3
    assert all(repeat != listed[8 * n : 8 * n + 8] for n, repeat in enumerate(repeats))


def test_the_seed_alone_decides_the_order_and_not_how_the_spec_is_written() -> None:
    assert order(workloads=EIGHT, seed=3) == order(workloads=EIGHT[::-1], seed=3)
    assert order(workloads=EIGHT, seed=3) != order(workloads=EIGHT, seed=4)


def test_over_many_seeds_every_load_point_is_at_every_place_about_equally_often() -> None:
    places = Counter(
        place for seed in range(400) for place, stage in enumerate(order(workloads=TWO, seed=seed)) if "inf" in stage
    )
    assert set(places) == {0, 1, 2}
    # 133 are expected of 400; 5 standard deviations are 47.
    assert all(86 < count < 180 for count in places.values())


def test_the_order_is_that_of_the_first_release() -> None:
    """A change here makes a rerun of an old spec another experiment."""
    assert order(workloads=TWO, repeats=2) == [
        "chat/rate=1/r1",
        "chat/rate=inf/r1",
        "code/concurrency=8/r1",
        "chat/rate=inf/r2",
        "chat/rate=1/r2",
        "code/concurrency=8/r2",
    ]


def test_a_cell_pools_the_repeats_of_a_load_point() -> None:
    found = cells(spec(workloads=[workload("chat", load=rates("4", "1"))], repeats=3))
    assert [(c.id, c.stage_ids) for c in found] == [
        ("chat/rate=4", ("chat/rate=4/r1", "chat/rate=4/r2", "chat/rate=4/r3")),
        ("chat/rate=1", ("chat/rate=1/r1", "chat/rate=1/r2", "chat/rate=1/r3")),
    ]


def test_every_stage_is_in_exactly_one_cell() -> None:
    given = spec(
        workloads=[workload("chat", load=rates("1", "4")), workload("code", load=concurrencies(1, 2))], repeats=3
    )
    pooled = [stage for cell in cells(given) for stage in cell.stage_ids]
    assert sorted(pooled) == sorted(s.id for s in planned_stages(given, run_uid="u"))


@pytest.mark.parametrize(
    ("expected", "written"),
    [
        ("4", "4"),
        ("4", "4.0"),
        ("4", "04.000"),
        ("0.5", "0.50"),
        ("100", "100"),
        ("1000000", "1000000.0"),
        ("inf", "inf"),
    ],
)
def test_a_load_value_has_one_spelling(expected: str, written: str) -> None:
    assert canonical(written) == expected


@pytest.mark.parametrize(
    ("expected", "rate", "seconds"),
    [
        pytest.param(240, "4", 60, id="whole"),
        pytest.param(91, "1.51", 60, id="rounded up"),
        pytest.param(3, "0.1", 30, id="exact in decimals, though 0.1 is not in binary"),
        pytest.param(1, "0.001", 1, id="never none"),
    ],
)
def test_a_duration_asks_for_rate_times_duration_requests(expected: int, rate: str, seconds: int) -> None:
    lasting = Workload.model_validate(workload(load=rates(rate), requests=None, durationSeconds=seconds))
    assert requests_of(lasting, rate) == expected


@pytest.mark.parametrize(
    ("expected", "limits"),
    [
        pytest.param(1, {"nvidia.com/gpu": 1}, id="NVIDIA"),
        pytest.param(8, {"amd.com/gpu": "8"}, id="AMD, as text"),
        pytest.param(2, {"gpu.intel.com/i915": 2}, id="Intel"),
        pytest.param(0, {"cpu": "4", "memory": "8Gi"}, id="CPU only"),
        pytest.param(0, {}, id="no limits"),
    ],
)
def test_gpus_are_counted_whoever_makes_them(expected: int, limits: Json) -> None:
    assert gpus(spec(server={"image": "v", "resources": {"limits": limits}})) == expected


def test_estimate_is_the_least_gpu_time_of_open_loops() -> None:
    two = [workload("chat", load=rates("4", "inf"), requests=100), workload("code", load=rates("3"), requests=100)]
    server = {"image": "v", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    found = estimate(spec(workloads=two, repeats=2, server=server))
    # 2 repeats x (100/4 + 100/3) s = 116.7, rounded up, on 2 GPUs; "inf" adds nothing that could be known.
    assert (found.stages, found.requests, found.gpu_seconds) == (6, 600, 2 * 117)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(spec_body(workloads=[workload(load=concurrencies(4))]), id="closed loop"),
        pytest.param(spec_body(server={"image": "v"}), id="no GPU"),
    ],
)
def test_no_gpu_time_is_claimed_where_none_is_known(body: Json) -> None:
    assert estimate(spec(**body)).gpu_seconds is None
