"""The outcome of a comparison, and what it rests on, in words that claim no more than was measured."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchrun.api.comparison import Change, ComparedCell, Scope
from benchrun.judge.comparison.gate import loss_percent

SCOPES: Mapping[Scope, str] = {
    "WithinOneServer": "within one server: the intervals hold the noise of repeats on one server a side, and another start "
    "of the same server may differ by more",
    "BetweenServers": "between servers: the intervals hold the noise of fresh servers",
}
_SPOKEN = (
    ("Better", "better"),
    ("Worse", "worse"),
    ("NoDetectableDifference", "without a detectable difference"),
    ("Unknown", "unknown"),
    ("NotComparable", "not comparable"),
)


def sentence(cells: Sequence[ComparedCell], scope: Scope, *, suspect: int, unknown: Sequence[str] = ()) -> str:
    """Counts of words, the most marked loss, what was left out, and the scope."""
    changes = [(cell.cell, change) for cell in cells for change in cell.changes]
    if not changes:
        first = next((f": {cell.cell}: {cell.reason}" for cell in cells), ": neither side has results")
        return f"no load point is comparable{first}"
    counts: Counter[str] = Counter(change.word for _, change in changes)
    told = ", ".join(f"{counts[word]} {spoken}" for word, spoken in _SPOKEN if counts[word])
    parts = [f"{len(changes)} figures: {told}", *_most_marked(changes)]
    left_out = [cell for cell in cells if cell.reason is not None]
    if left_out:
        parts.append(
            f"{len(left_out)} of {len(cells)} load points not comparable ({left_out[0].cell}: {left_out[0].reason})"
        )
    if suspect:
        parts.append(f"{suspect} of {len(cells)} load points Suspect")
    parts += unknown
    if any(change.low_percent is not None for _, change in changes):
        parts += ["intervals and words hold at 95 % over all figures together", SCOPES[scope]]
    return "; ".join(parts)


def _most_marked(changes: Sequence[tuple[str, Change]]) -> list[str]:
    """The worst of what got worse, else the best of what got better."""
    for word, spoken, sign in (("Worse", "the worst", 1), ("Better", "the best", -1)):
        found = [(cell, change) for cell, change in changes if change.word == word]
        if found:
            cell, change = max(found, key=lambda each: sign * (each[1].change_percent or 0) * _direction(each[1]))
            span = f"{change.low_percent:+.1f} to {change.high_percent:+.1f}"
            return [f"{spoken}: {change.metric} at {cell} {change.change_percent:+.1f} % ({span})"]
    return []


def _direction(change: Change) -> int:
    """1 where more is worse."""
    loss = loss_percent(change)
    return 1 if loss is not None and loss[0] == change.low_percent else -1
