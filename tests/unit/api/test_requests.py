"""Fields of a request that only the operator can refuse: the API server knows nothing of them."""

from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.api.base import first_problem
from benchrun.api.requests import MAX_JSON_BYTES, OWNED
from pydantic import ValidationError
from unit.api.spec_cases import minimal

AT = "spec.workloads[0].request"


def refusal(path: str, value: Any) -> str:
    """Return why a spec with this value in its request is refused."""
    changes = {"workloads.0.api": "Chat", f"workloads.0.request.{path}": value}
    with pytest.raises(ValidationError) as caught:
        BenchmarkRunSpec.model_validate(minimal(changes))
    return first_problem(caught.value)


@pytest.mark.parametrize("name", sorted(OWNED))
def test_what_the_client_sets_is_refused_with_a_remedy(name: str) -> None:
    assert refusal("extraBody", {name: 1}) == (
        f"{AT}.extraBody: {name} is the client's: {OWNED[name]}"
    )


@pytest.mark.parametrize("path", ["extraBody", "chat.templateArguments"])
def test_an_object_is_bounded(path: str) -> None:
    long = refusal(path, {"x": "a" * MAX_JSON_BYTES})
    assert long.startswith(f"{AT}.{path}: has {MAX_JSON_BYTES + 9} bytes as JSON")
    assert f"{AT}.{path}" in refusal(path, {str(n): n for n in range(65)})
    deep: Any = 1
    for _ in range(70):
        deep = [deep]
    assert "nested" in refusal(path, {"x": deep})


def test_a_number_that_json_has_not_is_refused() -> None:
    assert refusal("extraBody", {"x": float("nan")}) == (
        f"{AT}.extraBody: must have only values of JSON"
    )
