"""`benchrun explain CODE`: the page of a finding. Needs no cluster."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from benchrun.api import Code
from benchrun.cli import errors
from benchrun.judge.rules import catalogue, rule
from benchrun.report.exit_codes import PASSED

CHECKOUT = Path(__file__).parents[4] / "docs/findings"
"""Where the pages are written; an installation from a checkout reads them there."""


@dataclass(frozen=True, slots=True)
class Page:
    """One finding, explained."""

    code: Code
    text: str
    """Markdown."""

    @property
    def lead(self) -> tuple[str, str]:
        """The first sentence below the title, and the severities of the second: "Suspect or Invalid"."""
        first, _, second = " ".join(self.text.split("\n\n")[1].split()).partition(". ")
        severities = [word for word in rule.SEVERITIES if word in re.findall(r"\w+", second)]
        return f"{first.removesuffix('.')}.", " or ".join(severities)


def page_of(code: Code) -> Page | None:
    """The page of a code; None if the installation lacks it."""
    installed = files("benchrun") / "findings"
    place = (installed if installed.is_dir() else CHECKOUT) / f"{code}.md"
    return Page(code, place.read_text(encoding="utf-8")) if place.is_file() else None


def pages() -> list[Page]:
    """All there are, in the order of codes."""
    return [page for code in Code if (page := page_of(code)) is not None]


DESCRIPTION = "What a finding means, how it is detected and what to do; without a code, the list of all."


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser("explain", help="explain a finding", description=DESCRIPTION)
    parser.add_argument("code", nargs="?", help="for example PrefixCacheContaminated")
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Show a page or the list. Raises CommandError for a code that does not exist."""
    if options.code is None:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for header in ("finding", "severity", "what was found"):
            table.add_column(header, overflow="fold")
        for page in pages():
            summary, severity = page.lead
            table.add_row(*map(Text, (page.code, severity, summary)))
        console.print(table)
        return PASSED
    code = next((code for code in Code if code.lower() == options.code.lower()), None)
    if code is None:
        raise errors.unknown("finding", options.code, list(Code))
    text = _text(code)
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")
    return PASSED


def _text(code: Code) -> str:
    """The page; of an installation without pages, what the status says."""
    page = page_of(code)
    explanation = catalogue.EXPLANATIONS[code]
    return page.text if page is not None else f"# {code}\n\n{explanation.meaning}\n\n{explanation.remedy}\n"
