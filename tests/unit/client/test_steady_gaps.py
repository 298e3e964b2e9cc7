"""Gaps between tokens of the steady part: those of its slices of time, and no others."""

from collections import Counter
from collections.abc import Mapping, Sequence

import pytest
from benchrun_client.contract import (
    GapCounts,
    GapSlices,
    Plateau,
    counted_gaps,
    failed_ratio,
)
from benchrun_client.stage_record import gap_counts, gap_slices
from unit.measure.records import requests

COLUMNS = requests(
    start_us=[0], ttft_us=[0], e2el_us=[4_000_000], output_tokens=[9]
)
"""A stage of four seconds, so of forty slices of 0.1 s."""


def stage(
    slices: Sequence[Mapping[int, int]],
) -> tuple[GapCounts, GapSlices | None]:
    counters = [Counter(each) for each in slices]
    return gap_counts(sum(counters, Counter[int]())), gap_slices(counters)


def part(start_us: int, end_us: int) -> Plateau:
    return Plateau(start_us, end_us, started=[0])


def test_gaps_of_slices_outside_the_part_do_not_count() -> None:
    ramp = [{5_000: 100}] * 10
    gaps, slices = stage([*ramp, *[{10_000: 60, 20_000: 40}] * 20, *ramp])
    found, kept = counted_gaps(COLUMNS, gaps, slices, part(1_000_000, 3_000_000))
    assert (found.us, found.count) == ((10_000, 20_000), (1200, 800))
    assert kept is not None
    assert kept.gaps == (100,) * 20


def test_a_slice_that_lies_in_the_part_only_in_part_does_not_count() -> None:
    gaps, slices = stage([{10_000: 7}] * 40)
    found, _ = counted_gaps(COLUMNS, gaps, slices, part(950_000, 3_050_000))
    assert found.count == (7 * 20,)


def test_gaps_between_two_edges_are_taken_evenly_and_the_longest_stays() -> None:
    """Of 400 lengths between 10 and 50 ms the part has every fourth, from the longest down."""
    lengths = [10_000 + 100 * i for i in range(400)]
    order = [place for first in (39, 38, 37, 36) for place in range(first, -1, -4)]
    gaps, slices = stage([dict.fromkeys(lengths[place::40], 1) for place in order])
    found, kept = counted_gaps(COLUMNS, gaps, slices, part(0, 1_000_000))
    assert kept is not None
    assert sum(found.count) == sum(kept.gaps) == 100
    assert found.us[-1] == lengths[-1]
    assert found.us[len(found.us) // 2] == pytest.approx(30_000, rel=0.02)


def test_the_whole_stage_counts_where_there_is_no_steady_part() -> None:
    gaps, slices = stage([{5_000: 1}, *[{10_000: 7}] * 39])
    assert counted_gaps(COLUMNS, gaps, slices, None) == (gaps, slices)


@pytest.mark.parametrize("window", [(1_010_000, 1_190_000), (1_000_000, 1_900_000)])
def test_a_part_without_a_slice_that_has_gaps_has_none(
    window: tuple[int, int],
) -> None:
    quiet = [{10_000: 7}] * 10 + [{}] * 10 + [{10_000: 7}] * 20
    gaps, slices = stage(quiet)
    assert counted_gaps(COLUMNS, gaps, slices, part(*window)) == (GapCounts(), None)
    assert counted_gaps(COLUMNS, gaps, None, part(0, 4_000_000)) == (
        GapCounts(),
        None,
    )


def test_gaps_that_were_rounded_over_an_edge_still_count() -> None:
    slices = GapSlices(edges_us=(9_999, 20_001), gaps=(10,) * 40, above=(8, 3) * 40)
    gaps = GapCounts(us=(10_000, 30_000), count=(280, 120))
    found, _ = counted_gaps(COLUMNS, gaps, slices, part(0, 2_000_000))
    assert found.count == (140, 60)


def test_failed_requests_count_by_those_of_the_part() -> None:
    ok = (0, 0, 1, 1, 0, 1)
    assert failed_ratio(ok, None) == 1
    assert failed_ratio(ok, Plateau(0, 1, started=[2, 3, 4])) == 0.5
    assert failed_ratio((0, 0), None) == 2
