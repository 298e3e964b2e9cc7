"""What a section is built of. A block says what is shown; the template of its name says how."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from benchrun.report.rows import ABSENT, Rows

ChartSpec = Mapping[str, object]
"""Vega-Lite."""
_SHORT = 34
_FIGURE = re.compile(r"[-+]?[0-9][0-9.,/e+-]*( ?%)?\??")


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph."""

    text: str
    kind: ClassVar[str] = "prose"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The word a page begins with."""

    word: str
    message: str
    meaning: str
    kind: ClassVar[str] = "verdict"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text. Columns that hold a verdict or an outcome are coloured by their words, which stay legible without."""

    caption: str
    rows: Rows
    words: frozenset[str] = frozenset()
    """Headers of columns with a verdict, an outcome or a severity."""
    folded: bool = False
    """Collapsed until it is clicked: data behind a chart."""
    stacked: bool = False
    """Long sentences: on a narrow screen the cells of a row stand below each other."""
    kind: ClassVar[str] = "table"

    def is_numeric(self, column: int) -> bool:
        """Whether it holds figures, which stand flush right."""
        cells = [row[column] for row in self.rows.rows if row[column] != ABSENT]
        return bool(cells) and all(_FIGURE.fullmatch(cell) for cell in cells)

    def is_short(self, column: int) -> bool:
        """Whether its cells stand on one line each."""
        return all(len(row[column]) <= _SHORT for row in self.rows.rows)


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot with its title and, in words, what it shows."""

    title: str
    spec: ChartSpec
    description: str
    """For screen readers: what is drawn, and where the same data are in text."""
    wide: bool = False
    """Scrolls sideways on a narrow screen; others shrink to it."""
    kind: ClassVar[str] = "chart"


@dataclass(frozen=True, slots=True)
class Charts:
    """Plots side by side where there is room."""

    charts: tuple[Chart, ...]
    kind: ClassVar[str] = "charts"


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks behind a line to click on."""

    summary: str
    blocks: tuple[Block, ...]
    kind: ClassVar[str] = "fold"


@dataclass(frozen=True, slots=True)
class FoundCard:
    """One finding; its evidence is collapsed."""

    code: str
    severity: str
    where: str
    meaning: str
    remedy: str
    sentence: str
    """The evidence in words."""
    evidence: Sequence[tuple[str, str]]
    kind: ClassVar[str] = "found"


@dataclass(frozen=True, slots=True)
class Facts:
    """Names and values."""

    title: str
    pairs: tuple[tuple[str, str], ...]
    kind: ClassVar[str] = "facts"


def facts(title: str, pairs: Iterable[tuple[str, str | None]]) -> Facts:
    """Those that have a value."""
    return Facts(title, tuple((name, value) for name, value in pairs if value))


@dataclass(frozen=True, slots=True)
class Code:
    """Text kept as it is."""

    label: str
    text: str
    kind: ClassVar[str] = "code"


@dataclass(frozen=True, slots=True)
class Heading:
    """Of a part of a section."""

    text: str
    kind: ClassVar[str] = "heading"


Block = Prose | Verdict | Table | Chart | Charts | Fold | FoundCard | Facts | Code | Heading


@dataclass(frozen=True, slots=True)
class Section:
    """A part of the page, reachable by its anchor."""

    anchor: str
    title: str
    blocks: tuple[Block, ...]
