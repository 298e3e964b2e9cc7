"""What datasets want to know of a tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Protocol

from benchrun_client.tokenizer import Api


class Counting(Protocol):
    """Counts tokens the way the server will."""

    def count(self, texts: Sequence[str], *, api: Api) -> list[int]:
        """Tokens of each text as a prompt of its own."""
        ...

    def shared_prefix(self, *, api: Api, after: str = "") -> int:
        """Tokens that every prompt begins with that begins with this text."""
        ...


def repeated_by(text: str, *, counter: Counting, api: Api) -> int:
    """Tokens that a common beginning adds to what every prompt begins with anyway."""
    return counter.shared_prefix(api=api, after=text) - counter.shared_prefix(api=api) if text else 0


def common_start(one: str, other: str) -> str:
    """What both begin with."""
    return one[: sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))]
