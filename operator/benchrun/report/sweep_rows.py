"""Rows of the tables that show a sweep: text only, no layout."""

from __future__ import annotations

from benchrun.api.sweep.status import BenchmarkSweepStatus, Row
from benchrun.judge.comparison.figures import KEYS
from benchrun.judge.sweep.table import PER_GPU
from benchrun.report.comparison_rows import WORDS, interval, signed
from benchrun.report.rows import ABSENT, Rows, figure

_FIGURES = (
    ("req/s", KEYS["RequestThroughput"]),
    ("tok/s", KEYS["OutputThroughput"]),
    ("per GPU", PER_GPU),
    ("TTFT", KEYS["MeanTTFT"]),
    ("TPOT", KEYS["MeanTPOT"]),
    ("E2EL", KEYS["MeanE2EL"]),
)


def variant_rows(status: BenchmarkSweepStatus) -> Rows:
    """One row a variant and load point: what was measured."""
    headers = ("variant", "load point", "runs", *(name for name, _ in _FIGURES), "verdict")
    return Rows(headers, tuple(_variant_row(row) for row in status.results))


def change_rows(status: BenchmarkSweepStatus) -> Rows:
    """One row a variant, load point and figure: by how much it differs from the baseline's, and whether that is noise."""
    headers = ("variant", "load point", "figure", "change", "interval", "word")
    rows = tuple(
        (
            row.variant,
            row.cell,
            change.metric,
            signed(change.change_percent, unit=" %"),
            interval(change),
            WORDS.get(change.word, change.word),
        )
        for row in status.results
        for change in row.changes
    )
    return Rows(headers, rows)


def best_rows(status: BenchmarkSweepStatus) -> Rows:
    """One row a workload and objective: who did best, and who can't be told from it."""
    rows = tuple(
        (best.workload, best.objective, best.variant, best.cell, figure(best.throughput_per_gpu), _ties(best.tied_with))
        for best in status.best
    )
    return Rows(("workload", "objective", "best", "load point", "tok/s per GPU", "not to be told from it"), rows)


def front_rows(status: BenchmarkSweepStatus) -> Rows:
    """One row a point of the Pareto front, from the lowest TPOT on."""
    rows = tuple(
        (point.workload, point.variant, point.cell, figure(point.throughput_per_gpu), figure(point.mean_tpot_ms))
        for point in status.front
    )
    return Rows(("workload", "variant", "load point", "tok/s per GPU", "TPOT"), rows)


def remarks(status: BenchmarkSweepStatus) -> list[str]:
    """Why variants failed, why rows are not comparable, and what limits; each once."""
    failed = [
        f"{variant.name}: {variant.reason} in {variant.run}: {variant.message or ''}".rstrip(": ")
        for variant in status.variants
        if variant.reason is not None
    ]
    reasons = [f"{row.variant} at {row.cell}: {row.reason}" for row in status.results if row.reason and row.runs]
    left_out = [
        f"{row.variant} at {row.cell}: {row.left_out} of {row.runs + row.left_out} runs left out, Invalid there or without it"
        for row in status.results
        if row.left_out
    ]
    limits = [f"{row.variant} at {row.cell}: {row.limit.sentence}" for row in status.results if row.limit is not None]
    searches = [
        f"{variant.name}: highest {found.axis} of {found.workload}: {', '.join(found.loads)}"
        for variant in status.variants
        for found in variant.searches
    ]
    return list(dict.fromkeys([*failed, *reasons, *left_out, *limits, *searches]))


def _variant_row(row: Row) -> tuple[str, ...]:
    told = row.verdict if row.runs else row.reason or row.verdict
    return (row.variant, row.cell, str(row.runs), *(figure(row.metrics.get(key)) for _, key in _FIGURES), told)


def _ties(names: list[str]) -> str:
    return ", ".join(names) or ABSENT
