"""Tables with a column a load point or packing: configurations against datasets, texts in all against texts a prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from benchrun.api import KEYS, BenchmarkRunStatus, ComparedMetric, Result
from benchrun.api.sweep import BenchmarkSweepStatus, Row
from benchrun.report.comparison_rows import change_cells
from benchrun.report.tables import ABSENT, Rows, metric, texts_a_second

_FIGURES: Mapping[str, ComparedMetric] = {
    "req/s": "RequestThroughput", "tok/s": "OutputThroughput", "total tok/s": "TotalTokenThroughput",
    "TTFT": "MeanTTFT", "TPOT": "MeanTPOT", "E2EL": "MeanE2EL",
}  # fmt: skip


MAX_POINTS = 8  # Load points side by side; the long table has all, however many.


def configuration_rows(status: BenchmarkSweepStatus) -> Rows:
    """One row a figure and variant, one column a load point."""
    return _by_load_point(status, lambda row, name: metric(KEYS[name])(row))


def configuration_change_rows(status: BenchmarkSweepStatus) -> Rows:
    """The same of the changes against the baseline, each with interval and word."""

    def change(row: Row, name: ComparedMetric) -> str:
        found = next((change_cells(each) for each in row.changes if each.metric == name), None)
        return ABSENT if found is None or found[0] == ABSENT else "{} ({}) {}".format(*found)

    return _by_load_point(status, change)


def _by_load_point(status: BenchmarkSweepStatus, cell: Callable[[Row, ComparedMetric], str]) -> Rows:
    """No rows with a single variant or load point, or too many of them: other tables have those."""
    at = {(row.variant, row.cell): row for row in status.results}
    variants, points = (list(dict.fromkeys(key[place] for key in at)) for place in (0, 1))
    rows = [
        (title, variant, *(cell(at[variant, point], name) if (variant, point) in at else ABSENT for point in points))
        for title, name in _FIGURES.items()
        for variant in variants
    ]
    shown = tuple(row for row in rows if any(value != ABSENT for value in row[2:]))
    return Rows(("figure", "variant", *points), shown if len(variants) > 1 and 1 < len(points) <= MAX_POINTS else ())


def packing_rows(status: BenchmarkRunStatus, texts_per_prompt: Mapping[str, int]) -> Rows:
    """One row a number of texts in all and a figure, one column a packing: all in one prompt, so many to a prompt, one a prompt. Of
    several load points the one with the most tokens a second. No rows with a single packing."""
    best: dict[tuple[int, str], Result] = {}
    for row in status.results:
        sent = (row.metrics.get("completed") or 0) + (row.metrics.get("failed") or 0)
        each = texts_per_prompt.get(row.workload, 0)
        if not each or not sent or not row.repeats:
            continue
        total = round(sent / row.repeats) * each
        key = (total, "all in one prompt" if each == total else "one a prompt" if each == 1 else f"{each} a prompt")
        if key not in best or _total(row) > _total(best[key]):
            best[key] = row
    packings = list(dict.fromkeys(packing for _, packing in best))
    figures: Mapping[str, Callable[[Result], str]] = {
        "total tok/s": metric("total_token_throughput"),
        "tok/s": metric("output_throughput"),
        "texts/s": lambda row: texts_a_second(row.figure("request_throughput"), row.workload, texts_per_prompt),
    }
    rows = tuple(
        (
            str(total),
            name,
            *(cell(best[total, packing]) if (total, packing) in best else ABSENT for packing in packings),
        )
        for total in sorted({total for total, _ in best}, reverse=True)
        for name, cell in figures.items()
    )
    return Rows(("texts in all", "figure", *packings), rows if len(packings) > 1 else ())


def _total(row: Result) -> float:
    return row.figure("total_token_throughput") or 0.0
