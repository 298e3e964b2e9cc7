"""Rows of `benchrun get`: what one wants to know of each of many runs or sweeps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from benchrun.api import BenchmarkRunStatus, answering
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.observe import Run, Sweep, run_of, sweep_of, untrusted_json as raw
from benchrun.report.tables import ABSENT, Column, Rows, age, clock, figure, table_of

MAX_CODES = 1  # Findings named in a row; the rest are counted.
OLDEST = datetime.min.replace(tzinfo=UTC)  # Of an object without a creation time.
OTHER_VERSION = "written by another version of the API"
O = TypeVar("O", Run, Sweep)  # noqa: E741
S = TypeVar("S", BenchmarkRunStatus, BenchmarkSweepStatus)
L = TypeVar("L", bound="_Listed[Any, Any]")


@dataclass(frozen=True, slots=True)
class _Listed(Generic[O, S]):
    """A run or sweep with its status."""

    of: O
    status: S


def run_list_rows(bodies: Iterable[raw.Object], *, now: datetime, wide: bool = False, namespaces: bool = False) -> Rows:
    """One row a run, the youngest first. The figures are those of the best Valid load point; without one, those of the highest
    Suspect one, marked `?`."""
    figures: tuple[Column[_Listed[Run, BenchmarkRunStatus]], ...] = (
        Column("stages", lambda row: row.status.progress.summary if row.status.progress else ABSENT),
        Column("load point", lambda row: row.status.headline.cell if row.status.headline else ABSENT),
        Column("tok/s", lambda row: row.status.headline.throughput if row.status.headline else ABSENT),
        Column("TTFT p99", lambda row: row.status.headline.p99_ttft if row.status.headline else ABSENT),
        Column("limit", lambda row: limit(row.status)),
        Column("findings", lambda row: finding_codes(row.status)),
    )
    setup: tuple[Column[_Listed[Run, BenchmarkRunStatus]], ...] = (
        Column("model", lambda row: model(row.of.spec) or ABSENT, wide=True),
        Column("vLLM", lambda row: _version(row.status) or ABSENT, wide=True),
        Column("GPU", lambda row: _gpus(row.status) or ABSENT, wide=True),
        Column("image", lambda row: image({"server": row.of.spec.get("server")}) or ABSENT, wide=True),
    )
    found = [_Listed(run, _status(run, BenchmarkRunStatus)) for run in map(run_of, bodies)]
    return _listed("run", figures, setup, found, now=now, wide=wide, namespaces=namespaces)


def sweep_list_rows(
    bodies: Iterable[raw.Object], *, now: datetime, wide: bool = False, namespaces: bool = False
) -> Rows:
    """One row a sweep, the youngest first. The best is that of the first workload, by throughput per GPU."""
    figures: tuple[Column[_Listed[Sweep, BenchmarkSweepStatus]], ...] = (
        Column("runs", lambda row: row.status.runs.summary if row.status.runs else ABSENT),
        Column("best", lambda row: row.status.best[0].variant if row.status.best else ABSENT),
        Column("load point", lambda row: row.status.best[0].cell if row.status.best else ABSENT),
        Column("tok/s per GPU", lambda row: figure(row.status.best[0].throughput_per_gpu if row.status.best else None)),
    )
    setup: tuple[Column[_Listed[Sweep, BenchmarkSweepStatus]], ...] = (
        Column("baseline", lambda row: row.status.baseline or ABSENT, wide=True),
        Column("model", lambda row: model(template(row.of)) or ABSENT, wide=True),
        Column("image", lambda row: image(template(row.of)) or ABSENT, wide=True),
    )
    found = [_Listed(sweep, _status(sweep, BenchmarkSweepStatus)) for sweep in map(sweep_of, bodies)]
    return _listed("sweep", figures, setup, found, now=now, wide=wide, namespaces=namespaces)


def _status(of: Run | Sweep, model: type[S]) -> S:
    """One of another version must not hide the others."""
    try:
        return model.model_validate(of.status)
    except ValidationError:
        return model(message=OTHER_VERSION)


def _listed(
    kind: str,
    figures: Iterable[Column[L]],
    setup: Iterable[Column[L]],
    found: list[L],
    *,
    now: datetime,
    wide: bool,
    namespaces: bool,
) -> Rows:
    namespace: list[Column[L]] = [Column("namespace", lambda row: row.of.namespace)] if namespaces else []
    columns: list[Column[L]] = [
        *namespace,
        Column(kind, lambda row: row.of.name),
        Column("state", lambda row: state(row.status)),
        *figures,
        Column("took", lambda row: duration(row.status, now=now)),
        Column("age", lambda row: age((now - (row.of.created_at or now)).total_seconds())),
        *setup,
    ]
    found.sort(key=lambda row: (row.of.created_at or OLDEST, row.of.name), reverse=True)
    return table_of(columns, found, wide=wide)


def state(status: BenchmarkRunStatus | BenchmarkSweepStatus) -> str:
    """The verdict of what was measured, the phase of any other."""
    return status.verdict or "Completed" if status.phase == "Completed" else status.phase or "Pending"


def duration(status: BenchmarkRunStatus | BenchmarkSweepStatus, *, now: datetime) -> str:
    """From acceptance to the end; until now where it has not ended."""
    begun, ended = raw.instant(status.accepted_time), raw.instant(status.completion_time)
    return ABSENT if begun is None else clock(((ended or now) - begun).total_seconds())


def finding_codes(status: BenchmarkRunStatus, *, most: int = MAX_CODES) -> str:
    """The codes that cost a verdict, the worst first, `most` of them by name; notes are left to the report."""
    codes = [f.code for severity in ("Invalid", "Suspect") for f in status.findings if f.severity == severity]
    more = len(codes) - most
    return ", ".join(codes[:most]) + (f" +{more}" if more > 0 else "") or ABSENT


def limit(status: BenchmarkRunStatus) -> str:
    """What limits the load point of the headline; without one, the first load point that has a limit."""
    chosen = status.headline.cell if status.headline is not None else None
    limits = (
        row.bottleneck.limit for row in status.results if row.bottleneck is not None and chosen in (None, row.cell)
    )
    return next((each for each in limits if each != "None"), ABSENT)


def model(spec: raw.Object) -> str:
    """Its name in the spec of a run."""
    return raw.text(raw.mapping(spec.get("model")).get("name"))


def template(sweep: Sweep) -> raw.Object:
    """The spec of the sweep's runs."""
    return raw.mapping(sweep.spec.get("template"))


def image(spec: raw.Object) -> str:
    """Of the server that the spec of a run starts."""
    return raw.text(raw.mapping(spec.get("server") or spec.get("offline")).get("image"), 1024)


def _version(status: BenchmarkRunStatus) -> str | None:
    server = answering(status.servers)
    return server.version if server is not None else None


def _gpus(status: BenchmarkRunStatus) -> str | None:
    """`4 H100`."""
    server, count = answering(status.servers), sum(each.gpus for each in status.servers)
    return f"{count} {server.gpu or ''}".strip() if server is not None and count else None
