"""Seeds: equal where traffic must be equal, different where it must not be, and unmoved by what is added beside them."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import planned_stages, stage_seed, warmup_seed
from unit.plan.specs import Json, concurrencies, endpoint_body, rates, spec_body, workload

URL = {"url": "http://llm.example"}


def seeds(body: Json, *, uid: str = "uid-1") -> dict[str, int]:
    return {s.id: s.seed for s in planned_stages(BenchmarkRunSpec.model_validate(body), run_uid=uid)}


def chat(load: Json) -> Json:
    return workload("chat", load=load)


BEFORE = spec_body(workloads=[chat(rates("1", "4"))], repeats=2)


@pytest.mark.parametrize(
    "after",
    [
        pytest.param(spec_body(workloads=[chat(rates("1", "2", "4", "inf"))], repeats=2), id="a load point is added"),
        pytest.param(spec_body(workloads=[chat(rates("4", "1"))], repeats=2), id="load points change places"),
        pytest.param(
            spec_body(workloads=[workload("code"), chat(rates("1", "4"))], repeats=2), id="a workload is added"
        ),
        pytest.param(spec_body(workloads=[chat(rates("1", "4"))], repeats=5), id="repeats are added"),
        pytest.param(spec_body(workloads=[chat(rates("1.0", "4.000"))], repeats=2), id="numbers are spelled otherwise"),
        pytest.param(
            spec_body(workloads=[chat(rates("1", "4"))], repeats=2, model={"name": "other"}), id="another model"
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
        pytest.param({"axis": "concurrency"}, id="axis"),
        pytest.param({"value": "5"}, id="load value"),
        pytest.param({"repeat": 2}, id="repeat"),
        pytest.param({"run_uid": "uid-1"}, id="run"),
    ],
)
def test_seed_depends_on(change: dict[str, Any]) -> None:
    parts: dict[str, Any] = {"base": 1, "workload": "chat", "axis": "rate", "value": "4", "repeat": 1, "run_uid": None}
    assert stage_seed(**parts | change) != stage_seed(**parts)


def test_two_runs_on_their_own_servers_send_equal_traffic() -> None:
    assert seeds(BEFORE, uid="uid-1") == seeds(BEFORE, uid="uid-2")


def test_two_runs_against_an_endpoint_send_different_traffic() -> None:
    first, second = (
        seeds(endpoint_body(URL, workloads=[chat(rates("1", "4"))]), uid=uid) for uid in ("uid-1", "uid-2")
    )
    assert first.keys() == second.keys()
    assert not set(first.values()) & set(second.values())


def test_under_share_a_workload_has_one_seed_and_another_workload_another() -> None:
    body = spec_body(
        workloads=[chat(rates("1", "4")), workload("code", load=concurrencies(1, 2))],
        repeats=3,
        measurement={"cachePolicy": "Share"},
    )
    found = seeds(body)
    chats = {seed for stage, seed in found.items() if stage.startswith("chat/")}
    codes = {seed for stage, seed in found.items() if stage.startswith("code/")}
    assert (len(found), len(chats), len(codes)) == (12, 1, 1)
    assert chats != codes
    assert not chats & set(seeds(BEFORE).values())


def test_under_share_a_second_run_meets_what_the_first_one_left_in_an_endpoints_cache() -> None:
    body = endpoint_body(URL, workloads=[chat(rates("1"))], measurement={"cachePolicy": "Share"})
    assert seeds(body, uid="uid-1") == seeds(body, uid="uid-2")


def test_under_reset_prompts_are_those_of_isolate() -> None:
    assert seeds(BEFORE | {"measurement": {"cachePolicy": "Reset"}}) == seeds(BEFORE)


def test_all_seeds_of_a_run_differ() -> None:
    body = spec_body(
        workloads=[chat(rates("1", "2", "4", "inf")), workload("code", load=concurrencies(1, 2, 4))], repeats=10
    )
    found = list(seeds(body).values())
    assert len(set(found)) == len(found) == 70


def test_warm_up_sends_other_traffic_than_any_stage() -> None:
    assert warmup_seed(base=1, workload="chat", run_uid=None) not in seeds(BEFORE).values()


def test_seeds_are_those_of_the_first_release() -> None:
    """A change here makes new runs incomparable, request by request, with all older ones."""
    assert seeds(spec_body()) == {"chat/rate=4/r1": 1316004095}
