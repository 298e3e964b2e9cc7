"""A comparison cut to its share of the status: what did not change goes first, what got worse goes last."""

from __future__ import annotations

from collections.abc import Sequence

from benchrun.api.comparison import ComparedCell, Word
from benchrun.api.status import Truncated

MAX_COMPARISON_BYTES = 16_000
"""Of its load points."""
SHARE_BYTES = MAX_COMPARISON_BYTES + 3_000
"""Of the status: with its message, which the condition repeats."""
_ORDER: tuple[Word, ...] = ("NotComparable", "Unknown", "NoDetectableDifference", "Better")


def fitted_cells(
    cells: Sequence[ComparedCell], *, max_bytes: int = MAX_COMPARISON_BYTES
) -> tuple[tuple[ComparedCell, ...], tuple[Truncated, ...]]:
    """Changes of one word after the other, then whole load points from the end. The words of all stay in the message."""
    kept = tuple(cells)
    for word in _ORDER:
        if _size(kept) <= max_bytes:
            break
        kept = tuple(_without(cell, word) for cell in kept)
    while _size(kept) > max_bytes:
        kept = kept[:-1]
    return kept, _truncations(cells, kept)


def _without(cell: ComparedCell, word: Word) -> ComparedCell:
    return cell.model_copy(update={"changes": [change for change in cell.changes if change.word != word]})


def _size(cells: Sequence[ComparedCell]) -> int:
    return sum(len(cell.model_dump_json(by_alias=True, exclude_none=True).encode()) + 1 for cell in cells)


def _truncations(whole: Sequence[ComparedCell], kept: Sequence[ComparedCell]) -> tuple[Truncated, ...]:
    counts = (
        ("comparison.cells", len(whole), len(kept)),
        ("comparison.cells[].changes", sum(len(c.changes) for c in whole), sum(len(c.changes) for c in kept)),
    )
    return tuple(
        Truncated(field=field, total=total, included=included) for field, total, included in counts if included < total
    )
