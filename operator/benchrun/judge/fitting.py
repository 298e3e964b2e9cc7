"""Results cut to their share of the status, the least missed first; what was cut is said.

The status stays under 100 kB whatever the spec asks for: 64 cells of 52 figures and 16 objectives would be 200 kB. All of
it can be had from the records, which are kept whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from benchrun.api.status import Result, Truncated

MAX_RESULTS_BYTES = 72_000
"""Leaves 28 kB for findings, conditions, servers and the tail of a log."""

_Cut = Callable[[Result], Result]


def fitted(results: Sequence[Result]) -> tuple[tuple[Result, ...], tuple[Truncated, ...]]:
    """Cut, one kind of figure after the other until the rest fits, and last whole rows from the end."""
    whole = tuple(results)
    kept = whole
    for cut in _CUTS:
        if _size(kept) <= MAX_RESULTS_BYTES:
            break
        kept = tuple(cut(row) for row in kept)
    kept = _fitting_rows(kept)
    return kept, _truncations(whole, kept)


def _without(prefix: str) -> _Cut:
    def cut(row: Result) -> Result:
        return row.model_copy(update={"metrics": {k: v for k, v in row.metrics.items() if not k.startswith(prefix)}})

    return cut


def _without_met_objectives(row: Result) -> Result:
    return row.model_copy(update={"objectives": [o for o in row.objectives if o.outcome != "Met"]})


def _without_inconclusive_objectives(row: Result) -> Result:
    return row.model_copy(update={"objectives": [o for o in row.objectives if o.outcome != "Inconclusive"]})


_CUTS: tuple[_Cut, ...] = (
    _without("std_"),
    _without("median_"),
    _without_met_objectives,
    _without_inconclusive_objectives,
)


def _bytes(row: Result) -> int:
    return len(row.model_dump_json(by_alias=True).encode()) + 1


def _size(rows: Sequence[Result]) -> int:
    return sum(_bytes(row) for row in rows)


def _fitting_rows(rows: Sequence[Result]) -> tuple[Result, ...]:
    used, kept = 0, []
    for row in rows:
        used += _bytes(row)
        if used > MAX_RESULTS_BYTES:
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
