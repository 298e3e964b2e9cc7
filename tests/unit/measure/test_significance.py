"""Distributions and tests against scipy; what is not in scipy against worked examples, and how
often it errs."""

import math
import random
from collections.abc import Sequence
from importlib import import_module
from itertools import permutations, product
from random import Random
from types import ModuleType

import pytest
from benchrun.measure import (
    Contrast,
    at_equal_load,
    fisher_p_value,
    hochberg_levels,
    log_ratio_percent,
    mean_of,
    order_p_value,
    student_quantile,
    surplus,
    theil_sen_slope,
    trend,
    welch,
)
from benchrun_client.contract import regularized_beta, student_p_value
from hypothesis import given, strategies as st
from unit.measure.noise import correlated, queueing

DEGREES = st.floats(1, 10_000)
P_VALUES = st.lists(st.floats(0, 1), max_size=40)
SAMPLES = st.lists(st.floats(1, 1e6), min_size=2, max_size=20)
VALUES = st.lists(st.integers(0, 10**9), min_size=10, max_size=100)
SERIES = 200
"""For each bound on false alarms, with a fixed seed. Not tested: series shorter than their own
memory (a queue at 95 % load seen for 200 requests): nobody can tell those from a trend, and about
one in ten is taken for one."""


@pytest.fixture(scope="module")
def special() -> ModuleType:
    """SciPy takes a second to import."""
    return import_module("scipy.special")


@pytest.fixture(scope="module")
def stats() -> ModuleType:
    return import_module("scipy.stats")


@given(st.floats(0.1, 10_000), st.floats(0.1, 10_000), st.floats(0, 1))
def test_the_incomplete_beta_function(
    special: ModuleType, a: float, b: float, x: float
) -> None:
    assert regularized_beta(a, b, x) == pytest.approx(
        special.betainc(a, b, x), rel=1e-9, abs=1e-10
    )


@pytest.mark.parametrize(
    ("a", "b", "x"),
    [
        (2, 3, 0),
        (2, 3, -0.1),
        (2, 3, 1),
        (2, 3, 1.1),
        (500_000, 500_000, 0.5),
        (499_000, 501_000, 0.499),
    ],
)
def test_its_ends_and_large_parameters(
    special: ModuleType, a: float, b: float, x: float
) -> None:
    assert regularized_beta(a, b, x) == pytest.approx(
        special.betainc(a, b, min(1, max(0, x))), rel=1e-8
    )


@given(st.floats(0, 1000), DEGREES)
def test_students_p_value(stats: ModuleType, t: float, degrees: float) -> None:
    assert student_p_value(t, degrees) == pytest.approx(
        2 * stats.t.sf(t, degrees), rel=1e-8, abs=1e-10
    )


def test_a_tail_is_not_lost_to_rounding(stats: ModuleType) -> None:
    assert student_p_value(1e6, 10) == pytest.approx(
        2 * stats.t.sf(1e6, 10), rel=1e-8
    )
    assert student_p_value(3, 1e12) == pytest.approx(2 * stats.norm.sf(3), abs=1e-6)
    assert student_p_value(math.inf, 3) == 0


@given(st.floats(0.01, 0.999), DEGREES)
def test_students_quantile(
    stats: ModuleType, confidence: float, degrees: float
) -> None:
    assert student_quantile(confidence, degrees) == pytest.approx(
        stats.t.ppf((1 + confidence) / 2, degrees), rel=1e-7
    )


@given(st.floats(-1, 1000), st.integers(1, 60), st.integers(1, 200))
def test_fishers_p_value(
    stats: ModuleType, f: float, between: int, within: int
) -> None:
    assert fisher_p_value(f, between, within) == pytest.approx(
        stats.f.sf(f, between, within), rel=1e-7, abs=1e-12
    )


def between(first: Sequence[float], second: Sequence[float]) -> Contrast:
    return welch(mean_of(first), mean_of(second))


