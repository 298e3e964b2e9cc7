"""Build results as Markdown, for a pull request, a wiki or the summary of a CI job."""

import re
from collections.abc import Iterable

from benchrun.api import BenchmarkRunStatus
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.report import (
    comparison_rows,
    opening,
    serving_result,
    sweep_rows,
    tables,
)
from benchrun.report.run_list import outcome_word
from benchrun.report.tables import NO_TEXTS, Rows, Texts

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
LATENCIES = f"{tables.LEGEND[0].upper()}{tables.LEGEND[1:]}."
_LIVE_TEXT = re.compile("|".join(map(re.escape, _LIVE)), re.IGNORECASE)


def escaped(text: str) -> str:
    """Escape foreign text, so that it reads the same but has no effect as Markdown.

    It can't end a table, mention a person, refer to an issue, or become a link or HTML.
    """
    flat = " ".join(text.split())
    return _LIVE_TEXT.sub(
        lambda found: _LIVE[found.group().lower()], _MARKUP.sub(r"\\\1", flat)
    )


def part(title: str, rows: Rows) -> str:
    """Build a table under a heading; empty if it has no rows."""
    return f"### {title}\n\n{table(rows)}" if rows.rows else ""


def table(rows: Rows) -> str:
    """Build a table; empty if it has no rows."""
    lines = [
        map(escaped, rows.headers),
        ["---"] * len(rows.headers),
        *(map(escaped, row) for row in rows.rows),
    ]
    return (
        "\n".join(f"| {' | '.join(line)} |" for line in lines) if rows.rows else ""
    )


def markdown(
    name: str,
    status: BenchmarkRunStatus,
    *,
    texts_per_prompt: Texts = NO_TEXTS,
    wide: bool = False,
) -> str:
    """Build a run's result: verdict, figures, objectives, comparison, findings and explanations.

    `wide` adds every stage and the intervals of percentiles. It also adds the block in vLLM's
    layout of every load point; otherwise only the first few have one.
    """
    rows = tables.result_rows(status, texts_per_prompt=texts_per_prompt, wide=True)
    log = _code(status.log_tail or "")
    return _page(
        name,
        outcome_word(status),
        status.message,
        _begin(opening.of_run(status)),
        table(rows),
        LATENCIES if rows.rows else "",
        escaped(tables.UNCERTAIN_NOTE) if tables.has_uncertain(rows) else "",
        part(
            "Texts in all, by packing",
            tables.packing_rows(status, texts_per_prompt),
        ),
        "\n".join(
            f"- {escaped(f'{each.workload}: {each.sentence}')}"
            for each in status.searches
        ),
        part("Objectives", tables.objective_rows(status)),
        part("Widths of intervals", tables.width_rows(status)),
        part("Percentiles", tables.interval_rows(status)) if wide else "",
        *_comparison(status),
        part("Findings", tables.finding_rows(status)),
        part("Bottlenecks", tables.explanation_rows(status, wide=wide)),
        part("Profile", tables.kernel_rows(status)),
        part("Stages in order of measurement", tables.repeat_rows(status))
        if wide
        else "",
        *_serving_results(status, most=None if wide else FEW_BLOCKS),
        f"### Last lines of the server's log\n\n{log}" if log else "",
    )


def sweep_markdown(
    name: str, status: BenchmarkSweepStatus, *, texts_per_prompt: Texts = NO_TEXTS
) -> str:
    """Build a sweep's result: verdict, figures, changes, best variants, front, and remarks."""
    figures = table(
        sweep_rows.variant_rows(
            status, texts_per_prompt=texts_per_prompt, wide=True
        )
    )
    baseline = escaped(status.baseline or "")
    changes = (
        part(f"Against {baseline}", sweep_rows.change_rows(status))
        if status.scope is not None
        else ""
    )
    return _page(
        name,
        outcome_word(status),
        status.message,
        _begin(opening.of_sweep(status)),
        figures,
        f"{sweep_rows.LEGEND[0].upper()}{sweep_rows.LEGEND[1:]}."
        if figures
        else "",
        part("Load points side by side", sweep_rows.configuration_rows(status)),
        part("How the servers differ", sweep_rows.setting_rows(status)),
        part(
            f"Side by side, against {baseline}",
            sweep_rows.configuration_change_rows(status),
        ),
        changes,
        escaped(sweep_rows.compared_text(status) or "") if changes else "",
        part("Best", sweep_rows.best_rows(status)),
        part("Undecided, and may be better", sweep_rows.undecided_rows(status)),
        part("Pareto front", sweep_rows.front_rows(status)),
        "\n".join(
            f"- {escaped(remark)}"
            for remark in (*sweep_rows.remarks(status), *sweep_rows.cuts(status))
        ),
    )


def _begin(found: opening.Opening | None) -> str:
    return escaped(" ".join(found.sentences)) if found is not None else ""


def _code(text: str) -> str:
    """Return the text as an indented block, because foreign text could end a fenced block."""
    return "\n".join(f"    {line}" for line in text.splitlines())


# Blocks of a short comment: one on a pull request has room for some forty.
FEW_BLOCKS = 8


def _serving_results(
    status: BenchmarkRunStatus, *, most: int | None
) -> Iterable[str]:
    """Yield at most `most` load points as blocks in vLLM's layout; None means all.

    They come under a heading.
    """
    found = serving_result.blocks(status)
    if found:
        yield f"### {serving_result.TITLE}"
    for block in found[:most]:
        yield escaped(f"{block.name}:")
        yield _code(block.text)
    if len(found[:most]) < len(found):
        yield f"{len(found) - len(found[:most])} more are shown with --wide."


def _page(name: str, word: str | None, message: str | None, *parts: str) -> str:
    begin = (f"## {escaped(name)}: {word or 'Unknown'}", escaped(message or ""))
    return "\n\n".join(each for each in (*begin, *parts) if each) + "\n"


def _comparison(status: BenchmarkRunStatus) -> Iterable[str]:
    if (found := status.comparison) is not None:
        yield f"### Against {escaped(found.baseline.name)}: {found.outcome}"
        yield table(comparison_rows.setting_rows(found.settings))
        yield table(comparison_rows.comparison_rows(found.load_points))
        yield escaped(found.message)
        yield "\n".join(
            f"- {escaped(price)}"
            for price in comparison_rows.prices(found.load_points)
        )
        yield "\n".join(
            f"- not compared: {escaped(reason)}"
            for reason in comparison_rows.reasons(found.load_points)
        )
