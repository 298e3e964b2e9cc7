"""The line that says what is wrong with a spec that the operator was handed."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, first_problem
from pydantic import ValidationError
from unit.api.spec_cases import absent, minimal
from unit.golden_messages import golden


def problem(changes: dict[str, Any], **options: str) -> str:
    with pytest.raises(ValidationError) as refused:
        BenchmarkRunSpec.model_validate(minimal(changes))
    return first_problem(refused.value, **options)


@pytest.mark.parametrize(
    "changes",
    [
        {"repeats": 0},
        {"model": absent()},
        {"workloads.0.load": {}},
        {"workloads.0.load.requestRates": ["1", "0"]},
        {"server.env": [{"name": "A"}]},
        {"repeats": 100, "workloads.0.load.requestRates": ["1", "2", "3"]},
        {"repeats": 0, "model.zebra": 1, "workloads.0.api": "x"},
    ],
)
def test_the_first_problem_is_reported_at_its_field_and_the_others_are_counted(
    changes: dict[str, Any],
) -> None:
    golden(problem(changes))


def test_a_field_of_two_types_is_named_without_them() -> None:
    assert problem({"server.resources": {"limits": {"cpu": "many"}}}).startswith(
        "spec.server.resources.limits.cpu: "
    )


def test_the_root_may_be_another() -> None:
    assert problem({"repeats": 0}, root="spec.template").startswith(
        "spec.template.repeats: "
    )


def test_what_stood_there_is_not_repeated() -> None:
    assert "hunter2" not in problem(
        {"server.env": [{"name": "KEY", "value": ["hunter2"]}]}
    )
