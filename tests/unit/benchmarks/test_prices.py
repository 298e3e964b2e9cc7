"""The battery of prices, on questions whose price is known."""

from collections.abc import Callable
from random import Random

import certainty
import pytest
from truth_kit import prices
from truth_kit.prices import Answer, Found, Setting, Size


def asked(told: float) -> Callable[[Size, Random], Answer]:
    """A question that 1000 requests decide, whatever is told."""

    def ask(size: Size, random: Random) -> Answer:
        if size.total >= 1000:
            return Answer(is_decided=True)
        return Answer(is_decided=False, told=Size(round(told), 1))

    return ask


@pytest.mark.parametrize(("told", "error"), [(1000, 0), (1300, 30), (500, 50)])
def test_what_is_told_is_held_against_what_it_takes(
    told: float, error: float
) -> None:
    seen = prices.found(Setting("a", Size(100, 1), asked(told)))
    assert seen is not None
    assert seen.told == told
    assert seen.takes == pytest.approx(1000, rel=0.05)
    assert seen.error_percent == pytest.approx(error, abs=7)
    assert seen.decided_percent == (0 if told < 1000 else 100)


@pytest.mark.parametrize(
    ("size", "told"),
    [
        pytest.param(Size(1000, 1), 1000, id="mostly decided"),
        pytest.param(Size(100, 1), 100, id="never near what is told"),
    ],
)
def test_what_cannot_be_held_against_anything_is_left_out(
    size: Size, told: float
) -> None:
    assert prices.found(Setting("a", size, asked(told))) is None


def test_repeats_grow_where_repeats_are_told() -> None:
    assert Size(200, 4).times(1.5, by_repeats=True) == Size(200, 6)
    assert Size(200, 1).times(1.5, by_repeats=False) == Size(300, 1)


def test_the_figures_are_medians_over_settings_and_over_measurements() -> None:
    seen = [
        Found("percentile: a", 110, 100, (110.0, 150.0), 90),
        Found("change: b", 50, 100, (50.0,), 40),
        Found("change: c", 120, 100, (120.0,), 85),
    ]
    found = certainty.figures(seen, left_out=2)
    assert (found.told_error_percent, found.told_error_change_percent) == (20, 35)
    assert found.told_error_percentile_percent == 10
    assert found.told_error_objective_percent is None
    assert found.told_error_each_percent == 35
    assert (found.told_decides_percent, found.settings, found.left_out) == (
        85,
        3,
        2,
    )
    assert list(found.beyond_limits()) == []
    assert len(list(certainty.figures(seen[1:2], left_out=0).beyond_limits())) == 1
    assert list(certainty.figures([], left_out=9).beyond_limits()) == []


def test_every_setting_has_a_name_of_its_own() -> None:
    names = [setting.name for setting in prices.settings()]
    assert len(set(names)) == len(names)
    assert all(name.startswith(certainty.KINDS) for name in names)
