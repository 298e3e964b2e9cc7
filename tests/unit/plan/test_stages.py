"""The order of measurement: stages, load points, counts and estimates."""

from collections import Counter
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, Workload
from benchrun.plan import (
    Division,
    division_of,
    estimate,
    gpus,
    load_points,
    planned_stages,
    stage_seed,
    warmup_seed,
)
from benchrun_client.contract import spelled
from unit.plan.specs import (
    Json,
    concurrencies,
    endpoint_body,
    rates,
    spec,
    spec_body,
    workload,
)

TWO = [
    workload("chat", load=rates("1", "inf")),
    workload("code", load=concurrencies(8)),
]
EIGHT = [
    workload("chat", load=rates("1", "2", "4", "8")),
    workload("code", load=concurrencies(1, 2, 4, 8)),
]


def order(
    *, repeats: int = 1, workloads: list[Json], **measurement: Any
) -> list[str]:
    return [
        s.id
        for s in planned_stages(
            spec(workloads=workloads, repeats=repeats, measurement=measurement),
            run_uid="u",
        )
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


def test_shuffled_every_repeat_holds_every_load_point_once_in_an_order_of_its_own() -> (
    None
):
    shuffled, listed = (
        order(workloads=EIGHT, repeats=3, order=how)
        for how in ("Shuffled", "AsListed")
    )
    assert shuffled == order(workloads=EIGHT, repeats=3)
    repeats = [shuffled[n : n + 8] for n in (0, 8, 16)]
    assert [set(repeat) for repeat in repeats] == [
        set(listed[n : n + 8]) for n in (0, 8, 16)
    ]
    assert (
        len(
            {
                tuple(stage.rpartition("/")[0] for stage in repeat)
                for repeat in repeats
            }
        )
        == 3
    )
    assert all(
        repeat != listed[8 * n : 8 * n + 8] for n, repeat in enumerate(repeats)
    )


def test_the_seed_alone_decides_the_order_and_not_how_the_spec_is_written() -> None:
    assert order(workloads=EIGHT, seed=3) == order(workloads=EIGHT[::-1], seed=3)
    assert order(workloads=EIGHT, seed=3) != order(workloads=EIGHT, seed=4)


def test_over_many_seeds_every_load_point_is_at_every_place_about_equally_often() -> (
    None
):
    places = Counter(
        place
        for seed in range(400)
        for place, stage in enumerate(order(workloads=TWO, seed=seed))
        if "inf" in stage
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


def test_a_load_point_pools_the_repeats_of_a_load_point() -> None:
    found = load_points(
        spec(workloads=[workload("chat", load=rates("4", "1"))], repeats=3)
    )
    assert [(c.id, c.stage_ids) for c in found] == [
        ("chat/rate=4", ("chat/rate=4/r1", "chat/rate=4/r2", "chat/rate=4/r3")),
        ("chat/rate=1", ("chat/rate=1/r1", "chat/rate=1/r2", "chat/rate=1/r3")),
    ]


def test_every_stage_is_in_exactly_one_load_point() -> None:
    given = spec(
        workloads=[
            workload("chat", load=rates("1", "4")),
            workload("code", load=concurrencies(1, 2)),
        ],
        repeats=3,
    )
    pooled = [
        stage for load_point in load_points(given) for stage in load_point.stage_ids
    ]
    assert sorted(pooled) == sorted(
        s.id for s in planned_stages(given, run_uid="u")
    )


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
    assert spelled(written) == expected


@pytest.mark.parametrize(
    ("expected", "rate", "seconds"),
    [
        pytest.param(240, "4", 60, id="whole"),
        pytest.param(91, "1.51", 60, id="rounded up"),
        pytest.param(
            3, "0.1", 30, id="exact in decimals, though 0.1 is not in binary"
        ),
        pytest.param(1, "0.001", 1, id="never none"),
    ],
)
def test_a_duration_asks_for_rate_times_duration_requests(
    expected: int, rate: str, seconds: int
) -> None:
    lasting = Workload.model_validate(
        workload(load=rates(rate), requests=None, durationSeconds=seconds)
    )
    assert lasting.requests_at(lasting.load.points[0]) == expected


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
    assert (
        gpus(spec(server={"image": "v", "resources": {"limits": limits}}))
        == expected
    )


def test_estimate_is_the_least_gpu_time_of_open_loops() -> None:
    two = [
        workload("chat", load=rates("4", "inf"), requests=100),
        workload("code", load=rates("3"), requests=100),
    ]
    server = {"image": "v", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    found = estimate(spec(workloads=two, repeats=2, server=server))
    # 2 repeats x (100/4 + 100/3) s = 116.7, rounded up, on 2 GPUs; "inf" adds nothing that could be
    # known.
    assert (found.stages, found.requests, found.gpu_seconds) == (6, 600, 2 * 117)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            spec_body(workloads=[workload(load=concurrencies(4))]), id="closed loop"
        ),
        pytest.param(spec_body(server={"image": "v"}), id="no GPU"),
    ],
)
def test_no_gpu_time_is_claimed_where_none_is_known(body: Json) -> None:
    assert estimate(spec(**body)).gpu_seconds is None


