"""Rows of the tables that show a result: text only, no layout."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.api.status import BenchmarkRunStatus, Finding, Result, RoleFigures

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
    rounded = float(f"{value:.{digits}g}")
    text = (
        f"{rounded:.0f}" if abs(rounded) >= 10 ** (digits - 1) or rounded == int(rounded) else f"{rounded:.{digits}g}"
    )
    return f"{text}{unit}"


def result_rows(status: BenchmarkRunStatus) -> Rows:
    """One row a load point: throughput, latencies in milliseconds, and what the server was doing meanwhile."""
    headers = (
        "load point", "req/s", "tok/s", "TTFT p50", "p99", "TPOT p50", "E2EL p99",
        "running", "waiting", "KV max", "hits", "failed", "verdict",
    )  # fmt: skip
    return Rows(headers, tuple(_result_row(r) for r in status.results))


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


def _result_row(result: Result) -> tuple[str, ...]:
    metric = result.metrics.get
    server = result.roles[0] if result.roles else RoleFigures(role="server")
    return (
        result.cell,
        figure(metric("request_throughput")),
        figure(metric("output_throughput")),
        _latency(result, "ttft", "50"),
        _latency(result, "ttft", "99"),
        _latency(result, "tpot", "50"),
        _latency(result, "e2el", "99"),
        figure(server.running_mean),
        figure(server.waiting_mean),
        figure(server.kv_cache_max_percent, unit="%"),
        figure(server.prefix_hit_percent, unit="%"),
        _failed(result),
        result.verdict,
    )


def _latency(result: Result, name: str, percentile: str) -> str:
    """In milliseconds, marked where it is uncertain. The median stands in where the 50th percentile was not asked for."""
    key = f"p{percentile}_{name}_ms"
    value = result.metrics.get(key)
    if value is None and percentile == "50":
        value = result.metrics.get(f"median_{name}_ms")
    return figure(value, unit=UNCERTAIN if key in result.uncertain else "")


def _failed(result: Result) -> str:
    failed, completed = result.metrics.get("failed"), result.metrics.get("completed")
    if failed is None or completed is None:
        return ABSENT
    return f"{failed:.0f}/{failed + completed:.0f}"


def _evidence(finding: Finding) -> str:
    return ", ".join(f"{key} {evidence_text(value)}" for key, value in finding.evidence.items())


def evidence_text(value: float | str | None) -> str:
    """Counts whole, measures to three digits."""
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.0f}" if value == int(value) else figure(value)
