"""The variants of a matrix: how many, and their names."""

import pytest
from benchrun.api.sweep import BenchmarkSweepSpec, combinations, named
from unit.sweep.spec_cases import ACCEPTED, Spec


@pytest.mark.parametrize("spec", [pytest.param(spec, id=name) for name, spec in ACCEPTED.items()])
def test_each_variant_has_its_own_name(spec: Spec) -> None:
    matrix = BenchmarkSweepSpec.model_validate(spec).matrix
    names = [name for name, _ in combinations(matrix)]
    assert len(names) == len(set(names))
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
