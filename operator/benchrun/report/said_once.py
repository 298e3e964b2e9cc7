"""Say once what holds at several load points: equal sentences, with the range of their numbers."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_NUMBER = re.compile(r"(?<![\w./=:-])-?\d+(?:\.\d+)?(?![\w/:=-]|\.\d)")
"""A number that stands alone: not part of a name, such as a load point's."""
_SPAN = "# to #"
"""Two numbers that are a range by themselves: "from 2 to 3 to 8 to 9" can't be read."""


class ExplainedRow(NamedTuple):
    """An explanation of a load point."""

    load_point: str
    what: str
    word: str
    sentence: str
    evidence: Mapping[str, float | str | None]

    @property
    def key(self) -> tuple[object, ...]:
        """Return what is equal in explanations that are said once.

        Numbers of the evidence may differ, words must not. Without evidence nothing tells which
        numbers are counts and which are names, so the sentences must be equal. So must those that
        tell a range already.
        """
        words = tuple(
            sorted(
                (name, value)
                for name, value in self.evidence.items()
                if isinstance(value, str)
            )
        )
        told = _NUMBER.sub("#", self.sentence)
        if not self.evidence or _SPAN in told:
            told = self.sentence
        return self.what, self.word, told, words


def said_once(every: Sequence[ExplainedRow]) -> list[ExplainedRow]:
    """Return each explanation once, with all its load points, in the order of the first of them."""
    groups: dict[tuple[object, ...], list[ExplainedRow]] = {}
    for each in every:
        groups.setdefault(each.key, []).append(each)
    return [
        each[0]._replace(
            load_point=", ".join(dict.fromkeys(said.load_point for said in each)),
            sentence=with_ranges([said.sentence for said in each]),
        )
        for each in groups.values()
    ]


def with_ranges(sentences: Sequence[str]) -> str:
    """Return sentences that differ only in numbers as one, with the range of each number."""
    columns = zip(*map(_NUMBER.findall, sentences), strict=True)
    ranges = iter([_range(column) for column in columns])
    return _NUMBER.sub(lambda _: next(ranges), sentences[0])


def _range(numbers: Sequence[str]) -> str:
    low = min(numbers, key=float)
    high = max(numbers, key=float)
    return low if low == high else f"{low} to {high}"
