"""A step of 10,000 tokens beside one of 80,000: eight times as much runs, and no more comes out."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.api import Change, ComparedLoadPoint
from benchrun.judge.comparison.comparability import MeasuredRun
from benchrun.judge.comparison.compare import limits
from unit.judge.comparison.sides import row, run
from unit.judge.specs import spec, workload

LOAD_POINT = "batch/rate=inf"


def at(
    name: str,
    running: float | None,
    throughput: float | None,
    kv: float | None = 50.0,
    *,
    load_point: str = LOAD_POINT,
    **changed: Any,
) -> MeasuredRun:
    """A run with these figures of its server; `changed` are fields of its row."""
    metrics = {"total_token_throughput": throughput, "completed": 1000.0}
    body = (
        row(load_point).model_dump()
        | {"metrics": metrics, "roles": [_server(running, kv)]}
        | changed
    )
    return run(name, [type(row(load_point)).model_validate(body)])


def _server(
    running: float | None, kv: float | None, preemptions: float = 0.0
) -> dict[str, Any]:
    return {
        "role": "server",
        "running_mean": running,
        "kv_cache_max_percent": kv,
        "preemptions": preemptions,
    }


def test_more_runs_and_no_more_comes_out() -> None:
    found = limits(
        [at("a", 33, 25_400, 9.4)],
        [at("b", 267, 25_800, 78)],
        [ComparedLoadPoint(load_point=LOAD_POINT)],
    )
    assert found[LOAD_POINT].limit == "Compute"
    assert found[LOAD_POINT].sentence == (
        "Throughput stays flat from baseline to candidate (25400 and 25800 tok/s) while running "
        "goes from 33 to 267 and KV "
        "cache usage from 9.4 % to 78 %: compute is the limit."
    )
    assert (
        found[LOAD_POINT].evidence["runningLow"],
        found[LOAD_POINT].evidence["kvCacheHighPercent"],
    ) == (
        33,
        78,
    )


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ((-39.61, 57.8), "tok/s; output: -39.6 to +57.8 %)"),
        ((None, None), "tok/s)"),
    ],
)
def test_the_interval_of_a_flat_throughput_is_told(
    ends: tuple[float | None, float | None], told: str
) -> None:
    change = Change(
        metric="OutputThroughput",
        low_percent=ends[0],
        high_percent=ends[1],
        word="NoDetectableDifference",
    )
    found = limits(
        [at("a", 33, 100)],
        [at("b", 267, 101)],
        [ComparedLoadPoint(load_point=LOAD_POINT, changes=[change])],
    )
    assert told in found[LOAD_POINT].sentence


@pytest.mark.parametrize(
    ("baseline", "candidate", "ends", "found"),
    [
        pytest.param(
            33, 90, (-39.61, 57.8), False, id="noise hides a growth of 35 %"
        ),
        pytest.param(33, 90, (-12.0, 14.0), True, id="it does not"),
        pytest.param(
            90, 33, (-36.6, 65.6), False, id="the same, seen from the other side"
        ),
        pytest.param(
            90, 33, (-12.0, 65.6), True, id="a fall of what ran less is no growth"
        ),
    ],
)
def test_a_throughput_is_flat_where_noise_hides_no_growth(
    baseline: float, candidate: float, ends: tuple[float, float], found: bool
) -> None:
    """From 33 to 90 running, throughput that grows has 1.35 times as much."""
    change = Change(
        metric="OutputThroughput",
        low_percent=ends[0],
        high_percent=ends[1],
        word="NoDetectableDifference",
    )
    shown = limits(
        [at("a", baseline, 100)],
        [at("b", candidate, 101)],
        [ComparedLoadPoint(load_point=LOAD_POINT, changes=[change])],
    )
    assert (LOAD_POINT in shown) is found


def test_what_is_not_comparable_shows_no_limit() -> None:
    assert (
        limits(
            [at("a", 33, 100)],
            [at("b", 267, 101)],
            [ComparedLoadPoint(load_point=LOAD_POINT, reason="other models")],
        )
        == {}
    )


def test_which_side_ran_more_does_not_matter() -> None:
    found = limits(
        [at("a", 267, 25_800)],
        [at("b", 33, 25_400)],
        [ComparedLoadPoint(load_point=LOAD_POINT)],
    )
    assert (
        "from candidate to baseline (25400 and 25800 tok/s) while running goes from 33 to 267"
        in found[LOAD_POINT].sentence
    )


def test_throughput_that_grows_until_the_cache_is_full() -> None:
    found = limits(
        [at("a", 30, 100, 20)],
        [at("b", 90, 270, 99)],
        [ComparedLoadPoint(load_point=LOAD_POINT)],
    )
    assert found[LOAD_POINT].limit == "KVMemory"
    assert (
        "grows by 170 % as running goes from 30 to 90, where KV cache usage is 99 %"
        in found[LOAD_POINT].sentence
    )


def test_runs_of_one_side_are_one_configuration() -> None:
    before = [at("a", 30, 100), at("b", 36, 104)]
    after = [at("c", 260, 103), at("d", 274, 101, 80)]
    sentence = limits(before, after, [ComparedLoadPoint(load_point=LOAD_POINT)])[
        LOAD_POINT
    ].sentence
    assert (
        "(102 and 102 tok/s) while running goes from 33 to 267 and KV cache usage from 50 % to 80 %"
        in sentence
    )


USERS = "batch/concurrency=64"


def test_users_keep_a_server_supplied_too() -> None:
    found = limits(
        [at("a", 16, 100, load_point=USERS)],
        [at("b", 64, 101, load_point=USERS)],
        [ComparedLoadPoint(load_point=USERS)],
    )
    assert found[USERS].limit == "Compute"


def test_users_that_think_do_not() -> None:
    """Throughput is what their think time lets them send."""
    load = {"concurrencies": [64], "thinkSeconds": {"mean": "9"}}
    thinking = spec(workloads=[workload("batch", load=load)])
    sides = [
        replace(at(name, running, 100, load_point=USERS), spec=thinking)
        for name, running in (("a", 16), ("b", 64))
    ]
    assert limits(sides[:1], sides[1:], [ComparedLoadPoint(load_point=USERS)]) == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(at("a", 30, 100), at("b", 31, 100), id="as many run"),
        pytest.param(
            at("a", 30, 100), at("b", 60, 190), id="it grows, and KV cache is free"
        ),
        pytest.param(
            at("a", 30, 100),
            at("b", 60, 190, None),
            id="it grows, and KV cache is not known",
        ),
        pytest.param(at("a", 30, 100), at("b", 60, 60), id="it falls"),
        pytest.param(at("a", 30, 100), at("b", 60, None), id="no throughput"),
        pytest.param(at("a", 30, 100), at("b", None, 100), id="running not known"),
        pytest.param(
            at("a", 30, 100), at("b", 60, 100, roles=[]), id="no readings"
        ),
        pytest.param(
            at("a", 30, 100),
            at("b", 60, 100, findings=["ClientSaturated"]),
            id="the client's throughput",
        ),
        pytest.param(
            at("a", 30, 100),
            at("b", 60, 100, roles=[_server(60, 99, 11)]),
            id="work done twice",
        ),
    ],
)
def test_runs_without_the_figures_have_no_limit(
    before: MeasuredRun, after: MeasuredRun
) -> None:
    assert (
        limits([before], [after], [ComparedLoadPoint(load_point=LOAD_POINT)]) == {}
    )


@pytest.mark.parametrize(
    ("waiting", "reported"), [(0.9, False), (1.0, True), (64.0, True)]
)
def test_a_client_that_is_late_starves_no_server_that_has_requests_waiting(
    waiting: float, reported: bool
) -> None:
    role = _server(60, 50) | {"waiting_mean": waiting}
    late = at("b", 60, 100, findings=["ClientSaturated"], roles=[role])
    assert (
        limits(
            [at("a", 30, 100)], [late], [ComparedLoadPoint(load_point=LOAD_POINT)]
        )
        != {}
    ) is reported


def test_under_a_rate_throughput_is_that_of_the_arrivals() -> None:
    load_point = "chat/rate=4"
    assert (
        limits(
            [at("a", 30, 100, load_point=load_point)],
            [at("b", 60, 100, load_point=load_point)],
            [ComparedLoadPoint(load_point=load_point)],
        )
        == {}
    )


def test_one_run_that_cannot_tell_silences_its_side() -> None:
    assert (
        limits(
            [at("a", 30, 100), at("b", None, 100)],
            [at("c", 60, 100), at("d", 60, 100)],
            [ComparedLoadPoint(load_point=LOAD_POINT)],
        )
        == {}
    )
