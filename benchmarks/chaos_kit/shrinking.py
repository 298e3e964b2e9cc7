"""The shortest sequence of faults that still fails, by delta debugging."""

from collections.abc import Generator, Sequence
from typing import TypeVar

T = TypeVar("T")


def shrinking(
    failing: Sequence[T],
) -> Generator[tuple[T, ...], bool, tuple[T, ...]]:
    """Yield what to try; expect to be sent whether that fails, too.

    Return the shortest sequence that is known to fail. A caller that stops before the end keeps the
    last one that failed.
    """
    known = tuple(failing)
    parts = 2
    while len(known) > 1:
        parts = min(parts, len(known))
        for tried in _candidates(known, parts):
            if (yield tried):
                parts = max(2, parts - 1) if len(tried) > len(known) // parts else 2
                known = tried
                break
        else:
            if parts == len(known):
                break
            parts *= 2
    return known


def _candidates(known: tuple[T, ...], parts: int) -> list[tuple[T, ...]]:
    """Return each part alone, then everything but one part."""
    edges = [len(known) * n // parts for n in range(parts + 1)]
    spans = [(edges[n], edges[n + 1]) for n in range(parts)]
    alone = [known[begin:end] for begin, end in spans]
    without = [known[:begin] + known[end:] for begin, end in spans]
    return alone + (without if parts > 2 else [])
