"""What limits: why requests waited, and what more load or another setting would run into."""

from __future__ import annotations

from benchrun.api.status import Result
from benchrun.report.html.blocks import Block, Prose, Section, Table
from benchrun.report.html.reported import Reported
from benchrun.report.rows import ABSENT, Rows

MAX_NAMED = 8
"""Load points listed by name where there is nothing to say of them."""


def limits_section(run: Reported) -> Section | None:
    """The operator's sentences, with their numbers; load points where nothing waited and nothing limits in one line."""
    results = run.status.results
    if not results:
        return None
    told = [(row.cell, waiting, limit) for row in results if (waiting := _waiting(row)) + (limit := _limit(row))]
    blocks: list[Block] = []
    if told:
        rows = tuple((cell, waiting or ABSENT, limit or ABSENT) for cell, waiting, limit in told)
        headers = ("load point", "why requests waited", "what limits")
        blocks.append(Table("Load points where requests waited or something limits", Rows(headers, rows), stacked=True))
    named = {cell for cell, _, _ in told}
    quiet = [row.cell for row in results if row.cell not in named]
    if quiet:
        blocks.append(Prose(_quiet(quiet, others=bool(told))))
    return Section("limits", "What limits", tuple(blocks))


def _waiting(row: Result) -> str:
    return f"{row.waiting.reason}. {row.waiting.sentence}" if row.waiting and row.waiting.reason != "None" else ""


def _limit(row: Result) -> str:
    return (
        f"{row.bottleneck.limit}. {row.bottleneck.sentence}"
        if row.bottleneck and row.bottleneck.limit != "None"
        else ""
    )


def _quiet(cells: list[str], *, others: bool) -> str:
    if not others:
        return "The servers kept up: nothing waited and nothing limits at any load point."
    where = ", ".join(cells) if len(cells) <= MAX_NAMED else f"the other {len(cells)} load points"
    return f"Nothing waited and nothing limits at {where}."
