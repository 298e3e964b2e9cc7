"""The table cut to its share of the status, the least missed first; what was cut is said."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from pydantic import BaseModel

from benchrun.api import KEYS, TOTAL_COST, Truncated, Word
from benchrun.api.sweep.status import MAX_BEST, MAX_FRONT, MAX_ROWS, BestVariant, FoundLoad, FrontPoint, Row
from benchrun.judge.row import PER_GPU
from benchrun.judge.sweep.measured import SERVER_FIGURES

MAX_BYTES = 60_000
"""Of rows, best, front and searches together. Leaves 40 kB for variants, their messages, and conditions."""
_LEAST_MISSED: tuple[Word, ...] = ("NotComparable", "NoDetectableDifference", "Unknown", "Better", "Worse")
_GIVEN_BY_OTHERS = (PER_GPU, KEYS["TotalTokenThroughput"], TOTAL_COST)
"""Figures that the remaining ones and the spec give, near enough."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What goes into the status."""

    rows: tuple[Row, ...]
    best: tuple[BestVariant, ...]
    front: tuple[FrontPoint, ...]
    searches: tuple[tuple[FoundLoad, ...], ...] = ()
    """Of each variant, as listed."""


_Cut = Callable[[Findings], Findings]


def fitted(whole: Findings, *, max_bytes: int = MAX_BYTES) -> tuple[Findings, tuple[Truncated, ...]]:
    """Changes of one word after the other, then who is tied, then figures, then entries from the ends. The words stay in the
    outcomes."""
    kept = replace(whole, rows=whole.rows[:MAX_ROWS], best=whole.best[:MAX_BEST], front=whole.front[:MAX_FRONT])
    for cut in _CUTS:
        if _size(kept) <= max_bytes:
            break
        kept = cut(kept)
    while _size(kept) > max_bytes:
        kept = _shorter(kept)
    return kept, _truncations(whole, kept)


def _without(word: Word) -> _Cut:
    def cut(found: Findings) -> Findings:
        rows = [
            row.model_copy(update={"changes": [change for change in row.changes if change.word != word]})
            for row in found.rows
        ]
        return replace(found, rows=tuple(rows))

    return cut


def _without_figures(names: Collection[str]) -> _Cut:
    def cut(found: Findings) -> Findings:
        rows = [
            row.model_copy(update={"metrics": {key: value for key, value in row.metrics.items() if key not in names}})
            for row in found.rows
        ]
        return replace(found, rows=tuple(rows))

    return cut


def _without_ties(found: Findings) -> Findings:
    return replace(found, best=tuple(best.model_copy(update={"tied_with": []}) for best in found.best))


def _without_searches(found: Findings) -> Findings:
    return replace(found, searches=tuple(() for _ in found.searches))


def _without_limits(found: Findings) -> Findings:
    return replace(found, rows=tuple(row.model_copy(update={"limit": None}) for row in found.rows))


_CUTS: tuple[_Cut, ...] = (
    *map(_without, _LEAST_MISSED[:3]),
    _without_ties,
    _without_limits,
    _without_figures(SERVER_FIGURES),
    _without_figures(_GIVEN_BY_OTHERS),
    *map(_without, _LEAST_MISSED[3:]),
    _without_searches,
)


def _shorter(found: Findings) -> Findings:
    """The longest list loses a tenth of its end."""
    lengths = {"rows": len(found.rows), "best": len(found.best), "front": len(found.front)}
    longest = max(lengths, key=lambda name: lengths[name])
    keep = lengths[longest] * 9 // 10
    return replace(found, **{longest: getattr(found, longest)[:keep]})


def _size(found: Findings) -> int:
    return _bytes(found.rows) + _bytes(found.best) + _bytes(found.front) + _bytes(chain(*found.searches))


def _bytes(entries: Iterable[BaseModel]) -> int:
    return sum(len(entry.model_dump_json(by_alias=True, exclude_none=True).encode()) + 1 for entry in entries)


def _truncations(whole: Findings, kept: Findings) -> tuple[Truncated, ...]:
    counts = (
        ("results", len(whole.rows), len(kept.rows)),
        ("results[].metrics", _metrics(whole.rows[: len(kept.rows)]), _metrics(kept.rows)),
        ("results[].changes", _changes(whole.rows), _changes(kept.rows)),
        ("results[].limit", _limits(whole.rows), _limits(kept.rows)),
        ("best", len(whole.best), len(kept.best)),
        ("best[].tiedWith", _ties(whole.best), _ties(kept.best)),
        ("variants[].searches", sum(map(len, whole.searches)), sum(map(len, kept.searches))),
        ("front", len(whole.front), len(kept.front)),
    )
    return tuple(
        Truncated(field=field, total=total, included=included) for field, total, included in counts if included < total
    )


def _changes(rows: Sequence[Row]) -> int:
    return sum(len(row.changes) for row in rows)


def _metrics(rows: Sequence[Row]) -> int:
    return sum(len(row.metrics) for row in rows)


def _limits(rows: Sequence[Row]) -> int:
    return sum(row.limit is not None for row in rows)


def _ties(best: Sequence[BestVariant]) -> int:
    return sum(len(each.tied_with) for each in best)
