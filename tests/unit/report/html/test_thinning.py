"""What is kept of many points."""

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from benchrun.api import LatencyDistribution
from benchrun.judge import distributions, stage_results
from benchrun.judge.judged_run import TIMELINE_SPANS
from benchrun.measure import Distribution, role_timelines
from benchrun.measure.metrics_page import Sample
from benchrun.report.html.sections.distributions import cdf_points
from benchrun.report.html.timeline_spans import Span, spans


def distribution(count: int) -> LatencyDistribution:
    draw = random.Random(count)
    return of([1000 * draw.lognormvariate(3, 1) for _ in range(count)])


def of(microseconds: Sequence[float]) -> LatencyDistribution:
    found = distributions.distribution(
        Distribution.of(microseconds),
        stage_results.CURVE_PERCENTILES,
        milliseconds=True,
    )
    assert found is not None
    return found


def test_a_small_distribution_goes_through_its_values() -> None:
    points = cdf_points(of([3000.0, 1000.0, 2000.0, 2000.0]))
    assert points[0] == (1.0, 0.25)
    assert points[-1] == (3.0, 1.0)
    assert (2.0, 0.65) in points


@pytest.mark.parametrize("count", [1, 2, 1_000, 50_000])
def test_points_ascend_to_the_greatest_value(count: int) -> None:
    pool = distribution(count)
    points = cdf_points(pool)
    assert all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(points))
    assert points[-1] == (pool.greatest, 1.0)
    assert len(points) <= len(stage_results.CURVE_PERCENTILES) + 2


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


def shown(
    samples: Sequence[Sample], *, origin: float = 0.0, at_most: int = TIMELINE_SPANS
) -> list[Span]:
    timeline = role_timelines(samples, at_most=at_most)
    assert timeline is not None
    return spans(timeline, origin=origin)


def test_no_spike_is_lost() -> None:
    samples = [
        sample(float(second), 100.0 if second == 4_321 else 1.0)
        for second in range(10_000)
    ]
    found = shown(samples)
    assert len(found) <= TIMELINE_SPANS
    assert max(span.running.high for span in found if span.running) == 100.0


def test_a_hole_stays_a_hole() -> None:
    samples = [
        sample(float(second), 1.0) for second in [*range(100), *range(200, 300)]
    ]
    found = shown(samples, at_most=50)
    assert any(span.running is None for span in found)
    assert all(
        span.running is not None
        for span in found
        if span.end <= 99 or span.start >= 200
    )


def test_few_samples_make_no_holes() -> None:
    samples = [sample(second + 0.2 * (second % 3), 1.0) for second in range(40)]
    assert all(span.running is not None for span in shown(samples))


def test_requests_of_servers_add_up_and_their_caches_are_averaged() -> None:
    samples = [sample(1.0, 2.0, "a", 0.2), sample(1.1, 3.0, "b", 0.4)]
    (found,) = shown(samples)
    assert found.running is not None
    assert found.kv_cache_percent is not None
    assert found.running.mean == 5.0
    assert found.kv_cache_percent.mean == pytest.approx(30.0)


def test_roles_are_taken_together() -> None:
    samples = [
        sample(1.0, 2.0, "a", 0.2),
        sample(1.1, 2.0, "b", 0.2),
        replace(sample(1.2, 3.0, "c", 0.8), role="decode"),
    ]
    (found,) = shown(samples)
    assert found.running is not None
    assert found.kv_cache_percent is not None
    assert found.running.mean == 7.0
    assert found.kv_cache_percent.mean == pytest.approx(40.0)


def test_time_counts_from_the_origin() -> None:
    found = shown([sample(1000.0, 1.0), sample(1010.0, 1.0)], origin=990.0)
    assert found[0].start == 10.0


def test_nothing_read_is_nothing_shown() -> None:
    assert role_timelines([], at_most=TIMELINE_SPANS) is None
