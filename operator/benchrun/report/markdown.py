"""A result as Markdown, for a pull request, a wiki or the summary of a CI job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchrun.api.status import BenchmarkRunStatus
from benchrun.report.comparison_rows import comparison_rows, reasons
from benchrun.report.markdown_text import escaped, part, table
from benchrun.report.objective_rows import objective_rows
from benchrun.report.result_rows import NO_TEXTS, result_rows
from benchrun.report.rows import UNCERTAIN_NOTE, explanation_rows, finding_rows, has_uncertain, interval_rows


def markdown(
    name: str, status: BenchmarkRunStatus, *, texts_per_prompt: Mapping[str, int] = NO_TEXTS, wide: bool = False
) -> str:
    """Verdict first, then figures, limits, objectives, comparison and findings; `wide` adds the intervals of percentiles. A page
    has room for every figure, wide or not."""
    rows = result_rows(status, texts_per_prompt=texts_per_prompt, wide=True)
    parts = [
        f"## {escaped(name)}: {status.verdict or 'Unknown'}",
        escaped(status.message or ""),
        table(rows),
        "Latencies in milliseconds; running and waiting are means over the stages." if rows.rows else "",
        escaped(UNCERTAIN_NOTE) if has_uncertain(rows) else "",
        part("What limits", explanation_rows(status)),
        part("Percentiles", interval_rows(status)) if wide else "",
        "\n".join(f"- {escaped(f'{each.workload}: {each.sentence}')}" for each in status.searches),
        part("Objectives", objective_rows(status)),
        *_comparison(status),
        part("Findings", finding_rows(status)),
        _log(status.log_tail),
    ]
    return "\n\n".join(each for each in parts if each) + "\n"


def _comparison(status: BenchmarkRunStatus) -> Iterable[str]:
    found = status.comparison
    if found is None:
        return
    yield f"### Against {escaped(found.baseline.name)}: {found.outcome}"
    yield table(comparison_rows(found.cells))
    yield escaped(found.message)
    yield "\n".join(f"- not compared: {escaped(reason)}" for reason in reasons(found.cells))


def _log(tail: str | None) -> str:
    """Indented: no fence, which the log could close."""
    if not tail:
        return ""
    lines = "\n".join(f"    {line}" for line in tail.splitlines())
    return f"### Last words of the server\n\n{lines}"
