"""The gaps between tokens (ITL) of the steady part of a stage. Pure.

A record counts the gaps of the whole stage exactly. For slices of time it only counts how many gaps
are longer than certain edges (`GapSlices`). So the number of gaps between two edges is known for
the steady part, but not which gaps of the stage these are: they are taken evenly from all gaps
between the same edges. Percentiles at an edge are therefore exact, others nearly so.
"""

import math
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

from benchrun_client.contract.record import GapCounts, GapSlices, RequestColumns
from benchrun_client.contract.steady_part import Plateau


def counted_gaps(
    requests: RequestColumns,
    gaps: GapCounts,
    slices: GapSlices | None,
    part: Plateau | None,
) -> tuple[GapCounts, GapSlices | None]:
    """Return the gaps that ended in the steady part, and their slices of time.

    `part` is the steady part; None means that the whole stage counts. Only slices that lie wholly
    in the part count. If there are none, no gap is returned.
    """
    if part is None:
        return gaps, slices
    kept = (
        None
        if slices is None
        else _slices_within(slices, _last_gap_us(requests), part)
    )
    if slices is None or kept is None:
        return GapCounts(), None
    return _taken_evenly(gaps, kept), kept


def failed_ratio(ok: Sequence[int], part: Plateau | None) -> float:
    """Return the ratio of failed to answered requests in `part` (None: the whole stage)."""
    counted = ok if part is None else [ok[position] for position in part.started]
    answered = sum(counted)
    return (len(counted) - answered) / max(1, answered)


def _last_gap_us(requests: RequestColumns) -> int:
    """Return the microseconds from a stage's first send to the end of its last gap between tokens.

    Return 0 if no answer of the stage has such a gap.
    """
    columns = (requests.start_us, requests.ttft_us, requests.e2el_us, requests.ok)
    rows = zip(*columns, strict=True)
    return max(
        (sent + e2el for sent, ttft, e2el, ok in rows if ok and e2el > ttft),
        default=0,
    )


def _slices_within(
    slices: GapSlices, last_us: int, part: Plateau
) -> GapSlices | None:
    length_us = last_us / len(slices.gaps)
    if not length_us:
        return None
    begin = math.ceil(part.start_us / length_us)
    end = math.floor(part.end_us / length_us)
    gaps = slices.gaps[begin:end]
    if not any(gaps):
        return None
    edges = len(slices.edges_us)
    above = slices.above[begin * edges : end * edges]
    return GapSlices(edges_us=slices.edges_us, gaps=gaps, above=above)


def _taken_evenly(gaps: GapCounts, kept: GapSlices) -> GapCounts:
    """Return as many gaps between neighbouring edges as the kept slices have there.

    They are taken evenly from all gaps between these edges.
    """
    counts = [0] * len(gaps.us)
    for begin, end, wanted in _between_edges(gaps.us, kept):
        through = list(accumulate(gaps.count[begin:end], initial=0))
        # From the longest down: which gaps are left out is not known, and the longest stays.
        above = [
            math.ceil(wanted * (through[-1] - each) / through[-1])
            for each in through
        ]
        counts[begin:end] = [a - b for a, b in pairwise(above)]
    found = [
        (us, count) for us, count in zip(gaps.us, counts, strict=True) if count
    ]
    return GapCounts(
        us=tuple(us for us, _ in found), count=tuple(count for _, count in found)
    )


def _between_edges(
    us: Sequence[int], kept: GapSlices
) -> Iterator[tuple[int, int, int]]:
    """Yield, for neighbouring edges, begin and end in `us`, and how many kept gaps lie between.

    Begin and end are positions, the end excluded. Because lengths were rounded, `us` may have none
    between two edges. The kept gaps there then count to the next longer lengths.
    """
    total = sum(kept.gaps)
    edges = len(kept.edges_us)
    through = [total - sum(kept.above[place::edges]) for place in range(edges)]
    ends = [bisect_right(us, edge) for edge in kept.edges_us]
    begin = 0
    before = 0
    for end, below in zip([*ends, len(us)], [*through, total], strict=True):
        if end > begin:
            yield begin, end, below - before
            begin = end
            before = below
