"""A sweep as Markdown, for a pull request, a wiki or the summary of a CI job."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.judge.comparison.sentence import SCOPES
from benchrun.report.markdown_text import escaped, part, table
from benchrun.report.result_rows import NO_TEXTS
from benchrun.report.sweep_rows import LEGEND, best_rows, change_rows, cuts, front_rows, remarks, variant_rows


def sweep_markdown(name: str, status: BenchmarkSweepStatus, *, texts_per_prompt: Mapping[str, int] = NO_TEXTS) -> str:
    """Verdict first, then every figure, changes, who did best, the front, and what is to be known of them."""
    ended_early = status.phase if status.phase in ("Failed", "Cancelled") else None
    figures = table(variant_rows(status, texts_per_prompt=texts_per_prompt, wide=True))
    parts = [
        f"## {escaped(name)}: {ended_early or status.verdict or 'Unknown'}",
        escaped(status.message or ""),
        figures,
        f"{LEGEND[0].upper()}{LEGEND[1:]}." if figures else "",
        *_changes(status),
        part("Best", best_rows(status)),
        part("Pareto front", front_rows(status)),
        "\n".join(f"- {escaped(remark)}" for remark in (*remarks(status), *cuts(status))),
    ]
    return "\n\n".join(each for each in parts if each) + "\n"


def _changes(status: BenchmarkSweepStatus) -> list[str]:
    rows = change_rows(status)
    if status.scope is None or not rows.rows:
        return []
    return [part(f"Against {escaped(status.baseline or '')}", rows), escaped(SCOPES[status.scope])]
