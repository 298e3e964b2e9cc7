"""Rows of `benchrun get`: what one wants to know of each of many runs."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from pydantic import ValidationError

from benchrun.api import BenchmarkRunStatus, answering
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.observe import raw
from benchrun.observe.trim import run_of
from benchrun.observe.views import Run
from benchrun.report.rows import ABSENT, Rows, age, clock

HEADERS = ("run", "state", "stages", "load point", "tok/s", "TTFT p99", "limit", "findings", "took", "age")
WIDE = ("model", "vLLM", "GPU", "image")
MAX_CODES = 1
"""Findings named in a row; the rest are counted."""
OLDEST = datetime.min.replace(tzinfo=UTC)
"""Of an object that says no age."""


def run_list_rows(bodies: Iterable[raw.Object], *, now: datetime, wide: bool = False, namespaces: bool = False) -> Rows:
    """One row a run, the youngest first."""
    runs = sorted((run_of(body) for body in bodies), key=lambda run: (run.created_at or OLDEST, run.name), reverse=True)
    headers = (*(("namespace",) if namespaces else ()), *HEADERS, *(WIDE if wide else ()))
    return Rows(headers, tuple(_row(run, now=now, wide=wide, namespaces=namespaces) for run in runs))


def findings_told(status: BenchmarkRunStatus, *, most: int = MAX_CODES) -> str:
    """The codes that cost a verdict, the worst first, `most` of them by name; notes are left to the report."""
    ranked = [[f.code for f in status.findings if f.severity == severity] for severity in ("Invalid", "Suspect")]
    codes = [code for group in ranked for code in group]
    more = len(codes) - most
    return ", ".join(codes[:most]) + (f" +{more}" if more > 0 else "") or ABSENT


def state_told(status: BenchmarkRunStatus) -> str:
    """How it came out: the verdict of a run that was measured, the phase of any other."""
    return status.verdict or "Completed" if status.phase == "Completed" else status.phase or "Pending"


def limit_told(status: BenchmarkRunStatus) -> str:
    """What limits the load point of the headline; without one, the first load point that has a limit."""
    chosen = status.headline.cell if status.headline is not None else None
    limits = [
        row.bottleneck.limit
        for row in status.results
        if row.bottleneck is not None and row.bottleneck.limit != "None" and chosen in (None, row.cell)
    ]
    return limits[0] if limits else ABSENT


def _row(run: Run, *, now: datetime, wide: bool, namespaces: bool) -> tuple[str, ...]:
    try:
        status = BenchmarkRunStatus.model_validate(run.status)
    except ValidationError:
        # Another version's; that must not hide the runs beside it.
        status = BenchmarkRunStatus(message="written by another version of the API")
    headline, progress = status.headline, status.progress
    created = run.created_at or now
    cells = (
        run.name,
        state_told(status),
        progress.summary if progress is not None else ABSENT,
        headline.cell if headline is not None else ABSENT,
        headline.throughput if headline is not None else ABSENT,
        headline.p99_ttft if headline is not None else ABSENT,
        limit_told(status),
        findings_told(status),
        took(status, now=now),
        age((now - created).total_seconds()),
    )
    place = (run.namespace,) if namespaces else ()
    return (*place, *cells, *(_wide(run, status) if wide else ()))


def _wide(run: Run, status: BenchmarkRunStatus) -> tuple[str, ...]:
    server = answering(status.servers)
    model = raw.text(raw.mapping(run.spec.get("model")).get("name"))
    image = raw.text(raw.mapping(run.spec.get("server")).get("image"), 1024)
    version, gpu = (
        (server.version, _gpu(sum(each.gpus for each in status.servers), server.gpu))
        if server is not None
        else (None, None)
    )
    return tuple(text or ABSENT for text in (model, version, gpu, image))


def _gpu(count: int, kind: str | None) -> str | None:
    if count == 0:
        return None
    return f"{count} {kind}" if kind is not None else str(count)


def took(status: BenchmarkRunStatus | BenchmarkSweepStatus, *, now: datetime) -> str:
    """From acceptance to the end; of a run that goes on, until now."""
    begun, ended = raw.instant(status.accepted_time), raw.instant(status.completion_time)
    return ABSENT if begun is None else clock(((ended or now) - begun).total_seconds())