def ratio(first: Sequence[float], second: Sequence[float]) -> Contrast:
    """Of geometric means: a difference of logarithms."""
    return between([math.log(v) for v in first], [math.log(v) for v in second])


@given(
    st.lists(st.integers(1, 10_000), min_size=3, max_size=20, unique=True),
    st.lists(st.integers(1, 10_000), min_size=3, max_size=20, unique=True),
)
def test_welchs_test_and_interval(
    stats: ModuleType, first: list[int], second: list[int]
) -> None:
    found = between(first, second)
    expected = stats.ttest_ind(second, first, equal_var=False)
    low, high = expected.confidence_interval(0.95)
    assert found.p_value == pytest.approx(expected.pvalue, rel=1e-7, abs=1e-10)
    assert found.degrees_of_freedom == pytest.approx(expected.df)
    assert found.estimate - found.reach(0.95) == pytest.approx(
        low, rel=1e-7, abs=1e-6
    )
    assert found.estimate + found.reach(0.95) == pytest.approx(
        high, rel=1e-7, abs=1e-6
    )


@pytest.mark.parametrize(("p_value", "second"), [(1, [5.0, 5.0]), (0, [6.0, 6.0])])
def test_without_scatter_the_interval_is_a_point(
    p_value: float, second: list[float]
) -> None:
    found = between([5.0, 5.0], second)
    assert found.estimate == second[0] - 5
    assert (found.reach(0.95), found.p_value) == (0, p_value)


def test_a_change_in_percent() -> None:
    found = ratio(
        [99.0, 100.0, 101.0, 100.5, 99.5], [104.0, 105.0, 106.0, 105.5, 104.5]
    )
    reach = found.reach(0.95)
    assert log_ratio_percent(found.estimate) == pytest.approx(5, abs=0.01)
    assert (
        3.5
        < log_ratio_percent(found.estimate - reach)
        < 5
        < log_ratio_percent(found.estimate + reach)
        < 6.5
    )
    assert found.p_value < 0.001


@given(SAMPLES, SAMPLES, st.floats(0.001, 1000))
def test_a_ratio_knows_no_unit(
    first: list[float], second: list[float], unit: float
) -> None:
    one = ratio(first, second)
    other = ratio([unit * v for v in first], [unit * v for v in second])
    assert one.estimate == pytest.approx(other.estimate, rel=1e-6, abs=1e-9)
    assert one.reach(0.95) == pytest.approx(other.reach(0.95), rel=1e-5, abs=1e-9)


def test_an_interval_too_wide_for_a_number_is_without_bound() -> None:
    found = ratio([1e-300, 1e300], [1e-300, 1e300])
    reach = found.reach(0.95)
    assert (
        log_ratio_percent(found.estimate - reach),
        log_ratio_percent(found.estimate + reach),
    ) == (-100, math.inf)


def yes(p_values: list[float], *, error: float = 0.05) -> list[bool]:
    return [
        p <= level
        for p, level in zip(
            p_values, hochberg_levels(p_values, error=error), strict=True
        )
    ]


@pytest.mark.parametrize(
    ("expected", "p_values"),
    [
        pytest.param([], [], id="none"),
        pytest.param([0.05], [0.3], id="one"),
        pytest.param(
            [0.05, 0.05, 0.05, 0.05],
            [0.04, 0.03, 0.04, 0.001],
            id="all at once, if the largest is small",
        ),
        pytest.param(
            [0.025, 0.025, 0.05],
            [0.02, 0.025, 0.06],
            id="the largest is not: half for the others",
        ),
        pytest.param(
            [0.05 / 3, 0.025, 0.025],
            [0.01, 0.026, 0.06],
            id="a third for the last, a no to the others",
        ),
        pytest.param([0.05 / 3] * 3, [0.02, 0.03, 0.06], id="none of three"),
        pytest.param([0.025, 0.025], [1.0, 1.0], id="equals are told alike"),
    ],
)
def test_levels(expected: list[float], p_values: list[float]) -> None:
    assert hochberg_levels(p_values, error=0.05) == pytest.approx(expected)


