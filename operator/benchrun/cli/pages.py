"""The pages of findings (docs/findings), which an installed package and the operator's image bring along."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from benchrun.api.codes import Code
from benchrun.judge.finding import SEVERITIES

CHECKOUT = Path(__file__).parents[3] / "docs/findings"
"""Where the pages are written; an installation from a checkout reads them there."""


@dataclass(frozen=True, slots=True)
class Page:
    """One finding, explained."""

    code: Code
    text: str
    """Markdown."""

    @property
    def summary(self) -> str:
        """What was found, in a sentence: the first below the title."""
        return self._lead[0]

    @property
    def severity(self) -> str:
        """Severities it may have: "Suspect or Invalid"."""
        said = [word for word in SEVERITIES if word in re.findall(r"\w+", self._lead[1])]
        return " or ".join(said)

    @property
    def _lead(self) -> tuple[str, str]:
        """The paragraph below the title: its first sentence, and the one that names the severity."""
        paragraph = " ".join(self.text.split("\n\n")[1].split())
        first, _, severity = paragraph.partition(". ")
        return f"{first.removesuffix('.')}.", severity


def page_of(code: Code) -> Page | None:
    """The page of a code; None if the installation lacks it."""
    place = _folder() / f"{code}.md"
    return Page(code, place.read_text(encoding="utf-8")) if place.is_file() else None


def pages() -> list[Page]:
    """All there are, in the order of codes."""
    return [page for code in Code if (page := page_of(code)) is not None]


def index_text() -> str:
    """`docs/findings/README.md`: every finding with its severity and a line."""
    rows = [f"| [{page.code}]({page.code}.md) | {page.severity} | {page.summary} |\n" for page in pages()]
    return _INDEX_HEAD + "".join(rows)


def _folder() -> Traversable:
    installed = files("benchrun") / "findings"
    return installed if installed.is_dir() else CHECKOUT


_INDEX_HEAD = """\
# Findings

A finding is a problem with a measurement. `status.findings` has its code, its severity and the numbers behind it.
`benchrun explain CODE` prints the page of a code, `benchrun explain` prints this list.

| severity | meaning |
|---|---|
| Invalid | The figures are wrong, or answer another question. Condition `Valid` is False, and commands exit with 4. |
| Suspect | The figures may be wrong. Condition `Valid` is True with the reason `Suspect`. |
| Note | Good to know. The load point stays Valid. |

`validity.severities` in the spec changes a severity or switches a rule off; the result shows it. `benchrun judge --help`
lists every threshold, and `benchrun judge` re-evaluates a finished run with others.

Findings in the order of results:

| code | severity | finding |
|---|---|---|
"""
