"""The table of a sweep cut to its share of the status."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from itertools import chain

from benchrun.api import KEYS, SHOWN_FIGURES, TOTAL_COST, Truncated, Word
from benchrun.api.sweep import MAX_BEST, MAX_FRONT, MAX_ROWS, BestVariant, FoundLoad, FrontPoint, Row
from benchrun.judge.result_row import PER_GPU
from benchrun.judge.status_size import cut_to, json_bytes, truncations, without_changes

MAX_BYTES = 60_000
"""Of rows, best, front and searches together. Leaves 40 kB for variants, their messages, and conditions."""
_LEAST_MISSED: tuple[Word, ...] = (
    "NotComparable",
    "Equivalent",
    "NoDetectableDifference",
    "Unknown",
    "Better",
    "Worse",
)
_GIVEN_BY_OTHERS = (PER_GPU, KEYS["TotalTokenThroughput"], TOTAL_COST)
"""Figures that the remaining ones and the spec give, near enough."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What goes into the status."""

    rows: tuple[Row, ...]
    best: tuple[BestVariant, ...]
    front: tuple[FrontPoint, ...]
    searches: tuple[tuple[FoundLoad, ...], ...] = ()  # Of each variant, as listed.


_Cut = Callable[[Findings], Findings]


def fitted(whole: Findings, *, max_bytes: int = MAX_BYTES) -> tuple[Findings, tuple[Truncated, ...]]:
    """Changes of one word after the other, then who is tied, then figures, then entries from the ends. The words stay in the
    outcomes."""

    def size(found: Findings) -> int:
        return json_bytes([*found.rows, *found.best, *found.front, *chain(*found.searches)])

    most = replace(whole, rows=whole.rows[:MAX_ROWS], best=whole.best[:MAX_BEST], front=whole.front[:MAX_FRONT])
    kept = cut_to(max_bytes, most, size=size, cuts=_CUTS, shorter=_shorter)
    # Metrics of rows that are left out are not counted.
    metrics = [sum(len(row.metrics) for row in rows[: len(kept.rows)]) for rows in (whole.rows, kept.rows)]
    rows, *others = [(field, sum(of(whole)), sum(of(kept))) for field, of in _LISTS]
    return kept, truncations((rows, ("results[].metrics", metrics[0], metrics[1]), *others))


def _without_word(word: Word) -> _Cut:
    return lambda found: replace(found, rows=without_changes(found.rows, word))


def _without_figures(names: Collection[str]) -> _Cut:
    def cut(row: Row) -> Row:
        return row.model_copy(
            update={"metrics": {key: value for key, value in row.metrics.items() if key not in names}}
        )

    return lambda found: replace(found, rows=tuple(map(cut, found.rows)))


def _shorter(found: Findings) -> Findings:
    """The longest list loses a tenth of its end."""
    longest = max(("rows", "best", "front"), key=lambda name: len(getattr(found, name)))
    entries = getattr(found, longest)
    return replace(found, **{longest: entries[: len(entries) * 9 // 10]})


_CUTS: tuple[_Cut, ...] = (
    *map(_without_word, _LEAST_MISSED[:4]),
    lambda found: replace(found, best=tuple(best.model_copy(update={"tied_with": []}) for best in found.best)),
    lambda found: replace(found, rows=tuple(row.model_copy(update={"limit": None}) for row in found.rows)),
    _without_figures(tuple(SHOWN_FIGURES)),
    _without_figures(_GIVEN_BY_OTHERS),
    *map(_without_word, _LEAST_MISSED[4:]),
    lambda found: replace(found, searches=tuple(() for _ in found.searches)),
)
_LISTS: tuple[tuple[str, Callable[[Findings], Iterable[int]]], ...] = (
    ("results", lambda found: (1 for _ in found.rows)),
    ("results[].changes", lambda found: (len(row.changes) for row in found.rows)),
    ("results[].limit", lambda found: (row.limit is not None for row in found.rows)),
    ("best", lambda found: (1 for _ in found.best)),
    ("best[].tiedWith", lambda found: (len(best.tied_with) for best in found.best)),
    ("variants[].searches", lambda found: map(len, found.searches)),
    ("front", lambda found: (1 for _ in found.front)),
)
