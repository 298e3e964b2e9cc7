"""Text in Markdown that reads as it was meant.

What is not ours (names of models, evidence, sentences) is escaped: it can't end a table, mention a person, refer to an issue or
become a link or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from benchrun.report.rows import Rows

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


def escaped(text: str) -> str:
    """Text that reads the same and does nothing."""
    flat = " ".join(text.split())
    return _LIVE_TEXT.sub(lambda found: _LIVE[found.group().lower()], _MARKUP.sub(r"\\\1", flat))


def part(title: str, rows: Rows) -> str:
    """A table under a heading of its own; nothing where it has no rows."""
    return f"### {title}\n\n{table(rows)}" if rows.rows else ""


def table(rows: Rows) -> str:
    """Nothing where there are no rows."""
    if not rows.rows:
        return ""
    lines = [_line(map(escaped, rows.headers)), _line("---" for _ in rows.headers)]
    return "\n".join([*lines, *(_line(map(escaped, row)) for row in rows.rows)])


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