@given(P_VALUES)
def test_a_smaller_p_value_is_never_a_no_where_a_larger_is_a_yes(
    p_values: list[float],
) -> None:
    answers = sorted(zip(p_values, yes(p_values), strict=True))
    assert [answer for _, answer in answers] == sorted(
        (answer for _, answer in answers), reverse=True
    )


@given(P_VALUES)
def test_at_least_what_dividing_by_their_number_finds(
    p_values: list[float],
) -> None:
    divided = [p <= 0.05 / len(p_values) for p in p_values]
    assert all(
        found or not sure
        for found, sure in zip(yes(p_values), divided, strict=True)
    )


@pytest.mark.parametrize("together", [0.0, 0.5, 1.0])
def test_one_wrong_yes_in_twenty_families(together: float) -> None:
    """Five p-values a family, of nothing but chance, independent or moving together."""
    draw = random.Random(7)
    families = 4000
    wrong = 0
    for _ in range(families):
        common = draw.random()
        wrong += any(
            yes(
                [
                    common if draw.random() < together else draw.random()
                    for _ in range(5)
                ]
            )
        )
    assert wrong / families < 0.06


@given(st.permutations(range(12)) | st.permutations(range(5)))
def test_the_order_of_one_series(stats: ModuleType, values: list[int]) -> None:
    expected = stats.kendalltau(range(len(values)), values, method="exact")
    assert order_p_value([values]) == pytest.approx(expected.pvalue, rel=1e-9)
    assert surplus(values) == round(expected.statistic * math.comb(len(values), 2))


@given(VALUES)
def test_the_slope_is_the_median_of_all(
    stats: ModuleType, values: list[int]
) -> None:
    assert theil_sen_slope(values) == pytest.approx(stats.theilslopes(values).slope)
    assert theil_sen_slope(values[:1]) == 0


@given(
    st.lists(st.integers(0, 64), min_size=4, max_size=60),
    st.floats(0, 3),
    st.floats(0, 2),
)
def test_at_equal_load_what_the_load_does_is_gone_and_a_slow_trend_is_not(
    stats: ModuleType, loads: list[int], effect: float, trend: float
) -> None:
    # There and back again: the trend of a palindrome's load is none.
    loads = [*loads, *reversed(loads)]
    values = [100 + effect * load for load in loads]
    mean = sum(loads) / len(loads)
    expected = 100 + effect * mean
    assert at_equal_load(values, loads) == pytest.approx([expected] * len(values))
    adjusted = at_equal_load(
        [value + trend * number for number, value in enumerate(values)], loads
    )
    assert stats.linregress(range(len(adjusted)), adjusted).slope == pytest.approx(
        trend, abs=1e-6
    )


@pytest.mark.parametrize(
    ("p_value", "series"),
    [
        pytest.param(1.0, [], id="nothing"),
        pytest.param(1.0, [[1], [2]], id="single values"),
        pytest.param(1.0, [[1, 2]], id="two in order"),
        pytest.param(2 / 24, [[1, 2, 3, 4]], id="four in order"),
        pytest.param(2 / 24, [[4, 3, 2, 1]], id="four in reverse"),
        pytest.param(1.0, [[7, 7, 7, 7]], id="equal values"),
        pytest.param(
            2 / 36, [[1, 2, 3], [7, 8, 9]], id="twice three, levels apart"
        ),
        pytest.param(1.0, [[1, 2, 3], [9, 8, 7]], id="against each other"),
        pytest.param(2 / 32, [[1, 2]] * 5, id="five pairs"),
    ],
)
def test_chance_of_a_common_order(
    p_value: float, series: Sequence[Sequence[float]]
) -> None:
    assert order_p_value(series) == pytest.approx(p_value)


