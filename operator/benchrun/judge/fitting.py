"""Results cut to their share of the status, the least missed first; what was cut is said.

The status stays under 100 kB whatever the spec asks for: 64 cells of 52 figures and 16 objectives would be 200 kB. All of
it can be had from the records, which are kept whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from benchrun.api.status import Result, Truncated
from benchrun.measure.cells import percentile_word

MAX_RESULTS_BYTES = 72_000
"""Leaves 28 kB for findings, conditions, servers and the tail of a log."""

_Cut = Callable[[Result], Result]


def fitted(
    results: Sequence[Result], *, max_bytes: int = MAX_RESULTS_BYTES
) -> tuple[tuple[Result, ...], tuple[Truncated, ...]]:
    """Cut, one kind of figure after the other until the rest fits, and last whole rows from the end."""
    whole = tuple(results)
    kept = whole
    for cut in _CUTS:
        if _size(kept) <= max_bytes:
            break
        kept = tuple(cut(row) for row in kept)
    kept = _fitting_rows(kept, max_bytes)
    return kept, _truncations(whole, kept)


def _without(prefix: str) -> _Cut:
    def cut(row: Result) -> Result:
        return row.model_copy(update={"metrics": {k: v for k, v in row.metrics.items() if not k.startswith(prefix)}})

    return cut


def _without_outcome(outcome: str) -> _Cut:
    def cut(row: Result) -> Result:
        return row.model_copy(update={"objectives": [o for o in row.objectives if o.outcome != outcome]})

    return cut


def _highest_percentile_only(row: Result) -> Result:
    percentiles = {float(key[1 : key.index("_")]) for key in row.metrics if _PERCENTILE.match(key)}
    highest = f"p{percentile_word(str(max(percentiles, default=0)))}_"
    kept = {k: v for k, v in row.metrics.items() if k.startswith(highest) or not _PERCENTILE.match(k)}
    return row.model_copy(update={"metrics": kept})


def _worst_objective_only(row: Result) -> Result:
    worst = sorted(row.objectives, key=lambda o: -(o.measured_milliseconds or 0) / o.max_milliseconds)
    return row.model_copy(update={"objectives": worst[:1]})


_PERCENTILE = re.compile(r"p[0-9.]+_")
_CUTS: tuple[_Cut, ...] = (
    _without("std_"),
    _without("median_"),
    _without_outcome("Met"),
    _without_outcome("Inconclusive"),
    _highest_percentile_only,
    _worst_objective_only,
)


def _bytes(row: Result) -> int:
    return len(row.model_dump_json(by_alias=True).encode()) + 1


def _size(rows: Sequence[Result]) -> int:
    return sum(_bytes(row) for row in rows)


def _fitting_rows(rows: Sequence[Result], max_bytes: int) -> tuple[Result, ...]:
    used, kept = 0, []
    for row in rows:
        used += _bytes(row)
        if used > max_bytes:
            break
        kept.append(row)
    return tuple(kept)


def _truncations(whole: Sequence[Result], kept: Sequence[Result]) -> tuple[Truncated, ...]:
    counts = (
        ("results", len(whole), len(kept)),
        ("results[].metrics", sum(len(r.metrics) for r in whole), sum(len(r.metrics) for r in kept)),
        ("results[].objectives", sum(len(r.objectives) for r in whole), sum(len(r.objectives) for r in kept)),
    )
    return tuple(
        Truncated(field=field, total=total, included=included) for field, total, included in counts if included < total
    )
