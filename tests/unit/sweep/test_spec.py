"""What the operator's models accept and refuse. `tests/cluster/test_sweep_validation.py` asks the API server the same."""

from __future__ import annotations

import pytest
from benchrun.api.schema.sweep_crd import spec_schema
from benchrun.api.sweep.spec import BenchmarkSweepSpec, combinations, count, named
from unit.api.agreement import assert_refused, with_defaults
from unit.api.spec_cases import Refused
from unit.sweep.spec_cases import ACCEPTED, REFUSED, Spec


@pytest.mark.parametrize("case", [pytest.param(case, id=name) for name, case in REFUSED.items()])
def test_refused_where_the_fault_is(case: Refused) -> None:
    assert_refused(BenchmarkSweepSpec, case.changes, case)


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()])
def test_defaults_of_the_crd_are_those_of_the_models(spec: Spec) -> None:
    filled = with_defaults(spec, spec_schema())
    assert BenchmarkSweepSpec.model_validate(filled) == BenchmarkSweepSpec.model_validate(spec)


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()])
def test_variants_are_counted_without_making_them(spec: Spec) -> None:
    matrix = BenchmarkSweepSpec.model_validate(spec).matrix
    names = [name for name, _ in combinations(matrix)]
    assert count(matrix) == len(names) == len(set(names))
    assert [named(matrix, name) for name in names] == names


def test_a_grid_is_every_combination_and_a_zip_goes_in_step() -> None:
    grid = BenchmarkSweepSpec.model_validate(ACCEPTED["a grid with a baseline in another order"])
    zipped = BenchmarkSweepSpec.model_validate(ACCEPTED["a zip"])
    assert [name for name, _ in combinations(grid.matrix)] == [
        "max-num-seqs=64,block-size=16",
        "max-num-seqs=64,block-size=32",
        "max-num-seqs=256,block-size=16",
        "max-num-seqs=256,block-size=32",
    ]
    assert [name for name, _ in combinations(zipped.matrix)] == [
        "max-num-seqs=64,block-size=16",
        "max-num-seqs=256,block-size=32",
    ]
    assert named(grid.matrix, "block-size=16,max-num-seqs=64") == "max-num-seqs=64,block-size=16"