# Seeds: equal where traffic must be equal, different where it must not be, and unmoved by what is
# added beside them.

URL = {"url": "http://llm.example"}


def seeds(body: Json, *, uid: str = "uid-1") -> dict[str, int]:
    return {
        s.id: s.seed
        for s in planned_stages(BenchmarkRunSpec.model_validate(body), run_uid=uid)
    }


def chat(load: Json) -> Json:
    return workload("chat", load=load)


BEFORE = spec_body(workloads=[chat(rates("1", "4"))], repeats=2)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(
            spec_body(workloads=[chat(rates("1", "2", "4", "inf"))], repeats=2),
            id="a load point is added",
        ),
        pytest.param(
            spec_body(workloads=[chat(rates("4", "1"))], repeats=2),
            id="load points change places",
        ),
        pytest.param(
            spec_body(
                workloads=[workload("code"), chat(rates("1", "4"))], repeats=2
            ),
            id="a workload is added",
        ),
        pytest.param(
            spec_body(workloads=[chat(rates("1", "4"))], repeats=5),
            id="repeats are added",
        ),
        pytest.param(
            spec_body(workloads=[chat(rates("1.0", "4.000"))], repeats=2),
            id="numbers are spelled otherwise",
        ),
        pytest.param(
            spec_body(
                workloads=[chat(rates("1", "4"))],
                repeats=2,
                model={"name": "other"},
            ),
            id="another model",
        ),
    ],
)
def test_no_stage_is_reseeded_when(after: Json) -> None:
    before = seeds(BEFORE)
    assert {stage: seeds(after)[stage] for stage in before} == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"base": 2}, id="measurement seed"),
        pytest.param({"workload": "code"}, id="workload name"),
        pytest.param({"load": "concurrency=4"}, id="axis"),
        pytest.param({"load": "rate=5"}, id="load value"),
        pytest.param({"repeat": 2}, id="repeat"),
        pytest.param({"run_uid": "uid-1"}, id="run"),
    ],
)
def test_seed_depends_on(change: dict[str, Any]) -> None:
    parts: dict[str, Any] = {
        "base": 1,
        "workload": "chat",
        "load": "rate=4",
        "repeat": 1,
        "run_uid": None,
    }
    assert stage_seed(**parts | change) != stage_seed(**parts)


def test_two_runs_on_their_own_servers_send_equal_traffic() -> None:
    assert seeds(BEFORE, uid="uid-1") == seeds(BEFORE, uid="uid-2")


def test_two_runs_against_an_endpoint_send_different_traffic() -> None:
    first, second = (
        seeds(endpoint_body(URL, workloads=[chat(rates("1", "4"))]), uid=uid)
        for uid in ("uid-1", "uid-2")
    )
    assert first.keys() == second.keys()
    assert not set(first.values()) & set(second.values())


def test_under_share_a_workload_has_one_seed_and_another_workload_another() -> None:
    body = spec_body(
        workloads=[
            chat(rates("1", "4")),
            workload("code", load=concurrencies(1, 2)),
        ],
        repeats=3,
        measurement={"cachePolicy": "Share"},
    )
    found = seeds(body)
    chats = {seed for stage, seed in found.items() if stage.startswith("chat/")}
    codes = {seed for stage, seed in found.items() if stage.startswith("code/")}
    assert (len(found), len(chats), len(codes)) == (12, 1, 1)
    assert chats != codes
    assert not chats & set(seeds(BEFORE).values())


