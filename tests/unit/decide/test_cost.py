"""What a decision costs that changes nothing, in things built: counts, no seconds."""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from benchrun import plan
from benchrun.api import BenchmarkRunSpec
from benchrun.decide import run_state
from benchrun.decide.run_state import PlannedStages
from unit.decide.scenes import SERVICE, Scene
from unit.decide.summaries import applied


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Count the calls of what builds much."""
    counts = Counter[str]()

    def counting(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            counts[function.__name__] += 1
            return function(*args, **kwargs)

        return counted

    monkeypatch.setattr(plan, "server_roles", counting(plan.server_roles))
    of_stages = counting(plan.stage_ids)
    monkeypatch.setattr("benchrun.decide.run_state.stage_ids", of_stages)
    return counts


def test_pods_of_servers_are_built_only_where_one_of_their_objects_is_missing(
    built: Counter[str],
) -> None:
    for scene, missing in (
        (Scene().server_loading(), []),
        (Scene().server_loading().without(*SERVICE), ["Service server"]),
        (Scene().client_ready(), ["Deployment server"]),
    ):
        built.clear()  # a scene is made with decisions of its own
        assert applied(scene.decide()) == missing
        assert built["server_roles"] == len(missing)


def test_stages_of_a_thousand_runs_are_planned_once(built: Counter[str]) -> None:
    planned = PlannedStages()
    spec = BenchmarkRunSpec.model_validate(Scene().spec)
    for _ in range(3):
        for number in range(1000):
            planned.of(spec, f"uid-{number}")
    assert built["stage_ids"] == 1000


def test_the_stages_that_were_used_last_are_kept(built: Counter[str]) -> None:
    spec = BenchmarkRunSpec.model_validate(Scene().spec)
    each = len(PlannedStages().of(spec, "any"))
    planned = PlannedStages(most_ids=2 * each)
    built.clear()
    for uid in ("a", "b", "a", "c", "a", "c"):
        planned.of(spec, uid)
    assert built["stage_ids"] == 3
    planned.of(spec, "b")
    assert built["stage_ids"] == 4


def test_what_no_status_changes_is_worked_out_once_in_a_decision(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    class Counting(PlannedStages):
        def of(self, spec: BenchmarkRunSpec, run_uid: str) -> tuple[str, ...]:
            asked.append(run_uid)
            return super().of(spec, run_uid)

    scene = Scene().server_loading()
    monkeypatch.setattr(run_state, "_planned", Counting())
    scene.decide()
    assert len(asked) == 1
