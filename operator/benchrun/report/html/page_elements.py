"""The elements of a section. An element holds the content; the template of its name lays it out."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from benchrun.report.tables import ABSENT, Rows

ChartSpec = Mapping[str, object]  # A chart in Vega-Lite.
_SHORT = 34
_FIGURE = re.compile(r"[-+]?[0-9][0-9.,/e+-]*( ?%)?\??")


class Prose(NamedTuple):
    text: str


class Verdict(NamedTuple):
    """The verdict, or the phase, that a page begins with."""

    word: str
    message: str
    meaning: str


class Table(NamedTuple):
    """A table of text cells.

    Columns with a verdict or an outcome are coloured by their words, and the words can be read
    without the colours.
    """

    caption: str
    rows: Rows
    # Headers of the columns with a verdict, an outcome or a severity.
    words: frozenset[str] = frozenset()
    folded: bool = False  # Whether the table is collapsed until it is clicked: the data of a chart.
    stacked: bool = False
    """Whether the cells of a row stand below each other on a narrow screen, as suits long
    sentences."""

    def is_numeric(self, column: int) -> bool:
        """Return whether a column holds numbers, which are aligned on the right."""
        cells = [row[column] for row in self.rows.rows if row[column] != ABSENT]
        return bool(cells) and all(_FIGURE.fullmatch(cell) for cell in cells)

    def is_short(self, column: int) -> bool:
        """Return whether each cell of a column fits on one line."""
        return all(len(row[column]) <= _SHORT for row in self.rows.rows)


class Chart(NamedTuple):
    """A plot with its title, and a text that says what it shows."""

    title: str
    spec: ChartSpec
    description: str  # Text for screen readers: what is drawn, and where the same data are in text.
    wide: bool = False  # Whether it scrolls sideways on a narrow screen; other charts shrink to it.


class Charts(NamedTuple):
    """Plots that stand side by side if the page is wide enough."""

    charts: tuple[Chart, ...]


class Fold(NamedTuple):
    """Elements that are shown after a click on the summary."""

    summary: str
    elements: "tuple[Element, ...]"


class FindingCard(NamedTuple):
    """One finding, whose evidence is collapsed."""

    code: str
    severity: str
    where: str
    meaning: str
    remedy: str
    sentence: str  # The evidence in words.
    evidence: Sequence[tuple[str, str]]


class FactList(NamedTuple):
    title: str
    pairs: tuple[tuple[str, str], ...]


def facts(title: str, *pairs: tuple[str, str | None]) -> FactList:
    """Build a list of the facts that have a value."""
    return FactList(title, tuple((name, value) for name, value in pairs if value))


class CodeBlock(NamedTuple):
    label: str
    text: str


class Heading(NamedTuple):
    text: str


Element = (
    Prose
    | Verdict
    | Table
    | Chart
    | Charts
    | Fold
    | FindingCard
    | FactList
    | CodeBlock
    | Heading
)


class Section(NamedTuple):
    """A part of the page, with an anchor for links."""

    anchor: str
    title: str
    elements: tuple[Element, ...]


def section(anchor: str, title: str, *elements: Element) -> Section:
    """Build a section, leaving out empty elements: tables without rows and empty texts."""
    return Section(
        anchor,
        title,
        tuple(element for element in elements if _holds_something(element)),
    )


def fold(summary: str, *elements: Element) -> Fold:
    """Build a fold, leaving out empty elements; a fold without elements is not shown."""
    return Fold(
        summary, tuple(element for element in elements if _holds_something(element))
    )


def _holds_something(element: Element) -> bool:
    match element:
        case (
            Prose(held)
            | CodeBlock(_, held)
            | Charts(held)
            | Fold(_, held)
            | FactList(_, held)
        ):
            return bool(held)
        case Table():
            return bool(element.rows.rows)
    return True
