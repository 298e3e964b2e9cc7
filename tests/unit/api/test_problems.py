"""The line that says what is wrong with a spec that the operator was handed."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, first_problem
from pydantic import ValidationError
from unit.api.spec_cases import absent, minimal


def problem(changes: dict[str, Any], **options: str) -> str:
    with pytest.raises(ValidationError) as refused:
        BenchmarkRunSpec.model_validate(minimal(changes))
    return first_problem(refused.value, **options)


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"repeats": 0}, "spec.repeats: Input should be greater than or equal to 1"),
        ({"model": absent()}, "spec.model: Field required"),
        (
            {"workloads.0.load": {}},
            "spec.workloads[0].load: load must set exactly one of requestRates, concurrencies, search, traceSpeeds and batchSizes; "
            "a workload that is only part of a mix has no load, requests or durationSeconds",
        ),
        ({"workloads.0.load.requestRates": ["1", "0"]}, "spec.workloads[0].load.requestRates[1]: must be above 0"),
        ({"server.env": [{"name": "A"}]}, "spec.server.env[0]: must set exactly one of value and valueFrom"),
        (
            {"repeats": 100, "workloads.0.load.requestRates": ["1", "2", "3"]},
            "spec.repeats: 3 load points x 100 repeats = 300 stages; the limit is 256",
        ),
        (
            {"repeats": 0, "model.zebra": 1, "workloads.0.api": "x"},
            "spec.model.zebra: Extra inputs are not permitted (and 2 more)",
        ),
    ],
)
def test_the_first_problem_is_reported_at_its_field_and_the_others_are_counted(
    changes: dict[str, Any], line: str
) -> None:
    assert problem(changes) == line


def test_a_field_of_two_types_is_named_without_them() -> None:
    assert problem({"server.resources": {"limits": {"cpu": "many"}}}).startswith("spec.server.resources.limits.cpu: ")


def test_the_root_may_be_another() -> None:
    assert problem({"repeats": 0}, root="spec.template").startswith("spec.template.repeats: ")


def test_what_stood_there_is_not_repeated() -> None:
    assert "hunter2" not in problem({"server.env": [{"name": "KEY", "value": ["hunter2"]}]})
