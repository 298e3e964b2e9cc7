"""How much of a list has room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import accumulate
from typing import TypeVar

_T = TypeVar("_T")


def as_many_as_fit(given: Iterable[_T], size_of: Callable[[_T], int], room: int) -> list[_T]:
    """The first of them, up to the first that has no room any more."""
    each = list(given)
    return [item for item, upto in zip(each, accumulate(map(size_of, each)), strict=True) if upto <= room]


def size_bytes(text: str) -> int:
    """Of a text."""
    return len(text.encode())
