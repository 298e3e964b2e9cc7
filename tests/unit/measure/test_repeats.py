"""Repeats that differ are told from repeats whose own noise sets them apart."""

import math
import statistics
from collections.abc import Sequence
from random import Random

import pytest
from benchrun.api import THROUGHPUTS
from benchrun.measure import (
    batch_means,
    cv_percent,
    fisher_p_value,
    groups_p_value,
    repeat_cv_percent,
    totals,
)
from benchrun_client.contract import StageRecord
from hypothesis import given, strategies as st
from unit.measure.noise import correlated
from unit.measure.records import record, requests

GROUPS = st.lists(st.lists(st.floats(0, 1e6), max_size=12), max_size=6)


def spread(groups: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Coefficient of variation in percent, and the chance that noise explains it."""
    return cv_percent(
        [statistics.fmean(group) for group in groups if group]
    ), groups_p_value(groups)


def test_a_worked_example() -> None:
    # Means 2, 5 and 8; between 54 / 2, within 6 / 6, neighbours that fall back to their mean: F =
    # 27 of (2, 6).
    cv, chance = spread([[1, 3, 2], [4, 6, 5], [7, 9, 8]])
    assert cv == pytest.approx(60)
    assert chance == pytest.approx(fisher_p_value(27, 2, 6))
    assert chance == pytest.approx(0.001)


@given(GROUPS)
def test_the_spread_is_the_sample_deviation_of_the_means(
    groups: list[list[float]],
) -> None:
    cv, chance = spread(groups)
    means = [statistics.fmean(group) for group in groups if group]
    if len(means) >= 2 and statistics.fmean(means) > 1e-3:
        expected = 100 * statistics.stdev(means) / statistics.fmean(means)
        assert cv == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert chance is None or 0 <= chance <= 1


@pytest.mark.parametrize(
    ("expected", "groups"),
    [
        pytest.param((None, None), [], id="none"),
        pytest.param((None, None), [[1.0, 2.0]], id="one"),
        pytest.param((None, None), [[1.0, 2.0], []], id="one and an empty one"),
        pytest.param((0.0, None), [[5.0], [5.0]], id="single values"),
        pytest.param((0.0, 1.0), [[5.0, 5.0], [5.0, 5.0]], id="all equal"),
        pytest.param((None, 1.0), [[0.0, 0.0], [0.0, 0.0]], id="all zero"),
    ],
)
def test_an_unknown_variation_is_none(
    expected: tuple[float | None, float | None], groups: list[list[float]]
) -> None:
    assert spread(groups) == expected


def test_repeats_without_noise_that_differ_differ_for_certain() -> None:
    assert groups_p_value([[5.0, 5.0], [6.0, 6.0]]) == 0


@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_noise_is_seldom_taken_for_repeats_that_differ(correlation: float) -> None:
    random = Random(21)
    alarms = 0
    for _ in range(100):
        repeats = [
            batch_means(correlated(random, 400, correlation=correlation))
            for _ in range(3)
        ]
        _, chance = spread(repeats)
        assert chance is not None
        alarms += chance < 0.01
    assert alarms <= 3


def test_neighbours_that_are_alike_lower_the_degrees_of_freedom() -> None:
    """Normal batches with a correlation of 0.6: nominal 0.1 % came out as 1.4 % with the degrees of
    freedom of all batches, and as
    0.9 % with those of the independent ones. The rest is the error of the estimated correlation."""
    random = Random(5)
    alarms = 0
    for _ in range(4000):
        repeats = []
        for _ in range(3):
            value = random.gauss(0, 1)
            batches = []
            for _ in range(20):
                value = 0.6 * value + 0.8 * random.gauss(0, 1)
                batches.append(10 + value)
            repeats.append(batches)
        alarms += (groups_p_value(repeats) or 0) < 0.001
    assert alarms <= 40, f"{alarms / 40:.2g} % instead of 0.1 %"


def test_one_repeat_that_is_slower_is_found() -> None:
    random = Random(22)
    for _ in range(20):
        repeats = [
            batch_means(correlated(random, 400, correlation=0.5, level=level))
            for level in (10, 10, 12)
        ]
        cv, chance = spread(repeats)
        assert chance is not None
        assert chance < 0.01
        assert cv == pytest.approx(10.8, abs=4)


FIGURES = {
    *("request_throughput", "output_throughput", "total_token_throughput"),
    *(f"mean_{latency}_ms" for latency in ("ttft", "tpot", "itl", "e2el")),
}


def stage(ttft_us: int, seconds: float = 10.0, tokens: int = 11) -> StageRecord:
    columns = requests(
        ttft_us=[ttft_us] * 2, e2el_us=[200_000] * 2, output_tokens=[tokens] * 2
    )
    return record(requests=columns, scalars={"duration": seconds})


def scatter(*records: StageRecord) -> dict[str, float]:
    """With the throughput of whole stages."""
    return repeat_cv_percent(
        records,
        [{key: totals([each])[key] for key in THROUGHPUTS} for each in records],
    )


def test_the_sample_formula() -> None:
    found = scatter(stage(90_000), stage(100_000), stage(110_000))
    assert found["mean_ttft_ms"] == pytest.approx(10.0)
    assert found["mean_e2el_ms"] == 0.0


def test_throughput() -> None:
    found = scatter(stage(1, seconds=10.0), stage(1, seconds=20.0))
    expected = 100 * (0.05 * math.sqrt(2)) / 0.15
    assert (
        found["request_throughput"]
        == found["output_throughput"]
        == pytest.approx(expected, rel=1e-4)
    )


def test_every_figure() -> None:
    assert set(scatter(record(), record())) == FIGURES


def test_one_repeat_has_no_scatter() -> None:
    assert scatter(record()) == {}
    assert scatter() == {}


def test_a_figure_that_repeats_do_not_have_is_left_out() -> None:
    assert set(scatter(stage(1, tokens=1), stage(2, tokens=1))) == FIGURES - {
        "mean_tpot_ms",
        "mean_itl_ms",
    }
