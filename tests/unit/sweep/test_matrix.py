"""The matrix: how many variants it makes, in which order, and what they are called."""

import math
from itertools import permutations
from typing import Any

import pytest
from benchrun.api.sweep import MAX_VARIANTS, Matrix, combinations, named
from hypothesis import assume, given, strategies as st
from pydantic import ValidationError
from unit.sweep.generated_sweeps import MATRICES, axis


def matrix(body: dict[str, Any]) -> Matrix:
    return Matrix.model_validate(body)


def names(body: dict[str, Any]) -> list[str]:
    return [name for name, _ in combinations(matrix(body))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"variants": [{"name": "b"}, {"name": "a"}]}, ["b", "a"]),
        ({"grid": [axis("a", ["1", "2"])]}, ["a=1", "a=2"]),
        ({"zip": [axis("a", ["1", "2"])]}, ["a=1", "a=2"]),
        ({"grid": [axis("b", ["1", "2"]), axis("a", ["3", "4"])]}, ["b=1,a=3", "b=1,a=4", "b=2,a=3", "b=2,a=4"]),
        ({"zip": [axis("b", ["1", "2"]), axis("a", ["3", "4"])]}, ["b=1,a=3", "b=2,a=4"]),
        ({"grid": [axis("a", ["1"]), axis("b", ["2"]), axis("c", ["3", "4"])]}, ["a=1,b=2,c=3", "a=1,b=2,c=4"]),
    ],
)
def test_variants_come_as_listed_the_last_axis_fastest(body: dict[str, Any], expected: list[str]) -> None:
    assert names(body) == expected


@given(MATRICES)
def test_every_matrix_that_is_taken_makes_variants_each_of_its_own_name(body: dict[str, Any]) -> None:
    try:
        made = matrix(body)
    except ValidationError:
        assume(False)
        return
    found = names(body)
    assert len(found) == len(set(found))
    assert 1 <= len(found) <= MAX_VARIANTS
    assert [named(made, name) for name in found] == found


@given(MATRICES)
def test_a_variant_is_meant_by_its_parts_in_any_order(body: dict[str, Any]) -> None:
    try:
        made = matrix(body)
    except ValidationError:
        assume(False)
        return
    for name in names(body)[:3]:
        for parts in list(permutations(name.split(",")))[:6]:
            assert named(made, ",".join(parts)) == name


@given(MATRICES, st.text(alphabet="abv=,12", max_size=8))
def test_no_other_name_means_one(body: dict[str, Any], name: str) -> None:
    try:
        found = named(matrix(body), name)
    except ValidationError:
        assume(False)
        return
    assert found is None or sorted(found.split(",")) == sorted(name.split(","))


@pytest.mark.parametrize(
    ("sizes", "taken"),
    [([32], True), ([2, 16], True), ([2, 2, 2, 2, 2], True), ([3, 11], False), ([2, 17], False), ([32, 2], False)],
)
def test_a_grid_has_at_most_32_variants(sizes: list[int], taken: bool) -> None:
    body = {"grid": [axis(f"a{n}", [str(v) for v in range(size)]) for n, size in enumerate(sizes)]}
    if taken:
        assert len(names(body)) == math.prod(sizes)
    else:
        with pytest.raises(ValidationError, match=f"the grid has {math.prod(sizes)} variants; the limit is 32"):
            matrix(body)


def test_of_a_zip_the_lengths_count_and_not_their_product() -> None:
    axes = [axis(f"a{n}", [str(v) for v in range(32)]) for n in range(5)]
    assert len(names({"zip": axes})) == 32
    with pytest.raises(ValidationError, match="axes of a zip must have the same number of values"):
        matrix({"zip": [axis("a", ["1", "2"]), axis("b", ["1"])]})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"grid": [axis("a", ["1"]), axis("a", ["2"])]}, "'a' is listed twice"),
        ({"grid": [axis("a", ["1", "1"])]}, "'1' is listed twice"),
        ({"variants": [{"name": "v"}, {"name": "v"}]}, "'v' is listed twice"),
    ],
)
def test_a_name_is_given_once(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        matrix(body)


def test_what_is_laid_over_is_that_of_each_axis_in_order() -> None:
    body = {"grid": [axis("a", ["1", "2"]), axis("b", ["3"])]}
    assert [[settings.args for settings in laid] for _, laid in combinations(matrix(body))] == [
        [["--a=1"], ["--b=3"]],
        [["--a=2"], ["--b=3"]],
    ]
