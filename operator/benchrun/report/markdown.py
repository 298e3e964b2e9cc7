"""A result as Markdown, for a pull request, a wiki or the summary of a CI job.

What is not ours (names of models, evidence, sentences) is escaped: it can't end a table, mention a person, refer to an issue or
become a link or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from benchrun.api.status import BenchmarkRunStatus
from benchrun.report.comparison_rows import comparison_rows, reasons
from benchrun.report.objective_rows import objective_rows
from benchrun.report.rows import (
    UNCERTAIN_NOTE,
    Rows,
    explanation_rows,
    finding_rows,
    has_uncertain,
    interval_rows,
    result_rows,
)

_MARKUP = re.compile(r"([\\`*_\[\]~])")
_LIVE = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    "|": "&#124;",
    "@": "&#64;",
    "#": "&#35;",
    "://": "&#58;//",
    "www.": "www&#46;",
}
_LIVE_TEXT = re.compile("|".join(map(re.escape, _LIVE)), re.IGNORECASE)


def markdown(name: str, status: BenchmarkRunStatus, *, wide: bool = False) -> str:
    """Verdict first, then figures, limits, objectives, comparison and findings; `wide` adds the intervals of percentiles."""
    rows = result_rows(status)
    parts = [
        f"## {escaped(name)}: {status.verdict or 'Unknown'}",
        escaped(status.message or ""),
        _table(rows),
        "Latencies in milliseconds; running and waiting are means over the stages." if rows.rows else "",
        escaped(UNCERTAIN_NOTE) if has_uncertain(rows) else "",
        _part("What limits", explanation_rows(status)),
        _part("Percentiles", interval_rows(status)) if wide else "",
        "\n".join(f"- {escaped(f'{each.workload}: {each.sentence}')}" for each in status.searches),
        _part("Objectives", objective_rows(status)),
        *_comparison(status),
        _part("Findings", finding_rows(status)),
        _log(status.log_tail),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def escaped(text: str) -> str:
    """Text that reads the same and does nothing."""
    flat = " ".join(text.split())
    return _LIVE_TEXT.sub(lambda found: _LIVE[found.group().lower()], _MARKUP.sub(r"\\\1", flat))


def _comparison(status: BenchmarkRunStatus) -> Iterable[str]:
    found = status.comparison
    if found is None:
        return
    yield f"### Against {escaped(found.baseline.name)}: {found.outcome}"
    yield _table(comparison_rows(found.cells))
    yield escaped(found.message)
    yield "\n".join(f"- not compared: {escaped(reason)}" for reason in reasons(found.cells))


def _part(title: str, rows: Rows) -> str:
    return f"### {title}\n\n{_table(rows)}" if rows.rows else ""


def _table(rows: Rows) -> str:
    if not rows.rows:
        return ""
    lines = [_line(map(escaped, rows.headers)), _line("---" for _ in rows.headers)]
    return "\n".join([*lines, *(_line(map(escaped, row)) for row in rows.rows)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _log(tail: str | None) -> str:
    """Indented: no fence, which the log could close."""
    if not tail:
        return ""
    lines = "\n".join(f"    {line}" for line in tail.splitlines())
    return f"### Last words of the server\n\n{lines}"
