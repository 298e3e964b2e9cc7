"""Rows of the tables that show a result: text only, no layout."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from benchrun.api.status import BenchmarkRunStatus, Finding

ABSENT = "-"
"""Shown where nothing was measured: never 0."""
UNCERTAIN = "?"
"""Follows a percentile that so few requests can't bound."""
UNCERTAIN_NOTE = "? too few requests for this percentile: its 95 % interval is open at one end or both"


@dataclass(frozen=True, slots=True)
class Rows:
    """A table."""

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def figure(value: float | None, *, digits: int = 3, unit: str = "") -> str:
    """A number with so many significant digits, without an exponent."""
    if value is None:
        return ABSENT
    return f"{Decimal(f'{value + 0.0:.{digits}g}'):f}{unit}"  # adding 0.0 makes 0 of -0


def has_uncertain(rows: Rows) -> bool:
    """Whether a figure of the table carries the mark."""
    return any(cell.endswith(UNCERTAIN) for row in rows.rows for cell in row)


def explanation_rows(status: BenchmarkRunStatus) -> Rows:
    """Why requests waited and what limits, where they did and something does."""
    told = [
        (result.cell, subject, word, sentence)
        for result in status.results
        for subject, word, sentence in (
            *([("waiting", result.waiting.reason, result.waiting.sentence)] if result.waiting else ()),
            *([("limit", result.bottleneck.limit, result.bottleneck.sentence)] if result.bottleneck else ()),
        )
        if word != "None"
    ]
    return Rows(("load point", "", "", "because"), tuple(told))


def interval_rows(status: BenchmarkRunStatus) -> Rows:
    """One row a percentile: what was measured, its 95 % interval, and the figure of the steady state."""
    rows = tuple(
        (
            result.cell,
            key.removesuffix("_ms"),
            figure(value, digits=4, unit=UNCERTAIN if key in result.uncertain else ""),
            *(figure(end, digits=4) for end in result.intervals.get(key, (None, None))),
            figure(result.steady.get(key), digits=4),
        )
        for result in status.results
        for key, value in result.metrics.items()
        if key in result.intervals or key in result.uncertain
    )
    return Rows(("load point", "percentile (ms)", "measured", "at least", "at most", "steady state"), rows)


def finding_rows(status: BenchmarkRunStatus) -> Rows:
    """One row a finding: what it is, where it was worst, what to do."""
    rows = tuple((f.severity, f.code, f.worst_stage, _evidence(f), f.remedy) for f in status.findings)
    return Rows(("severity", "finding", "worst stage", "evidence", "what to do"), rows)


def _evidence(finding: Finding) -> str:
    return ", ".join(f"{key} {evidence_text(value)}" for key, value in finding.evidence.items())


def evidence_text(value: float | str | None) -> str:
    """Counts whole, measures to three digits."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.0f}" if value == int(value) else figure(value)
