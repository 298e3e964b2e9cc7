"""The operator's models, and the schemas of the definitions under Google's CEL, find the same
broken and give the same message.

`tests/cluster/test_validation.py` and `test_sweep_validation.py` put the same specs to an API
server."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import pytest
from benchrun.api import MUTABLE_FIELDS, BenchmarkRunSpec
from benchrun.api.crd import RUN, Schema
from benchrun.api.sweep import spec as sweeps
from hypothesis import given, settings, strategies as st
from pydantic import BaseModel, ValidationError
from unit.api import generated_specs, spec_cases
from unit.api.agreement import (
    assert_refused,
    broken_in_cel,
    broken_in_python,
    rules_broken,
    rules_of,
    with_defaults,
)
from unit.api.schemas import RUN_SPEC, SWEEP_SPEC
from unit.api.spec_cases import Refused, Spec, minimal
from unit.sweep import spec_cases as sweep_cases
from unit.sweep.generated_sweeps import SWEEP_SPECS


class Kind(NamedTuple):
    """A definition of ours, and specs of it."""

    model: type[BaseModel]
    schema: Schema
    mutable: tuple[str, ...]
    accepted: Mapping[str, Spec]
    refused: Mapping[str, Refused]
    spec: Callable[[Any], Spec]
    """A spec from the changes of a case."""
    edits: Mapping[str, Any]
    """Of every field, a value that `old` does not have."""
    old: Spec


RUN_EDITED = minimal(
    {
        "objectives": [{"metric": "TTFT", "maxMilliseconds": 5}],
        "client": {"image": "c"},
        "cancel": False,
    }
)
SWEEP_EDITS: dict[str, Any] = {
    "template": minimal({"repeats": 2}),
    "matrix": {"variants": [{"name": "other"}]},
    "baseline": "base",
    "replications": 2,
    "order": "AsListed",
    "maxParallel": 2,
    "maxRetries": 2,
    "compareStartup": True,
    "maxFailed": 1,
    "gpuSecondsBudget": 60,
    "suspend": True,
    "cancel": True,
}
KINDS = {
    "run": Kind(
        BenchmarkRunSpec,
        RUN_SPEC,
        MUTABLE_FIELDS,
        spec_cases.ACCEPTED,
        spec_cases.REFUSED,
        minimal,
        generated_specs.EDITS,
        RUN_EDITED,
    ),
    "sweep": Kind(
        sweeps.BenchmarkSweepSpec,
        SWEEP_SPEC,
        sweeps.MUTABLE_FIELDS,
        sweep_cases.ACCEPTED,
        sweep_cases.REFUSED,
        dict,
        SWEEP_EDITS,
        sweep_cases.sweep({}),
    ),
}
ACCEPTED = [
    pytest.param(kind, spec, id=f"{n}: {name}")
    for n, kind in KINDS.items()
    for name, spec in kind.accepted.items()
]
REFUSED = [
    pytest.param(kind, case, id=f"{n}: {name}")
    for n, kind in KINDS.items()
    for name, case in kind.refused.items()
]
FIELDS = [
    pytest.param(n, field, id=f"{n}.{field}")
    for n, kind in KINDS.items()
    for field in sorted(kind.edits)
]


@pytest.mark.parametrize(("kind", "spec"), ACCEPTED)
def test_accepted_breaks_no_rule_and_defaults_of_the_crd_are_those_of_the_model(
    kind: Kind, spec: Spec
) -> None:
    assert kind.model.model_validate(
        with_defaults(spec, kind.schema)
    ) == kind.model.model_validate(spec)
    assert broken_in_cel(spec, kind.schema) == set()


@pytest.mark.parametrize(("kind", "case"), REFUSED)
def test_refused_where_the_fault_is_by_that_rule_alone(
    kind: Kind, case: Refused
) -> None:
    spec = kind.spec(case.changes)
    assert_refused(kind.model, spec, case)
    if case.message is not None:
        ((path, message),) = broken_in_cel(spec, kind.schema)
        assert broken_in_python(kind.model, spec) == ({(path, message)}, False)
        assert path == case.path
        assert case.message in message


def test_every_rule_is_broken_by_a_case() -> None:
    """The cluster tests put the same cases to an API server: a rule without one is in neither."""
    every = {rule for kind in KINDS.values() for rule in rules_of(kind.schema)}
    broken = {
        rule
        for kind in KINDS.values()
        for case in kind.refused.values()
        if case.message is not None
        for rule in rules_broken(kind.spec(case.changes), kind.schema)
    }
    assert every - broken == set()


def assert_both_agree(kind: Kind, spec: Spec) -> None:
    in_python, something_else = broken_in_python(kind.model, spec)
    in_cel = broken_in_cel(spec, kind.schema)
    assert not something_else
    assert bool(in_python) == bool(in_cel)
    # Python puts no rule to an object whose parts are broken; what it does find is found by both,
    # in the same words.
    assert in_python <= in_cel


@settings(max_examples=30)
@given(generated_specs.RUN_SPECS)
def test_python_and_the_api_server_agree_on_runs(spec: Spec) -> None:
    assert_both_agree(KINDS["run"], spec)


@settings(max_examples=25)
@given(SWEEP_SPECS)
def test_python_and_the_api_server_agree_on_sweeps(spec: Spec) -> None:
    assert_both_agree(KINDS["sweep"], spec)


def test_unknown_fields_are_rejected() -> None:
    with pytest.raises(ValidationError, match="tensorParallel"):
        BenchmarkRunSpec.model_validate(minimal({"server.tensorParallel": 2}))


def change(kind: Kind, **fields: Any) -> set[tuple[str, str]]:
    """Rules about change that are broken where these fields of a full spec become others; None
    takes a field away."""
    new = {
        name: value
        for name, value in {**kind.old, **fields}.items()
        if value is not None
    }
    return broken_in_cel(new, kind.schema, old=kind.old)


@pytest.mark.parametrize("name", KINDS)
def test_every_field_has_an_edit(name: str) -> None:
    assert set(KINDS[name].edits) == set(KINDS[name].schema["properties"])


@pytest.mark.parametrize(("name", "field"), FIELDS)
def test_what_was_measured_cannot_become_another_and_how_far_it_goes_can(
    name: str, field: str
) -> None:
    kind = KINDS[name]
    refused = {(f"spec.{field}", f"spec.{field} is immutable; create a new {name}")}
    assert change(kind, **{field: kind.edits[field]}) == (
        set() if field in kind.mutable else refused
    )


@pytest.mark.parametrize("field", ["server", "objectives", "client"])
def test_a_field_that_was_measured_cannot_go(field: str) -> None:
    assert {path for path, _ in change(KINDS["run"], **{field: None})} == {
        f"spec.{field}"
    }


def test_a_default_written_out_is_no_change() -> None:
    assert (
        change(KINDS["run"], repeats=1, validity={"maxFailedPercent": "1"}) == set()
    )


@pytest.mark.parametrize("name", KINDS)
def test_an_end_cannot_be_taken_back(name: str) -> None:
    kind = KINDS[name]
    ended = {**kind.old, "cancel": True}
    assert broken_in_cel(ended, kind.schema, old=ended) == set()
    refused = {("spec.cancel", f"cancel can't be taken back; create a new {name}")}
    assert (
        broken_in_cel({**ended, "cancel": False}, kind.schema, old=ended) == refused
    )


@given(st.sets(st.sampled_from(sorted(generated_specs.EDITS)), max_size=4))
def test_edits_are_rejected_independently(fields: set[str]) -> None:
    edits = {field: generated_specs.EDITS[field] for field in fields}
    assert {path for path, _ in change(KINDS["run"], **edits)} == {
        f"spec.{field}" for field in fields - set(MUTABLE_FIELDS)
    }


RUN_OBJECT = RUN.root_schema()
BEFORE = {"acceptedTime": "2026-11-21T12:00:00Z"}
ENDED = {**BEFORE, "completionTime": "2026-11-21T13:00:00Z"}
DEADLINES = pytest.mark.parametrize(
    "field", ["startupDeadlineSeconds", "runDeadlineSeconds"]
)


def deadline_moved(
    field: str, seconds: int, *, to: int, status: Mapping[str, Any]
) -> set[tuple[str, str]]:
    """Rules that are broken where a deadline of a run in that state becomes another."""
    old, new = (
        {"spec": minimal({field: each}), "status": status} for each in (seconds, to)
    )
    return broken_in_cel(new, RUN_OBJECT, old=old, path="")


@DEADLINES
@pytest.mark.parametrize("to", [601, 0], ids=["more", "no limit"])
def test_a_deadline_is_not_raised_once_the_run_is_accepted(
    field: str, to: int
) -> None:
    """What releases servers where no operator runs would still go by the old one."""
    ((path, message),) = deadline_moved(field, 600, to=to, status=BEFORE)
    assert path == f".spec.{field}"
    assert field in message


@DEADLINES
@pytest.mark.parametrize(
    ("seconds", "to"), [(600, 599), (600, 600), (0, 600), (0, 0)]
)
def test_it_may_be_lowered(field: str, seconds: int, to: int) -> None:
    assert deadline_moved(field, seconds, to=to, status=BEFORE) == set()


@DEADLINES
@pytest.mark.parametrize("status", [{}, {"observedGeneration": 1}, ENDED], ids=str)
def test_it_may_be_raised_before_that_and_after_the_end(
    field: str, status: Mapping[str, Any]
) -> None:
    assert deadline_moved(field, 600, to=601, status=status) == set()
