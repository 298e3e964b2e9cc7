"""What is kept of many points."""

import random
from itertools import pairwise

import pytest
from benchrun.measure import Distribution, spans
from benchrun.measure.metrics_page import Sample
from benchrun.report.html.theme import CDF_POINTS, SPANS, cdf_points
from hypothesis import given, strategies as st


def distribution(count: int) -> Distribution:
    draw = random.Random(count)
    return Distribution.of(draw.lognormvariate(3, 1) for _ in range(count))


def test_a_small_distribution_is_kept_whole() -> None:
    assert cdf_points(Distribution.of([3.0, 1.0, 2.0, 2.0])) == [
        (1.0, 0.25),
        (2.0, 0.75),
        (3.0, 1.0),
    ]


@pytest.mark.parametrize("count", [CDF_POINTS + 1, 1_000, 50_000])
def test_a_large_one_has_at_most_so_many_points(count: int) -> None:
    points = cdf_points(distribution(count))
    assert CDF_POINTS / 2 < len(points) <= CDF_POINTS + 1
    assert points[-1][1] == 1.0


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=2000))
def test_every_point_is_one_of_the_distribution(values: list[int]) -> None:
    ordered = sorted(values)
    for value, share in cdf_points(Distribution.of(values)):
        rank = round(share * len(ordered))
        assert ordered[rank - 1] == value


def test_points_ascend_to_the_greatest_value() -> None:
    whole = distribution(10_000)
    points = cdf_points(whole)
    assert all(a[0] <= b[0] and a[1] < b[1] for a, b in pairwise(points))
    assert points[-1][0] == whole.values[-1]


def test_the_tail_has_points_of_its_own() -> None:
    shares = [share for _, share in cdf_points(distribution(50_000))]
    assert sum(share > 0.999 for share in shares) >= 10


def sample(
    at: float, running: float | None, pod: str = "a", kv_cache: float | None = None
) -> Sample:
    return Sample(
        at=at,
        role="server",
        pod=pod,
        running=running,
        waiting=0.0,
        kv_cache=kv_cache,
    )


def test_no_spike_is_lost() -> None:
    samples = [
        sample(float(second), 100.0 if second == 4_321 else 1.0)
        for second in range(10_000)
    ]
    found = spans(samples, origin=0.0, at_most=SPANS)
    assert len(found) <= SPANS
    assert max(span.running.high for span in found if span.running) == 100.0


def test_a_hole_stays_a_hole() -> None:
    samples = [
        sample(float(second), 1.0) for second in [*range(100), *range(200, 300)]
    ]
    found = spans(samples, origin=0.0, at_most=50)
    assert any(span.running is None for span in found)
    assert all(
        span.running is not None
        for span in found
        if span.end <= 99 or span.start >= 200
    )


def test_few_samples_make_no_holes() -> None:
    samples = [sample(second + 0.2 * (second % 3), 1.0) for second in range(40)]
    assert all(
        span.running is not None
        for span in spans(samples, origin=0.0, at_most=SPANS)
    )


def test_requests_of_servers_add_up_and_their_caches_are_averaged() -> None:
    samples = [sample(1.0, 2.0, "a", 0.2), sample(1.1, 3.0, "b", 0.4)]
    (found,) = spans(samples, origin=0.0, at_most=SPANS)
    assert found.running is not None
    assert found.kv_cache_percent is not None
    assert found.running.mean == 5.0
    assert found.kv_cache_percent.mean == pytest.approx(30.0)


def test_time_counts_from_the_origin() -> None:
    found = spans(
        [sample(1000.0, 1.0), sample(1010.0, 1.0)], origin=990.0, at_most=SPANS
    )
    assert found[0].start == 10.0


def test_nothing_read_is_nothing_shown() -> None:
    assert spans([], origin=0.0, at_most=SPANS) == []
