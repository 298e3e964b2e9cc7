"""The pages of findings, docs/findings/<Code>.md: what a finding means and what to do about it."""

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import accumulate, takewhile
from pathlib import Path

from benchrun.api import Code

CHECKOUT = Path(__file__).parents[3] / "docs/findings"
"""Folder of the finding pages; an installation from a checkout reads them there."""
MAX_REMEDY_CHARS = 250


@dataclass(frozen=True, slots=True)
class Page:
    """The page of one code."""

    code: Code
    text: str  # Markdown.

    @property
    def summary(self) -> str:
        """Return what the page says was found: the first sentence below the title."""
        return f"{self._lead.partition('. ')[0].removesuffix('.')}."

    @property
    def severity(self) -> str:
        """Return the severities that this finding can have, such as "Suspect or Invalid"."""
        return " or ".join(self.code.severities)

    @property
    def meaning(self) -> str:
        """Return what the finding means for the numbers, without Markdown."""
        return _plain(self._section("What it means"))

    @property
    def remedy(self) -> str:
        """Return what to change, without Markdown.

        This is the first step of the page's list, and as many of the next steps as fit into
        MAX_REMEDY_CHARS.
        """
        steps = [
            _plain(step)
            for step in re.split(
                "^- ", self._section("What to do"), flags=re.MULTILINE
            )[1:]
        ]
        fitting = takewhile(
            lambda text: len(text) <= MAX_REMEDY_CHARS,
            accumulate(steps, "{} {}".format),
        )
        return max(fitting, key=len, default=steps[0])

    @property
    def _lead(self) -> str:
        return " ".join(self.text.split("\n\n")[1].split())

    def _section(self, title: str) -> str:
        return self.text.split(f"## {title}\n")[1].split("\n## ")[0]


@cache
def page_of(code: Code) -> Page:
    """Return the page of a code; an installation has a page for each code."""
    installed = files("benchrun") / "findings"
    folder = installed if installed.is_dir() else CHECKOUT
    return Page(code, (folder / f"{code}.md").read_text(encoding="utf-8"))


def _plain(markdown: str) -> str:
    return re.sub(r"\[(.*?)\]\(.*?\)", r"\1", " ".join(markdown.split())).replace(
        "`", ""
    )
