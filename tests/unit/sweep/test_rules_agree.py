"""The rules of sweeps, told in CEL and in Python: both find the same broken, and say the same of it."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api.schema.sweep_crd import spec_schema
from benchrun.api.sweep.spec import MUTABLE_FIELDS, BenchmarkSweepSpec
from hypothesis import given, settings
from unit.api.agreement import broken_in_cel, broken_in_python
from unit.api.spec_cases import Refused, minimal
from unit.sweep.generated_sweeps import SWEEP_SPECS
from unit.sweep.spec_cases import ACCEPTED, REFUSED, Spec, sweep

SCHEMA = spec_schema()
IN_OUR_WORDS = {name: case for name, case in REFUSED.items() if case.message is not None}
EDITS: dict[str, Any] = {
    "template": minimal({"repeats": 2}),
    "matrix": {"variants": [{"name": "other"}]},
    "baseline": "base",
    "replications": 2,
    "order": "AsListed",
    "maxParallel": 2,
    "maxRetries": 2,
    "maxFailed": 1,
    "gpuSecondsBudget": 60,
    "suspend": True,
    "cancel": True,
}


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()])
def test_what_is_accepted_breaks_no_rule(spec: Spec) -> None:
    assert broken_in_python(BenchmarkSweepSpec, spec) == (set(), False)
    assert broken_in_cel(spec, SCHEMA) == set()


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in IN_OUR_WORDS.items()])
def test_what_is_refused_in_our_words_breaks_that_rule_alone(case: Refused) -> None:
    assert broken_in_python(BenchmarkSweepSpec, dict(case.changes)) == ({(case.path, case.message)}, False)
    assert broken_in_cel(dict(case.changes), SCHEMA) == {(case.path, case.message)}


@settings(max_examples=300)
@given(SWEEP_SPECS)
def test_a_sweep_that_python_takes_the_api_server_takes_and_the_other_way_round(spec: Spec) -> None:
    in_python, something_else = broken_in_python(BenchmarkSweepSpec, spec)
    in_cel = broken_in_cel(spec, SCHEMA)
    assert not something_else
    assert bool(in_python) == bool(in_cel)
    assert in_python <= in_cel


def test_every_field_has_an_edit() -> None:
    assert set(EDITS) == set(SCHEMA["properties"])


@pytest.mark.parametrize("field", EDITS)
def test_what_is_measured_can_not_be_changed_and_how_far_it_goes_can(field: str) -> None:
    old = sweep({})
    broken = broken_in_cel(old | {field: EDITS[field]}, SCHEMA, old=old)
    said = (f"spec.{field}", f"spec.{field} is immutable; create a new sweep")
    assert broken == (set() if field in MUTABLE_FIELDS else {said})


def test_an_end_can_not_be_taken_back() -> None:
    assert broken_in_cel(sweep({}), SCHEMA, old=sweep({"cancel": True})) == {
        ("spec.cancel", "cancel can't be taken back; create a new sweep")
    }
