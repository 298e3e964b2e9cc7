"""Values of config.json, each read as what its key has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from benchrun.sizing.layer_patterns import MOST, list_if_any, number_if_any, part_if_any, whole, whole_if_any
from benchrun.sizing.layers import UnknownShape


@pytest.mark.parametrize("value", [1, 2, 10**12])
def test_a_whole_number_is_above_0(value: int) -> None:
    assert whole({"n": value}, "n") == whole_if_any({"n": value}, "n") == number_if_any({"n": value}, "n") == value


def test_the_largest_is_beyond_any_model() -> None:
    assert MOST == 10**12


@pytest.mark.parametrize("value", [-1, 10**12 + 1, True, "1", 1.5, [1], {"a": 1}])
def test_what_is_no_whole_number_is_named_with_its_value(value: object) -> None:
    for read in (whole, whole_if_any):
        with pytest.raises(UnknownShape) as problem:
            read({"n": value}, "n")
        assert str(problem.value) == f"n is {value!r}"


@pytest.mark.parametrize("config", [{}, {"n": None}])
def test_what_is_not_there_is_missing_or_none(config: dict[str, Any]) -> None:
    with pytest.raises(UnknownShape, match=r"^config\.json does not say n$"):
        whole(config, "n")
    assert whole_if_any(config, "n") is None
    assert number_if_any(config, "n") is None
    assert list_if_any(config, "n") is None
    assert part_if_any(config, "n") == {}


@pytest.mark.parametrize("value", [0, False])
def test_nothing_may_stand_for_none_but_is_no_number(value: object) -> None:
    assert whole_if_any({"n": value}, "n") is None
    for read in (whole, number_if_any):
        with pytest.raises(UnknownShape) as problem:
            read({"n": value}, "n")
        assert str(problem.value) == f"n is {value!r}"


@pytest.mark.parametrize("value", [0.5, 1.0, 1e12])
def test_a_number_may_have_decimals(value: float) -> None:
    assert number_if_any({"n": value}, "n") == value


@pytest.mark.parametrize("value", [True, -0.5, 1e13, float("inf"), float("nan"), "0.5", []])
def test_what_is_no_number_is_named(value: object) -> None:
    with pytest.raises(UnknownShape) as problem:
        number_if_any({"n": value}, "n")
    assert str(problem.value) == f"n is {value!r}"


@pytest.mark.parametrize(("read", "good", "bad"), [(list_if_any, [1], {"a": 1}), (part_if_any, {"a": 1}, [1])])
def test_lists_and_objects_are_told_apart(read: Callable[..., Any], good: object, bad: object) -> None:
    assert read({"n": good}, "n") == good
    for wrong in (bad, "word", 5):
        with pytest.raises(UnknownShape) as problem:
            read({"n": wrong}, "n")
        assert str(problem.value) == f"n is {wrong!r}"
