"""The two figures of `kubectl get`: throughput and p99 TTFT at the highest load whose numbers hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchrun.api.status import Headline, Result
from benchrun.judge.rules import CellContext
from benchrun.measure.cells import milliseconds
from benchrun.measure.client_queue import QUEUED_TTFT
from benchrun.measure.intervals import percentile_ranks

WITH_QUEUE = "with queue"
UNCERTAIN = "?"
"""Follows a figure that so few requests can't bound."""


def headline(results: Iterable[Result], p99_ttft: Callable[[str], str]) -> Headline | None:
    """Of the highest Valid load point of the first workload; None if it has none. `p99_ttft` answers for a cell."""
    rows = list(results)
    valid = [row for row in rows if row.workload == rows[0].workload and row.verdict == "Valid"]
    if not valid:
        return None
    highest = max(valid, key=lambda row: float(row.value))
    return Headline(
        cell=highest.cell,
        throughput=shown(highest.metrics.get("output_throughput")),
        p99_ttft=p99_ttft(highest.cell),
    )


def p99_ttft(cell: CellContext) -> str:
    """For the column. Where a cap held back an open loop, the wait in the client is in it and it says so: "143 ms with
    queue"; of too few requests: "143? ms"."""
    pool = cell.queued.get(QUEUED_TTFT, cell.pools["ttft"])
    value = milliseconds(pool.percentile(99))
    if value is None:
        return shown(None)
    mark = UNCERTAIN if percentile_ranks(pool.count, 99) is None else ""
    text = f"{shown(value)}{mark} ms"
    return f"{text} {WITH_QUEUE}" if cell.asked.capped else text


def shown(value: float | None) -> str:
    """Three digits or all of the whole part: 812, 81.2, 8.12, 12345; "-" for nothing."""
    if value is None:
        return "-"
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f}"