def test_chances_are_those_of_all_orders() -> None:
    """Counted out: every order of a series of four beside every order of one of three."""
    orders = [
        (one, other)
        for one, other in product(permutations(range(4)), permutations(range(3)))
    ]
    for order in orders[::17]:
        seen = abs(sum(map(surplus, order)))
        as_far = sum(abs(sum(map(surplus, each))) >= seen for each in orders) / len(
            orders
        )
        assert order_p_value(order) == pytest.approx(as_far)


def test_many_series_cost_little_and_lose_no_digits() -> None:
    assert order_p_value([list(range(10))] * 64) < 1e-12
    assert order_p_value([[0, 1], [1, 0]] * 512) == 1.0


@given(VALUES, st.floats(1, 39))
def test_resemblance_of_neighbours_never_makes_an_order_rarer(
    values: list[int], inflation: float
) -> None:
    assert (
        0
        < order_p_value([values])
        <= order_p_value([values], inflation=inflation)
        <= 1
    )


@given(VALUES)
def test_any_series_has_a_trend_or_too_few_values(values: list[int]) -> None:
    found = trend(values)
    assert found is not None
    assert 0 <= found.p_value <= 1


@pytest.mark.parametrize("count", [0, 1, 9])
def test_too_few_values_have_none(count: int) -> None:
    assert trend(list(range(count))) is None


@pytest.mark.parametrize("level", [0, 7])
def test_a_constant_series_has_no_trend(level: int) -> None:
    found = trend([level] * 50)
    assert found is not None
    assert (found.relative_change, found.p_value) == (0, 1)


def test_the_change_is_from_begin_to_end_in_shares_of_the_mean() -> None:
    rising = trend([100 + i for i in range(100)])
    assert rising is not None
    assert rising.relative_change == pytest.approx(100 / 149.5)
    assert rising.p_value == 0
    falling = trend([300 - i for i in range(100)])
    assert falling is not None
    assert falling.relative_change == pytest.approx(-100 / 250.5)


def test_two_tests_of_a_series_cost_twice_the_chance() -> None:
    # Neighbours on opposite sides of a line: nothing is taken off for resemblance, and the steps
    # have no direction.
    values = [10 + i + (-3) ** (i % 2) for i in range(20)]
    found = trend(values)
    assert found is not None
    assert found.p_value == pytest.approx(2 * order_p_value([values]))
    assert 0 < found.p_value < 1e-6


@pytest.mark.parametrize(
    ("count", "correlation"), [(200, 0.0), (200, 0.5), (1000, 0.9)]
)
def test_noise_is_seldom_taken_for_a_trend(count: int, correlation: float) -> None:
    random = Random(11)
    found = [
        trend(correlated(random, count, correlation=correlation))
        for _ in range(SERIES)
    ]
    alarms = [each.p_value for each in found if each is not None]
    assert len(alarms) == SERIES
    assert sum(p < 0.05 for p in alarms) <= 0.05 * SERIES
    assert sum(p < 0.01 for p in alarms) <= 0.02 * SERIES


def test_a_busy_queue_is_seldom_taken_for_a_growing_one() -> None:
    random = Random(12)
    found = [
        trend(queueing(random, 400, utilisation=0.8)[40:]) for _ in range(SERIES)
    ]
    assert (
        sum(each is not None and each.p_value < 0.01 for each in found)
        <= 0.02 * SERIES
    )


def test_a_growing_queue_is_found() -> None:
    random = Random(13)
    found = [trend(queueing(random, 400, utilisation=1.5)[40:]) for _ in range(50)]
    assert (
        sum(
            each is not None and each.p_value < 0.01 and each.relative_change > 0.5
            for each in found
        )
        >= 49
    )


def test_a_slow_drift_under_noise_is_found() -> None:
    random = Random(14)
    for _ in range(20):
        noise = correlated(random, 1000, correlation=0.3)
        found = trend([value + 0.003 * i for i, value in enumerate(noise)])
        assert found is not None
        assert found.p_value < 0.05
        assert found.relative_change == pytest.approx(3 / 11.5, abs=0.15)
