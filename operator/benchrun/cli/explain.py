"""`benchrun explain CODE`: the page of a finding. Needs no cluster."""

from __future__ import annotations

import argparse
from typing import Any

from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from benchrun.api.codes import Code
from benchrun.cli.judge_options import known_code
from benchrun.cli.pages import page_of, pages
from benchrun.judge.catalogue import EXPLANATIONS
from benchrun.report.exit_codes import PASSED

DESCRIPTION = "What a finding means, how it is detected and what to do; without a code, the list of all."


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """The command and its options."""
    parser: argparse.ArgumentParser = commands.add_parser("explain", help="explain a finding", description=DESCRIPTION)
    parser.add_argument("code", nargs="?", help="for example PrefixCacheContaminated")
    return parser


def run(options: argparse.Namespace, console: Console) -> int:
    """Show a page or the list. Raises CommandError for a code that does not exist."""
    if options.code is None:
        console.print(_list())
        return PASSED
    text = _text(known_code(options.code))
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")
    return PASSED


def _text(code: Code) -> str:
    """The page; of an installation without pages, what the status says."""
    page = page_of(code)
    explanation = EXPLANATIONS[code]
    return page.text if page is not None else f"# {code}\n\n{explanation.meaning}\n\n{explanation.remedy}\n"


def _list() -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for header in ("finding", "severity", "what was found"):
        table.add_column(header, overflow="fold")
    for page in pages():
        table.add_row(*map(Text, (page.code, page.severity, page.summary)))
    return table
