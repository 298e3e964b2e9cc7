"""One run on half a screen: what was measured, on what, how long each part took, what came out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from benchrun.api import BenchmarkRunStatus, ServerStatus, Startup, find_condition, is_true
from benchrun.observe import raw
from benchrun.observe.views import Run
from benchrun.report.comparison_rows import signed
from benchrun.report.result_rows import price_told
from benchrun.report.rows import age, figure, told
from benchrun.report.run_list import findings_told, state_told

# ---- startup told -----------------------------------------------------------------------------------------------------
# Where the time until a server was ready went, in a line.

WORTH_TELLING_SECONDS = 0.5
"""What nobody accounts for is told from here on: instants of pods are whole seconds."""


def startup_told(server: ServerStatus) -> str:
    """`pod 40 s (image 31 s), download 20 s, load 9.4 s, compile 22 s, warm-up 15 s, other 18 s`; empty where nothing is known.

    Other is the rest of the time to ready: Python, imports, files of the model, the way to the first healthy answer.
    """
    if server.startup is None:
        return ""
    parts = list(_parts(server.startup))
    texts = [f"{name} {_seconds(seconds)}{_image(server.startup) if name == 'pod' else ''}" for name, seconds in parts]
    rest = (server.seconds_to_ready or 0.0) - sum(seconds for _, seconds in parts)
    if server.startup.pod_seconds is not None and rest >= WORTH_TELLING_SECONDS:
        texts.append(f"other {_seconds(rest)}")
    return ", ".join(texts)


def _parts(startup: Startup) -> Iterator[tuple[str, float]]:
    parts = (
        ("pod", startup.pod_seconds),
        ("download", startup.download_seconds),
        ("load", startup.load_seconds),
        ("compile", startup.compile_seconds),
        ("warm-up", startup.warm_up_seconds),
    )
    return ((name, seconds) for name, seconds in parts if seconds is not None)


def _image(startup: Startup) -> str:
    pull = startup.image_pull_seconds
    return "" if pull is None else f" (image {_seconds(pull)})" if pull else " (image there)"


def _seconds(seconds: float) -> str:
    return f"{figure(seconds, digits=2)} s" if seconds < 10 else told(seconds)


# ---- steps ------------------------------------------------------------------------------------------------------------
# The way of a run from its acceptance to its end, and how long each part took.

State = Literal["Done", "UnderWay", "ToCome"]


@dataclass(frozen=True, slots=True)
class Step:
    """A part of the way."""

    name: str
    state: State
    seconds: float | None
    """How long it took, or has taken so far; None: not known, or not begun."""


def steps(status: BenchmarkRunStatus, *, now: datetime) -> tuple[Step, ...]:
    """Client, node, server, warm-up, stages: each begins when the one before has ended. An endpoint needs no node."""
    ends = _ends(status)
    begun: datetime | None = raw.instant(status.accepted_time)
    found: list[Step] = []
    reached = _furthest(ends)
    for index, (name, ended) in enumerate(ends):
        if index <= reached:
            found.append(Step(name, "Done", _between(begun, ended)))
            begun = ended
        elif index == reached + 1 and begun is not None:
            found.append(Step(name, "UnderWay", _between(begun, now)))
        else:
            found.append(Step(name, "ToCome", None))
    return tuple(found)


def _ends(status: BenchmarkRunStatus) -> list[tuple[str, datetime | None]]:
    """When each part ended, as far as the status tells."""
    node = raw.instant(status.scheduled_time)
    ready, start, end = map(raw.instant, (status.server_ready_time, status.start_time, status.completion_time))
    ends = [("client", _client_ready(status)), ("node", node), ("server", ready), ("warm-up", start), ("stages", end)]
    return [each for each in ends if each[0] != "node" or node is not None or ready is None]


def _client_ready(status: BenchmarkRunStatus) -> datetime | None:
    """Only while it is ready: at the end the condition tells of the end."""
    found = find_condition(status.conditions, "ClientReady")
    return raw.instant(found.last_transition_time) if found and is_true(status.conditions, "ClientReady") else None


def _furthest(ends: list[tuple[str, datetime | None]]) -> int:
    """The last part that has ended; what comes before it has ended, too, even where the status has no instant for it."""
    return max((index for index, (_, ended) in enumerate(ends) if ended is not None), default=-1)


def _between(begun: datetime | None, ended: datetime | None) -> float | None:
    """Clocks of laptop and cluster differ: never less than nothing."""
    return None if begun is None or ended is None else max(0.0, (ended - begun).total_seconds())


# ---- run summary ------------------------------------------------------------------------------------------------------
# One run on half a screen: what was measured, on what, how long each part took, what came out.

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


# ---- missing ----------------------------------------------------------------------------------------------------------
# What a finished run did not keep of its measurement, in sentences.


def missing_sentences(stored: BenchmarkRunStatus, missing: Mapping[str, int]) -> list[str]:
    """`missing`: records that were judged once and are gone, by cell."""
    repeats = {row.cell: row.repeats for row in stored.results}
    told = [_of_cell(cell, lost, judged=repeats.get(cell)) for cell, lost in missing.items()]
    timeline = next((each for each in stored.truncated if each.field == "timeline"), None)
    if timeline is not None:
        told.append(
            f"{timeline.included} of {timeline.total} chunks of the timeline were kept: "
            "readings of the servers are missing, and findings that rest on them may differ"
        )
    return told


def _of_cell(cell: str, lost: int, *, judged: int | None) -> str:
    if judged is None:
        return f"{cell}: not all of its records are kept"
    if lost >= judged:
        return f"{cell}: not judged, since none of its records is kept"
    return f"{cell}: judged by {judged - lost} of its {judged} repeats, since the other records are not kept"
