"""Whatever is lost, late or repeated, a run ends as it would have ended: every stage once, the same
records, the same verdict."""

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings, strategies as st
from unit.decide.simulated_cluster import SimulatedCluster
from unit.decide.simulated_operator import SimulatedOperator
from unit.plan.specs import Json, rates, spec_body, workload

FOUR_STAGES = spec_body(
    workloads=[workload("chat", load=rates("1", "4"))], repeats=2
)
ROUNDS_TO_THE_END = 80
FEW_MISHAPS = settings(max_examples=20, deadline=None)
Death = tuple[int, int | None]
"""Seconds after the start, and how many actions of a pass are done; None is all of them."""
DEATHS: list[Death] = list(product(range(0, 48, 4), [None, 0, 1, 2, 4]))
SOME_DEATHS = sorted(Random(20).sample(DEATHS, 15), key=DEATHS.index)
"""A sample; `tests/long` has them all."""


@dataclass(frozen=True)
class Outcome:
    """What must not depend on what went wrong on the way."""

    phase: str
    verdict: str
    results: tuple[tuple[str, str, int], ...]
    digests: tuple[tuple[int | None, str | None], ...]
    left: tuple[str, ...]
    created: tuple[str, ...]
    clients: int


def outcome(cluster: SimulatedCluster) -> Outcome:
    status = cluster.status
    stored = [c for c in cluster.objects.values() if c.role == "stage"]
    return Outcome(
        phase=status["phase"],
        verdict=status["verdict"],
        results=tuple(
            (r["loadPoint"], r["verdict"], r["repeats"])
            for r in status.get("results", ())
        ),
        digests=tuple(
            sorted(
                (e.sequence, e.digest)
                for c in stored
                if (e := c.envelope) is not None
            )
        ),
        left=tuple(kind for kind in cluster.kinds() if kind != "ConfigMap"),
        created=tuple(
            sorted(c for c in cluster.created if c != "ConfigMap timeline")
        ),
        clients=len(cluster.clients),
    )


def fair_round(cluster: SimulatedCluster, operator: SimulatedOperator) -> None:
    cluster.tick(1)
    operator.watch(255)
    operator.follow_client()
    operator.scrape()
    operator.look_up()
    operator.work()


def run_to_the_end(
    cluster: SimulatedCluster, operator: SimulatedOperator
) -> Outcome:
    """Fair rounds until nothing moves, and until a client that may leave by itself has had the time
    for it."""
    for _ in range(ROUNDS_TO_THE_END):
        fair_round(cluster, operator)
        if "completionTime" in cluster.status:
            break
    cluster.tick(60)
    for _ in range(3):
        fair_round(cluster, operator)
    return outcome(cluster)


def fresh(
    spec: Json, *, broken: bool = False
) -> tuple[SimulatedCluster, SimulatedOperator]:
    cluster = SimulatedCluster(server_is_broken=broken)
    return cluster, SimulatedOperator(cluster, spec)


@lru_cache
def undisturbed(*, broken: bool) -> Outcome:
    return run_to_the_end(*fresh(FOUR_STAGES, broken=broken))


MISHAPS = st.one_of(
    st.tuples(st.just("time"), st.integers(1, 6)),
    st.tuples(st.just("watch"), st.integers(0, 255)),
    st.tuples(st.just("hear"), st.just(0)),
    st.tuples(st.just("scrape"), st.just(0)),
    st.tuples(st.just("look up"), st.just(0)),
    st.tuples(st.just("pass"), st.just(0)),
    st.tuples(st.just("pass cut off"), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.just(0)),
    st.tuples(st.just("somebody writes the status"), st.just(0)),
)


def suffer(
    cluster: SimulatedCluster, operator: SimulatedOperator, what: str, how: int
) -> None:
    match what:
        case "time":
            cluster.tick(how)
        case "watch":
            operator.watch(how)
        case "hear":
            operator.follow_client()
        case "scrape":
            operator.scrape()
        case "look up":
            operator.look_up()
        case "pass":
            operator.work()
        case "pass cut off":
            operator.work(cut_after=how)
        case "restart":
            operator.start()
        case "somebody writes the status":
            cluster.status_version += 1


def ends_the_same_after_a_death(death: Death) -> None:
    seconds, cut_after = death
    cluster, operator = fresh(FOUR_STAGES)
    for _ in range(seconds):
        fair_round(cluster, operator)
    cluster.tick(1)
    operator.watch(255)
    operator.follow_client()
    operator.work(cut_after=cut_after)
    operator.start()
    assert run_to_the_end(cluster, operator) == undisturbed(broken=False)


def ends_the_same_after(mishaps: list[tuple[str, int]], *, broken: bool) -> None:
    cluster, operator = fresh(FOUR_STAGES, broken=broken)
    for what, how in mishaps:
        suffer(cluster, operator, what, how)
        assert cluster.created.count("Deployment server") <= 1
        assert cluster.created.count("Job client") <= 1
    assert run_to_the_end(cluster, operator) == undisturbed(broken=broken)


@FEW_MISHAPS
@given(st.lists(MISHAPS, max_size=70), st.sampled_from([False, False, False, True]))
def test_a_disturbed_run_ends_like_an_undisturbed_one(
    mishaps: list[tuple[str, int]], broken: bool
) -> None:
    ends_the_same_after(mishaps, broken=broken)


@pytest.mark.parametrize("death", SOME_DEATHS, ids=str)
def test_the_operator_may_die_at_any_moment(death: Death) -> None:
    ends_the_same_after_a_death(death)


@pytest.mark.parametrize("seconds", range(0, 50, 7))
def test_the_operator_may_be_away_until_all_is_measured(seconds: int) -> None:
    cluster, operator = fresh(FOUR_STAGES)
    for _ in range(seconds):
        fair_round(cluster, operator)
    cluster.tick(3600)
    operator.start()
    assert run_to_the_end(cluster, operator) == undisturbed(broken=False)


def test_undisturbed_it_completes_with_every_stage_once_and_no_server_left() -> (
    None
):
    found = undisturbed(broken=False)
    assert (found.phase, found.verdict, found.clients, found.left) == (
        "Completed",
        "Valid",
        1,
        ("Job", "Service"),
    )
    assert [sequence for sequence, _ in found.digests] == [0, 1, 2, 3]
    assert found.results == (
        ("chat/rate=1", "Valid", 2),
        ("chat/rate=4", "Valid", 2),
    )


def test_a_server_that_cannot_start_fails_the_run_and_is_let_go() -> None:
    found = undisturbed(broken=True)
    assert (found.phase, found.digests, found.left) == ("Failed", (), ("Service",))
