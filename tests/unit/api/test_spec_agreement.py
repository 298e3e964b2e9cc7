"""What the operator's models accept and refuse. `tests/cluster/test_validation.py` asks the API server the same questions."""

from __future__ import annotations

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.api.schema.crd import spec_schema
from pydantic import ValidationError
from unit.api.agreement import assert_refused, with_defaults
from unit.api.spec_cases import ACCEPTED, REFUSED, Refused, Spec, minimal


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in REFUSED.items()])
def test_refused_where_the_fault_is(case: Refused) -> None:
    assert_refused(BenchmarkRunSpec, minimal(case.changes), case)


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
