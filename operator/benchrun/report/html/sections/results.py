"""The figures of every load point."""

from __future__ import annotations

from benchrun.api.status import Truncated
from benchrun.report.html.blocks import Block, Fold, Prose, Section, Table
from benchrun.report.html.reported import Reported
from benchrun.report.result_rows import result_rows
from benchrun.report.rows import UNCERTAIN_NOTE, has_uncertain, interval_rows
from benchrun.report.texts_per_prompt import texts_per_prompt


def results_section(run: Reported) -> Section:
    """The table of the terminal, and behind a click how sure each percentile is."""
    if not run.status.results:
        return Section("results", "Results", (Prose("No load point was measured."),))
    rows = result_rows(run.status, texts_per_prompt=texts_per_prompt(run.written), wide=True)
    blocks: list[Block] = [
        Table("Load points, their repeats pooled", rows, words=frozenset({"verdict"})),
        Prose(
            "Latencies in milliseconds, as the client saw them. Running, waiting, KV max and hits are the servers' own "
            "words; running and waiting are means over the stages. A dash is what was not measured."
        ),
    ]
    if has_uncertain(rows):
        blocks.append(Prose(f"{UNCERTAIN_NOTE}."))
    intervals = interval_rows(run.status)
    if intervals.rows:
        blocks.append(
            Fold(
                "How sure each percentile is", (Table("95 % intervals, and the figure of the steady state", intervals),)
            )
        )
    if run.status.truncated:
        cuts = "; ".join(map(_cut, run.status.truncated))
        blocks.append(Prose(f"To stay small, the run does not hold everything: {cuts}."))
    return Section("results", "Results", tuple(blocks))


def _cut(cut: Truncated) -> str:
    return f"{cut.included} of {cut.total} {cut.field}"
