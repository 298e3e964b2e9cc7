"""`repeats: Auto` in the plan: what the client may measure, and which records are the run's."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import (
    chosen_stages,
    division_of,
    estimate,
    measured_load_points,
    objective_error,
    plan_of_client,
    planned_stages,
    problem_with,
    stage_ids,
)
from benchrun_client.contract import (
    ERROR,
    AutoPlan,
    Limit,
    Probe,
    StageRecord,
    Width,
    seal,
)
from unit.client.plans import TOKEN_DIGEST
from unit.measure.records import load_at, record
from unit.plan.specs import OWNER, rates, spec, workload

OBJECTIVES = [{"metric": "TTFT", "percentile": "90", "maxMilliseconds": 200}]


def auto(*values: str, requests: int = 100, **changes: Any) -> BenchmarkRunSpec:
    """Two load points of 100 requests each, unless others are named."""
    return spec(
        **{
            "workloads": [
                workload(load=rates(*(values or ("2", "8"))), requests=requests)
            ],
            "objectives": OBJECTIVES,
            "repeats": "Auto",
            "budget": {"requests": 2000},
        }
        | changes
    )


def plan_of(of: BenchmarkRunSpec) -> AutoPlan:
    found = plan_of_client(OWNER, of, token_digest=TOKEN_DIGEST).auto
    assert found is not None
    return found


def test_the_plan_has_every_stage_there_may_be_and_what_ends_them() -> None:
    width = {"metric": "E2EL", "percentile": "50", "percent": "5"}
    of = auto(widths=[width], runDeadlineSeconds=1000)
    # Once both, then one alone: 1 + (2000 - 200) / 100.
    assert of.most_repeats == 19
    plan = plan_of_client(OWNER, of, token_digest=TOKEN_DIGEST)
    assert [stage.repeat for stage in plan.stages] == [
        repeat for repeat in range(1, 20) for _ in range(2)
    ]
    assert plan_of(of) == AutoPlan(
        objectives=(Limit(metric="TTFT", percentile="90", max_milliseconds=200),),
        widths=(Width(metric="E2EL", percentile="50", percent="5"),),
        max_failed_percent="1",
        max_requests=2000,
        max_seconds=900,
        looks=(1, 2, 3, 5, 8, 12, 18),
    )
    assert objective_error(of, measured_load_points(of, [])[0]) == pytest.approx(
        ERROR / 8
    )


def test_a_number_of_repeats_has_no_such_plan() -> None:
    plan = plan_of_client(OWNER, spec(repeats=2), token_digest=TOKEN_DIGEST)
    assert plan.auto is None
    assert "auto" not in plan.to_json()


@pytest.mark.parametrize(
    ("budget", "changes", "seconds"),
    [
        ({"seconds": 60}, {}, 60),
        ({"gpuSeconds": 600, "seconds": 400}, {}, 300),
        (
            {"gpuSeconds": 600},
            {"server": None, "endpoint": {"url": "http://a"}},
            12_960,
        ),
        ({"requests": 2000}, {"runDeadlineSeconds": 0}, None),
    ],
)
def test_the_least_of_all_times_ends_the_run(
    budget: Any, changes: dict[str, Any], seconds: int | None
) -> None:
    server = {"image": "a", "resources": {"limits": {"nvidia.com/gpu": 2}}}
    found = plan_of(auto(**{"budget": budget, "server": server} | changes))
    assert found.max_seconds == seconds


@pytest.mark.parametrize(
    ("values", "requests", "budget", "most"),
    [
        (("2",), 100, 1000, 10),
        (("2",), 10, 200_000, 90),  # The last look.
        (tuple(map(str, range(1, 9))), 10, 200_000, 32),  # 256 stages in all.
        (("2", "8"), 100, 200, 1),
    ],
)
def test_a_load_point_gets_what_the_budget_leaves_when_all_others_are_decided(
    values: tuple[str, ...], requests: int, budget: int, most: int
) -> None:
    of = auto(*values, requests=requests, budget={"requests": budget})
    assert of.most_repeats == most
    assert len(planned_stages(of, run_uid="u")) == most * len(values)


def test_the_estimate_ends_with_the_budget() -> None:
    found = estimate(auto())
    assert (found.stages, found.requests) == (38, 2000)
    assert estimate(auto(budget={"requests": 100_000})).requests == 18_000
    # Only one repeat is certain.
    assert estimate(auto(requests=80)).gpu_seconds == 80 // 2 + 80 // 8


def test_only_one_process_sends() -> None:
    of = auto(
        "4000",
        requests=8000,
        client={"parallelism": "Auto"},
        budget={"requests": 50_000},
    )
    assert division_of(of).shards == 1
    assert division_of(of.model_copy(update={"repeats": 1})).shards > 1


def repeat(
    load: str, number: int, sequence: int, *, ends: bool = False
) -> StageRecord:
    return record(
        f"chat/rate={load}/r{number}",
        sequence=sequence,
        load=load_at("RequestRate", load),
        probe=Probe(ends_search=ends),
    )


@pytest.mark.parametrize(
    ("load", "number", "sequence", "problem"),
    [
        ("2", 19, 37, None),
        ("8", 1, 0, None),
        ("2", 20, 0, "none of the plan"),
        ("3", 1, 0, "none of the plan"),
        ("2", 1, 38, "too high"),
    ],
)
def test_a_record_is_of_a_stage_that_there_may_be(
    load: str, number: int, sequence: int, problem: str | None
) -> None:
    listed, repeated = chosen_stages(auto(), stage_ids(auto(), run_uid="u"))
    envelope = seal(repeat(load, number, sequence))[0]
    found = problem_with(envelope, listed, (), repeated)
    assert (found is None) if problem is None else (problem in (found or ""))


def test_another_workload_cannot_end() -> None:
    listed, repeated = chosen_stages(auto(), stage_ids(auto(), run_uid="u"))
    envelope = seal(repeat("2", 1, 0, ends=True))[0]
    assert envelope.ends_search == "chat"
    assert problem_with(envelope, listed, (), repeated) is None
    other = envelope.model_copy(update={"ends_search": "other"})
    assert "can't end" in (problem_with(other, listed, (), repeated) or "")


def test_a_load_point_has_its_repeats_up_to_the_last_that_came() -> None:
    records = [repeat("2", 1, 0), repeat("2", 3, 2)]
    found = measured_load_points(auto(), records)
    assert {each.id: len(each.stage_ids) for each in found} == {
        "chat/rate=2": 3,
        "chat/rate=8": 1,
    }
