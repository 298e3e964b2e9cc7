"""Rows of `benchrun get` for sweeps, and one of them on half a screen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from pydantic import ValidationError

from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.judge.comparison.sentence import SCOPES
from benchrun.observe import raw
from benchrun.observe.trim import sweep_of
from benchrun.observe.views import Sweep
from benchrun.report.durations import age
from benchrun.report.rows import ABSENT, Rows, figure
from benchrun.report.run_list import OLDEST, took
from benchrun.report.run_summary import Summary
from benchrun.report.sweep_rows import remarks

HEADERS = ("sweep", "state", "runs", "best", "load point", "tok/s per GPU", "took", "age")
WIDE = ("baseline", "model", "image")


def sweep_list_rows(
    bodies: Iterable[raw.Object], *, now: datetime, wide: bool = False, namespaces: bool = False
) -> Rows:
    """One row a sweep, the youngest first. The best is that of the first workload, by throughput per GPU."""
    sweeps = sorted(
        (sweep_of(body) for body in bodies), key=lambda sweep: (sweep.created_at or OLDEST, sweep.name), reverse=True
    )
    headers = (*(("namespace",) if namespaces else ()), *HEADERS, *(WIDE if wide else ()))
    return Rows(headers, tuple(_row(sweep, now=now, wide=wide, namespaces=namespaces) for sweep in sweeps))


def sweep_summary(sweep: Sweep, status: BenchmarkSweepStatus, *, now: datetime) -> Summary:
    """Of a sweep that waits, goes on or has ended."""
    where = f" -n {sweep.namespace}" if sweep.namespace else ""
    command = "watch" if status.completion_time is None else "report"
    return Summary(
        title=f"{sweep.namespace}/{sweep.name}" if sweep.namespace else sweep.name,
        word=_state(status),
        sentence=status.message or "no operator has looked at it yet",
        facts=tuple((name, text) for name, text in _facts(sweep, status, now=now) if text),
        look_further=(f"benchrun {command} {sweep.name}{where}",),
    )


def _row(sweep: Sweep, *, now: datetime, wide: bool, namespaces: bool) -> tuple[str, ...]:
    try:
        status = BenchmarkSweepStatus.model_validate(sweep.status)
    except ValidationError:
        # Another version's; that must not hide the sweeps beside it.
        status = BenchmarkSweepStatus(message="written by another version of the API")
    best = status.best[0] if status.best else None
    cells = (
        sweep.name,
        _state(status),
        status.runs.summary if status.runs is not None else ABSENT,
        best.variant if best is not None else ABSENT,
        best.cell if best is not None else ABSENT,
        figure(best.throughput_per_gpu if best is not None else None),
        took(status, now=now),
        age((now - (sweep.created_at or now)).total_seconds()),
    )
    return (*((sweep.namespace,) if namespaces else ()), *cells, *(_wide(sweep, status) if wide else ()))


def _wide(sweep: Sweep, status: BenchmarkSweepStatus) -> tuple[str, ...]:
    return tuple(text or ABSENT for text in (status.baseline, _model(sweep), _image(sweep)))


def _state(status: BenchmarkSweepStatus) -> str:
    """The verdict of a sweep that was measured, the phase of any other."""
    return status.verdict or "Completed" if status.phase == "Completed" else status.phase or "Pending"


def _facts(sweep: Sweep, status: BenchmarkSweepStatus, *, now: datetime) -> Iterator[tuple[str, str]]:
    yield "model", _model(sweep)
    yield "image", _image(sweep)
    yield "variants", ", ".join(variant.name for variant in status.variants)
    yield "baseline", status.baseline or ""
    if status.runs is not None:
        counts = status.runs.model_dump(exclude={"tabled", "summary"})
        yield "runs", ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    if status.gpu_seconds:
        yield "GPU seconds", figure(status.gpu_seconds)
    if sweep.created_at is not None:
        yield "created", f"{age((now - sweep.created_at).total_seconds())} ago"
    yield "time", took(status, now=now)
    for best in status.best:
        tied = f", not to be told from {', '.join(best.tied_with)}" if best.tied_with else ""
        told = f"{best.variant} at {best.cell}, {figure(best.throughput_per_gpu)} tok/s per GPU{tied}"
        yield f"best, {best.objective}", told
    yield "compared", SCOPES[status.scope] if status.scope is not None else ""
    for remark in remarks(status):
        yield "note", remark


def _template(sweep: Sweep) -> raw.Object:
    return raw.mapping(sweep.spec.get("template"))


def _model(sweep: Sweep) -> str:
    return raw.text(raw.mapping(_template(sweep).get("model")).get("name"))


def _image(sweep: Sweep) -> str:
    template = _template(sweep)
    return raw.text(raw.mapping(template.get("server") or template.get("offline")).get("image"), 1024)
