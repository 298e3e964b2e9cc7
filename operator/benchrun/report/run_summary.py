"""One run on half a screen: what was measured, on what, how long each part took, what came out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from benchrun.api.status import BenchmarkRunStatus, ServerStatus
from benchrun.observe import raw
from benchrun.observe.views import Run
from benchrun.report.comparison_rows import signed
from benchrun.report.cost_columns import price_told
from benchrun.report.durations import age, told
from benchrun.report.run_list import findings_told, state_told
from benchrun.report.startup_told import startup_told
from benchrun.report.steps import steps

MAX_CODES = 6
"""Findings named; the rest are counted."""


@dataclass(frozen=True, slots=True)
class Summary:
    """A line that says it all, then facts by name."""

    title: str
    word: str
    """How it came out, or where it is."""
    sentence: str
    facts: tuple[tuple[str, str], ...]
    look_further: tuple[str, ...]
    """Commands that show more."""


def run_summary(run: Run, status: BenchmarkRunStatus, *, now: datetime) -> Summary:
    """Of a run that waits, goes on or has ended."""
    facts = (*_asked(run), *_ran(status), *_times(run, status, now=now), *_came_out(status))
    return Summary(
        title=f"{run.namespace}/{run.name}" if run.namespace else run.name,
        word=state_told(status),
        sentence=status.message or "no operator has looked at it yet",
        facts=tuple((name, text) for name, text in facts if text),
        look_further=_commands(run, status),
    )


def _asked(run: Run) -> Iterator[tuple[str, str]]:
    spec = run.spec
    yield "model", raw.text(raw.mapping(spec.get("model")).get("name"))
    offline, endpoint = raw.mapping(spec.get("offline")), raw.mapping(spec.get("endpoint"))
    server = raw.mapping(spec.get("server")) or offline
    if offline:
        yield "mode", "offline: the engine without its API server"
    if server:
        yield "image", raw.text(server.get("image"), 1024)
        args = server.get("args")
        if isinstance(args, list) and args:
            yield "arguments", " ".join(str(each) for each in args)
    if endpoint:
        service = raw.mapping(endpoint.get("serviceRef"))
        yield "endpoint", raw.text(endpoint.get("url"), 1024) or f"service {raw.text(service.get('name'))}"
    workloads = [raw.text(each.get("name")) for each in raw.mappings(spec.get("workloads"))]
    if workloads:
        repeats = raw.number(spec.get("repeats"), default=1)
        often = f", each load point {repeats} times" if repeats > 1 else ""
        yield ("workload" if len(workloads) == 1 else "workloads"), ", ".join(workloads) + often


def _ran(status: BenchmarkRunStatus) -> Iterator[tuple[str, str]]:
    for server in status.servers:
        yield server.role, _server(server)
        yield "start", startup_told(server)
        if server.image_digest:
            yield "digest", server.image_digest
    client = status.client
    if client is not None and client.engine is not None:
        several = f", {client.shards} processes" if client.shards is not None else ""
        yield "client", f"{client.engine} {client.engine_version or ''}".strip() + several
    if status.cost is not None:
        yield "price", price_told(status.cost)


def _server(server: ServerStatus) -> str:
    parts = [
        f"vLLM {server.version}" if server.version else "",
        f"{server.gpus} GPU{'s' if server.gpus > 1 else ''} {server.gpu or ''}".strip() if server.gpus else "no GPU",
        f"node {server.node}" if server.node else "",
        f"KV cache {server.kv_cache_tokens} tokens" if server.kv_cache_tokens is not None else "",
        f"ready after {told(server.seconds_to_ready)}" if server.seconds_to_ready is not None else "",
        f"{server.restarts} restarts" if server.restarts else "",
    ]
    return ", ".join(part for part in parts if part)


def _times(run: Run, status: BenchmarkRunStatus, *, now: datetime) -> Iterator[tuple[str, str]]:
    if run.created_at is not None:
        yield "created", f"{age((now - run.created_at).total_seconds())} ago"
    known = [f"{step.name} {told(step.seconds)}" for step in steps(status, now=now) if step.seconds is not None]
    if known:
        yield "time", ", ".join(known)
    if status.progress is not None:
        done = f"{status.progress.stages_done} of {status.progress.stages_total}"
        yield "stages", f"{done} measured" + (f", {status.progress.stage} under way" if status.progress.stage else "")


def _came_out(status: BenchmarkRunStatus) -> Iterator[tuple[str, str]]:
    if status.headline is not None:
        best = status.headline
        yield "best valid", f"{best.cell}: {best.throughput} tok/s, TTFT p99 {best.p99_ttft}"
    for row in status.results:
        if row.bottleneck is not None and row.bottleneck.limit != "None":
            yield "limit", f"{row.cell}: {row.bottleneck.sentence}"
            break
    if any(finding.severity != "Note" for finding in status.findings):
        yield "findings", findings_told(status, most=MAX_CODES)
    outcomes = [each.outcome for row in status.results for each in row.objectives]
    if outcomes:
        counted = ((outcomes.count(word), word.lower()) for word in ("Met", "Missed", "Inconclusive"))
        yield "objectives", ", ".join(f"{count} {word}" for count, word in counted if count)
    yield from _compared(status)
    for cut in status.truncated:
        yield "cut", f"{cut.field}: {cut.included} of {cut.total} kept"


def _compared(status: BenchmarkRunStatus) -> Iterator[tuple[str, str]]:
    found = status.comparison
    if found is None:
        return
    changes = [change for cell in found.cells for change in cell.changes if change.word in ("Better", "Worse")]
    largest = max(changes, key=lambda change: abs(change.change_percent or 0.0), default=None)
    most = f"; most: {largest.metric} {signed(largest.change_percent, unit=' %')}" if largest is not None else ""
    yield "compared", f"with {found.baseline.name}: {found.outcome}, {found.gate or 'no gate'}{most}"


def _commands(run: Run, status: BenchmarkRunStatus) -> tuple[str, ...]:
    where = f" -n {run.namespace}" if run.namespace else ""
    if status.completion_time is None:
        return (f"benchrun watch {run.name}{where}", f"benchrun logs {run.name}{where} -f")
    shown = (f"benchrun report {run.name}{where}",) if status.results else ()
    return (*shown, f"benchrun logs {run.name}{where}") if status.log_tail else shown
