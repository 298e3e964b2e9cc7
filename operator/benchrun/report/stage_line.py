"""A finished stage in one line: what its record says at a glance, before anything is judged."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun_client.contract import StageRecord

from benchrun.report.rows import figure


@dataclass(frozen=True, slots=True)
class StageLine:
    """A stage whose record is stored. Figures are None where the record was not to be had."""

    sequence: int
    """Position in the order of measurement, from 0."""
    stage: str | None
    """For example chat/rate=4/r1; None: nobody told."""
    requests_per_second: float | None = None
    output_tokens_per_second: float | None = None
    median_ttft_ms: float | None = None
    p99_ttft_ms: float | None = None
    failed: int | None = None
    requests: int | None = None


def stage_line(record: StageRecord) -> StageLine:
    """The load engine's own figures; the judge has not seen them yet."""
    ok = record.requests.ok
    said = record.scalars.get
    return StageLine(
        sequence=record.sequence,
        stage=record.stage_id,
        requests_per_second=said("request_throughput"),
        output_tokens_per_second=said("output_throughput"),
        median_ttft_ms=said("median_ttft_ms"),
        p99_ttft_ms=said("p99_ttft_ms"),
        failed=len(ok) - sum(ok),
        requests=len(ok),
    )


def told_figures(line: StageLine) -> tuple[str, ...]:
    """The figures with their units, those that are known; failures only where there were some."""
    known = (
        (line.requests_per_second, " req/s", ""),
        (line.output_tokens_per_second, " tok/s", ""),
        (line.median_ttft_ms, " ms", "TTFT p50 "),
        (line.p99_ttft_ms, " ms", "p99 "),
    )
    told = [f"{lead}{figure(value)}{unit}" for value, unit, lead in known if value is not None]
    if line.failed:
        told.append(f"{line.failed} of {line.requests} failed")
    return tuple(told)
