"""Each rule between fields is told twice, in CEL and in Python: both must find the same broken, and say the same of it."""

from __future__ import annotations

from typing import Any

import pytest
from benchrun.api import MUTABLE_FIELDS, BenchmarkRunSpec
from benchrun.api.schema.crd import spec_schema
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.api.agreement import broken_in_cel, broken_in_python
from unit.api.generated_specs import EDITS, RUN_SPECS
from unit.api.spec_cases import ACCEPTED, REFUSED, Refused, Spec, minimal

SCHEMA = spec_schema()
IN_OUR_WORDS = {name: case for name, case in REFUSED.items() if case.message is not None}


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()])
def test_what_is_accepted_breaks_no_rule(spec: Spec) -> None:
    assert broken_in_python(BenchmarkRunSpec, spec) == (set(), False)
    assert broken_in_cel(spec, SCHEMA) == set()


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in IN_OUR_WORDS.items()])
def test_what_is_refused_in_our_words_breaks_that_rule_alone(case: Refused) -> None:
    spec = minimal(case.changes)
    assert broken_in_python(BenchmarkRunSpec, spec) == ({(case.path, case.message)}, False)
    assert broken_in_cel(spec, SCHEMA) == {(case.path, case.message)}


@settings(max_examples=400)
@given(RUN_SPECS)
def test_a_spec_that_python_takes_the_api_server_takes_and_the_other_way_round(spec: Spec) -> None:
    in_python, something_else = broken_in_python(BenchmarkRunSpec, spec)
    in_cel = broken_in_cel(spec, SCHEMA)
    assert not something_else
    assert bool(in_python) == bool(in_cel)
    # Python puts no rule to an object whose parts are broken; what it does find is found by both, in the same words.
    assert in_python <= in_cel


def change(**fields: Any) -> set[tuple[str, str]]:
    """Rules about change that are broken where these fields of a full spec become others; None takes a field away."""
    old = minimal({"objectives": [{"metric": "TTFT", "maxMilliseconds": 5}], "client": {"image": "c"}, "cancel": False})
    new = {name: value for name, value in {**old, **fields}.items() if value is not None}
    return broken_in_cel(new, SCHEMA, old=old)


def test_every_field_has_an_edit() -> None:
    assert set(EDITS) == set(SCHEMA["properties"])


@pytest.mark.parametrize("field", sorted(set(EDITS) - set(MUTABLE_FIELDS)))
def test_a_field_that_was_measured_can_not_become_another(field: str) -> None:
    assert change(**{field: EDITS[field]}) == {(f"spec.{field}", f"spec.{field} is immutable; create a new run")}


@pytest.mark.parametrize("field", MUTABLE_FIELDS)
def test_how_long_and_whether_it_runs_may_change(field: str) -> None:
    assert change(**{field: EDITS[field]}) == set()


@pytest.mark.parametrize("field", ["server", "objectives", "client"])
def test_a_field_that_was_measured_can_not_go(field: str) -> None:
    assert change(**{field: None}) == {(f"spec.{field}", f"spec.{field} is immutable; create a new run")}


def test_a_default_written_out_is_no_change() -> None:
    assert change(repeats=1, validity={"maxFailedPercent": "1"}) == set()


def test_an_end_can_not_be_taken_back() -> None:
    ended = minimal({"cancel": True})
    assert broken_in_cel(ended, SCHEMA, old=ended) == set()
    assert broken_in_cel(minimal({"cancel": False}), SCHEMA, old=ended) == {
        ("spec.cancel", "cancel can't be taken back; create a new run")
    }


@given(st.sets(st.sampled_from(sorted(EDITS)), max_size=4))
def test_of_several_edits_those_are_refused_that_are_refused_alone(fields: set[str]) -> None:
    edits = {field: EDITS[field] for field in fields}
    assert {path for path, _ in change(**edits)} == {f"spec.{field}" for field in fields - set(MUTABLE_FIELDS)}
