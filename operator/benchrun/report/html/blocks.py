"""What a section is built of. A block says what is shown; the template of its name says how."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import yaml

from benchrun.names import API_VERSION
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
    """Opened by a click: data behind a chart."""
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
    """For those who can't see it: what is drawn, and where the same data stand."""
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
    """One finding."""

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


# ---- manifest text ----------------------------------------------------------------------------------------------------
# A manifest as YAML that reads as one would write it.

AGAIN = "-again"
_OF_THAT_OBJECT = ("suspend", "cancel")
"""Said to one object while it went on."""


def manifest_text(kind: str, name: str, namespace: str, spec: Mapping[str, object], *, max_name: int) -> str:
    """The same spec under another name."""
    metadata = {"name": _another(name, max_name), **({"namespace": namespace} if namespace else {})}
    body: Mapping[str, object] = {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
    text: str = yaml.dump(body, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
    return text


def asked_again(spec: Mapping[str, object], fields: Sequence[str]) -> dict[str, object]:
    """In the order of the reference, since the API server gives them by the alphabet; without what was said to that object."""
    kept = (name for name in spec if name not in _OF_THAT_OBJECT)
    return {name: spec[name] for name in sorted(kept, key=lambda each: _place(each, fields))}


def _place(field: str, fields: Sequence[str]) -> int:
    return fields.index(field) if field in fields else len(fields)


def _another(name: str, max_name: int) -> str:
    return name[: max_name - len(AGAIN)].rstrip("-.") + AGAIN


class _Plain(yaml.SafeDumper):
    """Without anchors: what is written twice reads better twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True
