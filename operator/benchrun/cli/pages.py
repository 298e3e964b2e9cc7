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

What can be wrong with a measurement. In `status.findings` each has a code, a severity, the numbers it rests on, and a
line each of what it means and what to do; its page says the rest. The page of a code is `docs/findings/CODE.md`, and
`benchrun explain CODE` prints it; `benchrun explain` prints this list.

| severity | what follows |
|---|---|
| Invalid | The number is wrong, or means something else. Condition `Valid` is False, and commands exit with 4. |
| Suspect | It may be. Condition `Valid` is True with the reason `Suspect`. |
| Note | Worth knowing. The load point stays Valid. |

`validity.severities` in the spec changes a severity or switches a rule off, and the result says so. A rule whose input is
missing finds nothing, and [NotChecked](NotChecked.md) names it. Every line that a rule draws stands with its reason in
`operator/benchrun/judge/thresholds.py`; `benchrun judge` judges a finished run anew by other thresholds.

In the order in which results list them:

| code | severity | what was found |
|---|---|---|
"""
