"""What the operator's models accept and refuse. `tests/cluster/test_validation.py` asks the API server the same questions."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api.crd import spec_schema
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.structural import Schema
from pydantic import ValidationError
from unit.api.spec_cases import ACCEPTED, REFUSED, Refused, Spec, minimal


def path_of(problem: Any) -> str:
    """A pydantic location written as the API server writes it."""
    return "spec" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in problem["loc"])


def with_defaults(value: Any, schema: Schema) -> Any:
    """What the API server makes of a value: absent fields that have a default are filled in, from the outside inwards."""
    if isinstance(value, list):
        return [with_defaults(entry, schema["items"]) for entry in value]
    if not isinstance(value, dict):
        return value
    if "additionalProperties" in schema:
        return {key: with_defaults(inner, schema["additionalProperties"]) for key, inner in value.items()}
    fields = schema.get("properties", {})
    filled = {name: child["default"] for name, child in fields.items() if "default" in child} | value
    return {name: with_defaults(inner, fields.get(name, {})) for name, inner in filled.items()}


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in REFUSED.items()])
def test_refused_where_the_fault_is(case: Refused) -> None:
    with pytest.raises(ValidationError) as refused:
        BenchmarkRunSpec.model_validate(minimal(case.changes))
    problems = refused.value.errors()
    assert [p for p in problems if path_of(p).startswith(case.path) or case.path.startswith(path_of(p))] == problems
    if case.message is not None:
        assert [p["msg"] for p in problems] == [case.message]


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()])
def test_defaults_of_the_crd_are_those_of_the_models(spec: Spec) -> None:
    assert BenchmarkRunSpec.model_validate(with_defaults(spec, spec_schema())) == BenchmarkRunSpec.model_validate(spec)


def test_unknown_fields_are_refused() -> None:
    with pytest.raises(ValidationError, match="tensorParallel"):
        BenchmarkRunSpec.model_validate(minimal({"server.tensorParallel": 2}))


def test_the_source_of_a_minimal_spec_is_the_hub() -> None:
    spec = BenchmarkRunSpec.model_validate(minimal())
    assert spec.model.source.hub is not None
    assert spec.measurement.percentiles == ["50", "95", "99"]
    assert spec.measurement.warmup.auto is not None
    assert spec.measurement.warmup.auto.max_seconds == 60
    assert spec.validity.max_failed_percent == "1"
