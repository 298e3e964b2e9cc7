"""`benchrun explain CODE`: show the page of a finding. It needs no cluster."""

import argparse

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from benchrun.api import Code
from benchrun.cli import console_tables, errors
from benchrun.judge.finding_pages import Page, page_of
from benchrun.report.exit_codes import PASSED


def pages() -> list[Page]:
    """Return the pages of all findings, in the order in which results list them."""
    return list(map(page_of, Code))


SUMMARY = "explain a finding"
DESCRIPTION = (
    "Show what a finding means, how it is detected and what to do; without a code, "
    "list all findings."
)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "code",
        nargs="?",
        help=("code of the finding, for example PrefixCacheContaminated"),
    )


def run(options: argparse.Namespace, console: Console) -> int:
    if options.code is None:
        table = console_tables.empty_table("finding", "severity", "what was found")
        for page in pages():
            table.add_row(*map(Text, (page.code, page.severity, page.summary)))
        console.print(table)
        return PASSED
    if (
        code := next(
            (
                code
                for code in Code
                # A rule of the user's own is named: UserRule/slow-tail.
                if code.lower() == options.code.lower().partition("/")[0]
            ),
            None,
        )
    ) is None:
        raise errors.unknown("finding", options.code, sorted(Code))
    text = page_of(code).text
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        print(text, end="")
    return PASSED
