"""The two figures of `kubectl get`: throughput and p99 TTFT at the highest load whose numbers hold."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from benchrun.api.status import Headline, Result


def headline(results: Iterable[Result], p99_ttft_ms: Callable[[str], float | None]) -> Headline | None:
    """Of the highest Valid load point of the first workload; None if it has none. `p99_ttft_ms` answers for a cell."""
    rows = list(results)
    valid = [row for row in rows if row.workload == rows[0].workload and row.verdict == "Valid"]
    if not valid:
        return None
    highest = max(valid, key=lambda row: float(row.value))
    return Headline(
        cell=highest.cell,
        throughput=shown(highest.metrics.get("output_throughput")),
        p99_ttft=shown(p99_ttft_ms(highest.cell), unit="ms"),
    )


def shown(value: float | None, *, unit: str = "") -> str:
    """Three digits or all of the whole part: 812, 81.2, 8.12, 12345; "-" for nothing. The unit follows: "143 ms"."""
    if value is None:
        return "-"
    decimals = 0 if value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f} {unit}".rstrip()
