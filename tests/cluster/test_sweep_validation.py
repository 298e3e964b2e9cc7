"""The API server refuses a sweep that can't be run, naming the field, before anything is created.

The table of specs is shared with `tests/unit/api/test_rules_agree.py`: both sides must agree on
every one of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from benchrun.api import crd
from benchrun.api.sweep import MAX_NAME
from cluster.admission import (
    assert_immutable,
    assert_refused_at,
    create,
    edited,
    refusals,
)
from kit.kubectl import SWEEP, CommandFailed, Namespace, Object
from unit.api.agreement import with_defaults
from unit.api.spec_cases import Refused, minimal
from unit.sweep.spec_cases import ACCEPTED, REFUSED, Spec, sweep


def manifest(spec: Spec, *, name: str = "sweep") -> Object:
    """A BenchmarkSweep of that spec."""
    return {
        "apiVersion": "benchrun.dev/v1alpha1",
        "kind": "BenchmarkSweep",
        "metadata": {"name": name},
        "spec": spec,
    }


@pytest.fixture(scope="module")
def stored(namespace: Namespace) -> Iterator[Object]:
    """A sweep that exists, to be edited. It is suspended: an operator that sees it starts
    nothing."""
    yield create(
        namespace, manifest(sweep({"suspend": True}), name="stored"), dry_run=False
    )
    namespace.delete(SWEEP, "stored")


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=name) for name, case in REFUSED.items()]
)
def test_refused_at_the_field(namespace: Namespace, case: Refused) -> None:
    assert_refused_at(
        namespace,
        manifest(dict(case.changes)),
        path=case.path,
        message=case.message,
    )


@pytest.mark.parametrize(
    "spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()]
)
def test_accepted_with_the_documented_defaults(
    namespace: Namespace, spec: Spec
) -> None:
    assert create(namespace, manifest(spec))["spec"] == with_defaults(
        spec, crd.SWEEP.spec_schema()
    )


def test_names_must_leave_room_for_those_of_runs(namespace: Namespace) -> None:
    with pytest.raises(CommandFailed) as refused:
        create(namespace, manifest(sweep({}), name="s" * (MAX_NAME + 1)))
    assert str(MAX_NAME) in refusals(refused.value)["metadata.name"]
    assert create(namespace, manifest(sweep({}), name="s" * MAX_NAME))


IMMUTABLE: dict[str, Mapping[str, Any]] = {
    "template": {"template": {"repeats": 2}},
    "matrix": {"matrix": {"variants": [{"name": "other"}]}},
    "baseline": {"baseline": "base"},
    "replications": {"replications": 2},
    "order": {"order": "AsListed"},
}


@pytest.mark.parametrize("field", IMMUTABLE)
def test_what_is_measured_cannot_be_changed(
    namespace: Namespace, stored: Object, field: str
) -> None:
    assert_immutable(
        namespace, stored, field=field, patch=IMMUTABLE[field], what="sweep"
    )


@pytest.mark.parametrize(
    "patch",
    [
        {"maxParallel": 4},
        {"maxRetries": 3},
        {"maxFailed": 2},
        {"gpuSecondsBudget": 60},
        {"suspend": False},
        {"cancel": True},
    ],
    ids=str,
)
def test_how_far_it_goes_can_be_changed(
    namespace: Namespace, stored: Object, patch: Mapping[str, Any]
) -> None:
    assert edited(namespace, stored, patch) == stored["spec"] | patch


def test_unknown_fields_are_refused_by_name(namespace: Namespace) -> None:
    with pytest.raises(
        CommandFailed,
        match=r'unknown field "spec\.template\.server\.tensorParallel"',
    ):
        create(
            namespace, manifest(sweep({}, template={"server.tensorParallel": 2}))
        )


def test_a_run_template_is_what_a_run_is(namespace: Namespace) -> None:
    created = create(namespace, manifest(sweep({"template": minimal()})))
    run = create(
        namespace,
        {
            "apiVersion": "benchrun.dev/v1alpha1",
            "kind": "BenchmarkRun",
            "metadata": {"name": "run"},
            "spec": minimal(),
        },
    )
    assert created["spec"]["template"] == run["spec"]
