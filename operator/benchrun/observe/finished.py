"""What is remembered of a run that has ended: few figures of few load points, read from its raw status.

Total functions: whatever is missing or of another type is left out; nothing raises.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from benchrun.observe import raw
from benchrun.observe.raw import Object

HEADLINE_FIGURES = (
    "request_throughput",
    "output_throughput",
    "request_goodput",
    "median_ttft_ms",
    "p99_ttft_ms",
    "median_tpot_ms",
    "p99_tpot_ms",
    "p99_e2el_ms",
)
"""Under the names they have in `status.results[].metrics`."""
MAX_CELLS = 16
"""Load points remembered of one run."""
_MAX_WORD_CHARS = 40
_MAX_CELL_CHARS = 160


@dataclass(frozen=True, slots=True)
class CellFigures:
    """One load point."""

    cell: str
    workload: str
    axis: str
    value: str
    verdict: str
    figures: tuple[float | None, ...]
    """One for each of HEADLINE_FIGURES; None where nothing was measured, or too few requests bound it."""


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """One run."""

    ended_at: datetime
    phase: str
    verdict: str
    """Empty for a run that nothing was measured in."""
    cells: tuple[CellFigures, ...]
    cells_left_out: int
    """Load points beyond MAX_CELLS."""


def finished_run_of(status: Object) -> FinishedRun | None:
    """From the status of a run that has ended; None where it does not say when that was."""
    ended_at = raw.instant(status.get("completionTime"))
    if ended_at is None:
        return None
    headline = raw.text(raw.mapping(status.get("headline")).get("cell"), _MAX_CELL_CHARS)
    rows = {name: row for row in raw.mappings(status.get("results")) if (name := _cell(row))}
    # The one that `kubectl get` shows is never among those left out.
    kept = sorted(rows, key=lambda name: name != headline)[:MAX_CELLS]
    return FinishedRun(
        ended_at=ended_at,
        phase=raw.text(status.get("phase"), _MAX_WORD_CHARS),
        verdict=raw.text(status.get("verdict"), _MAX_WORD_CHARS),
        cells=tuple(_figures_of(rows[name]) for name in kept),
        cells_left_out=len(rows) - len(kept),
    )


def _figures_of(row: Object) -> CellFigures:
    metrics = raw.mapping(row.get("metrics"))
    listed = row.get("uncertain")
    uncertain = listed if isinstance(listed, list) else []
    return CellFigures(
        cell=_cell(row),
        workload=raw.text(row.get("workload"), _MAX_WORD_CHARS),
        axis=raw.text(row.get("axis"), _MAX_WORD_CHARS),
        value=raw.text(row.get("value"), _MAX_WORD_CHARS),
        verdict=raw.text(row.get("verdict"), _MAX_WORD_CHARS),
        figures=tuple(None if name in uncertain else _finite(metrics.get(name)) for name in HEADLINE_FIGURES),
    )


def _cell(row: Object) -> str:
    return raw.text(row.get("cell"), _MAX_CELL_CHARS)


def _finite(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if abs(value) <= raw.MAX_NUMBER else None
