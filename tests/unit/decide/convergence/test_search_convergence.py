"""A search whose operator is cut off, restarted or late ends as it would have ended: nobody knew
beforehand with how many stages."""

from functools import lru_cache

import pytest
from hypothesis import given, strategies as st
from unit.decide.convergence.test_convergence import (
    FEW_MISHAPS,
    MISHAPS,
    SOME_DEATHS,
    Death,
    Outcome,
    fresh,
    run_to_the_end,
    suffer,
)
from unit.plan.specs import Json, rates, spec_body, workload

SEARCH: Json = {
    "search": {"axis": "RequestRate", "from": "1", "to": "4", "maxProbes": 8}
}
SEARCHING = spec_body(
    workloads=[workload("listed", load=rates("2")), workload("chat", load=SEARCH)],
    objectives=[{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 200}],
)
# the listed one, then 1, 2 and 4 requests a second, then 4 to confirm it
STAGES = 5


@lru_cache
def undisturbed() -> Outcome:
    return run_to_the_end(*fresh(SEARCHING))


def test_left_alone_it_ends_with_the_stages_that_it_took() -> None:
    cluster, operator = fresh(SEARCHING)
    ended = run_to_the_end(cluster, operator)
    assert [sequence for sequence, _ in ended.digests] == list(range(STAGES))
    searched = [f"chat/rate={load}" for load in ("1", "2", "4", "4/confirmation")]
    assert [load_point for load_point, _, _ in ended.results] == [
        "listed/rate=2",
        *searched,
    ]
    assert "Deployment" not in ended.left
    assert cluster.status["progress"]["summary"] == f"{STAGES}/{STAGES}"
    assert [search["probes"] for search in cluster.status["searches"]] == [4]


def ends_the_same_after(mishaps: list[tuple[str, int]]) -> None:
    cluster, operator = fresh(SEARCHING)
    for what, how in mishaps:
        suffer(cluster, operator, what, how)
        assert cluster.created.count("Deployment server") <= 1
    assert run_to_the_end(cluster, operator) == undisturbed()


def ends_the_same_after_a_death(death: Death) -> None:
    seconds, cut_after = death
    cluster, operator = fresh(SEARCHING)
    for _ in range(seconds):
        suffer(cluster, operator, "time", 1)
        for what, how in (("watch", 255), ("hear", 0), ("pass", 0)):
            suffer(cluster, operator, what, how)
    if cut_after is not None:
        suffer(cluster, operator, "pass cut off", cut_after)
    suffer(cluster, operator, "restart", 0)
    assert run_to_the_end(cluster, operator) == undisturbed()


@FEW_MISHAPS
@given(st.lists(MISHAPS, max_size=70))
def test_a_disturbed_search_ends_like_an_undisturbed_one(
    mishaps: list[tuple[str, int]],
) -> None:
    ends_the_same_after(mishaps)


@pytest.mark.parametrize("death", SOME_DEATHS, ids=str)
def test_an_operator_that_restarts_finds_out_where_the_search_stands(
    death: Death,
) -> None:
    ends_the_same_after_a_death(death)