def test_under_share_a_second_run_meets_what_the_first_one_left_in_an_endpoints_cache() -> (
    None
):
    body = endpoint_body(
        URL, workloads=[chat(rates("1"))], measurement={"cachePolicy": "Share"}
    )
    assert seeds(body, uid="uid-1") == seeds(body, uid="uid-2")


def test_under_reset_prompts_are_those_of_isolate() -> None:
    assert seeds(BEFORE | {"measurement": {"cachePolicy": "Reset"}}) == seeds(
        BEFORE
    )


def test_all_seeds_of_a_run_differ() -> None:
    body = spec_body(
        workloads=[
            chat(rates("1", "2", "4", "inf")),
            workload("code", load=concurrencies(1, 2, 4)),
        ],
        repeats=10,
    )
    found = list(seeds(body).values())
    assert len(set(found)) == len(found) == 70


def test_warm_up_sends_other_traffic_than_any_stage() -> None:
    assert (
        warmup_seed(base=1, workload="chat", run_uid=None)
        not in seeds(BEFORE).values()
    )


def test_seeds_are_those_of_the_first_release() -> None:
    """A change here makes new runs incomparable, request by request, with all older ones."""
    assert seeds(spec_body()) == {"chat/rate=4/r1": 1316004095}


# How many processes a spec wants, and in how many pods.


def division(client: Json, *workloads: Json, **changes: Any) -> Division:
    body = spec_body(
        client=client, workloads=list(workloads) or [workload()], **changes
    )
    return division_of(BenchmarkRunSpec.model_validate(body))


@pytest.mark.parametrize(
    ("expected", "load"),
    [
        pytest.param(1, concurrencies(1, 150), id="150 streams are one's"),
        pytest.param(2, concurrencies(151, 8), id="one more is not"),
        pytest.param(16, concurrencies(100_000), id="there is an end"),
        pytest.param(1, rates("100"), id="100 requests a second are one's"),
        pytest.param(2, rates("100.5"), id="a fraction more is not"),
        pytest.param(3, rates("5", "250"), id="the highest counts"),
        pytest.param(
            2, rates("inf"), id="all at once: as many streams as requests"
        ),
        pytest.param(
            1,
            {**rates("inf"), "maxConcurrency": 20},
            id="under a cap: as many as may be under way",
        ),
        pytest.param(
            1,
            {"search": {"axis": "RequestRate", "from": "1", "to": "900"}},
            id="a search is one's",
        ),
    ],
)
def test_auto_follows_the_highest_load(expected: int, load: Json) -> None:
    searched = (
        {
            "objectives": [
                {"metric": "TTFT", "percentile": "90", "maxMilliseconds": 500}
            ]
        }
        if "search" in load
        else {}
    )
    requests = 4000 if searched else 200
    assert (
        division(
            {"parallelism": "Auto"},
            workload(load=load, requests=requests),
            **searched,
        ).shards
        == expected
    )


def test_auto_follows_the_workload_that_needs_most() -> None:
    two = (
        workload("few", load=concurrencies(4)),
        workload("many", load=concurrencies(400)),
    )
    assert division({"parallelism": "Auto"}, *two).shards == 3


@pytest.mark.parametrize(
    ("shards", "resources", "processes", "pods"),
    [
        (1, {}, 1, 1),
        (4, {}, 1, 4),
        (4, {"requests": {"cpu": "4"}}, 4, 1),
        (4, {"requests": {"cpu": 8}}, 4, 1),
        (5, {"requests": {"cpu": "2500m"}}, 2, 3),
        (4, {"requests": {"cpu": "900m"}}, 1, 4),
        (4, {"limits": {"cpu": "2"}}, 2, 2),
        (4, {"requests": {"cpu": "1"}, "limits": {"cpu": "4"}}, 1, 4),
        (4, {"requests": {"memory": "8Gi"}}, 1, 4),
        (4, {"requests": {"cpu": "2.9"}}, 2, 2),
    ],
)
def test_a_pod_holds_as_many_as_it_has_whole_cores(
    shards: int, resources: Json, processes: int, pods: int
) -> None:
    found = division({"parallelism": shards, "resources": resources})
    assert (found.shards, found.processes, found.pods) == (shards, processes, pods)
