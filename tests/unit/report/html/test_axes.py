"""Axes: linear or logarithmic, with ticks that can be read, and not flattened by one wide
interval."""

from collections.abc import Mapping
from typing import Any

import pytest
from benchrun.report.html.sections.comparison import Bar, reach
from benchrun.report.html.sections.timeline import time_unit
from benchrun.report.html.theme import (
    MAX_TICKS,
    RAMP,
    latency_axis,
    load_axis,
    log_ticks,
    ramp,
)
from hypothesis import given, strategies as st


def scale_of(axis: Mapping[str, Any]) -> str:
    kind: str = axis["scale"].get("type", "linear")
    return kind


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        pytest.param([10, 20, 100], "linear", id="narrow"),
        pytest.param([10, 500], "log", id="wide"),
        pytest.param([0, 500], "log", id="from zero"),
        pytest.param([0], "linear", id="only zero"),
        pytest.param([], "linear", id="nothing"),
        pytest.param([1, float("inf")], "linear", id="no end"),
    ],
)
def test_latencies_are_logarithmic_where_they_span_much(
    values: list[float], kind: str
) -> None:
    assert scale_of(latency_axis(values, from_zero=True)) == kind


def test_loads_are_logarithmic_where_they_span_much_and_each_has_its_tick() -> None:
    assert scale_of(load_axis([1, 2, 4], "users")) == "linear"
    wide: Any = load_axis([64, 1, 8], "users")
    assert scale_of(wide) == "log"
    assert wide["axis"]["values"] == [1, 8, 64]


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (8, 130, [10, 20, 50, 100]),
        (1, 100_000, [1, 10, 100, 1_000, 10_000, 100_000]),
        (30, 40, []),
        (30, 60, [50]),
    ],
)
def test_ticks_of_a_logarithmic_axis_are_round(
    low: float, high: float, ticks: list[float]
) -> None:
    assert log_ticks(low, high) == pytest.approx(ticks)


@given(st.floats(1e-3, 1e6), st.floats(12, 1e9))
def test_a_wide_axis_always_has_ticks_and_never_a_heap(
    low: float, ratio: float
) -> None:
    assert 1 <= len(log_ticks(low, low * ratio)) <= max(MAX_TICKS, 11)


@pytest.mark.parametrize(
    ("seconds", "unit"), [(60, "s"), (600, "min"), (20_000, "h")]
)
def test_time_counts_in_small_numbers(seconds: float, unit: str) -> None:
    assert time_unit(seconds)[0] == unit


@pytest.mark.parametrize("count", range(1, len(RAMP) + 1))
def test_loads_that_are_drawn_together_differ_in_colour(count: int) -> None:
    assert len(set(ramp(count))) == count


def bar(change: float, low: float | None = None, high: float | None = None) -> Bar:
    return Bar("chat/rate=4", change, low, high, "Better", "")


def test_one_wide_interval_does_not_flatten_the_other_bars() -> None:
    low, high = reach([bar(-10, -100, 999_900), bar(4, 2, 6)], 5.0)
    assert (low, high) == (-15, 15)


def test_all_changes_and_the_limit_are_in_sight() -> None:
    low, high = reach([bar(-40, -45, -30), bar(3)], 5.0)
    assert low <= -40
    assert high >= 5


def test_no_change_at_all_still_has_an_axis() -> None:
    low, high = reach([bar(0.0)], None)
    assert low < 0 < high
