"""Summarise one run or sweep on half a screen.

The summary says what was measured, on what, how long each part took, and what the result is.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from benchrun_client.engines import ENGINES

from benchrun.api import (
    AUTO,
    BenchmarkRunStatus,
    ServerStatus,
    find_condition,
    has_ended,
    is_true,
)
from benchrun.api.sweep import BenchmarkSweepStatus
from benchrun.measure import detected_text
from benchrun.observe import Run, Sweep, untrusted_json as raw
from benchrun.report import run_list
from benchrun.report.comparison_rows import signed
from benchrun.report.run_settings import kv_cache_text
from benchrun.report.sweep_rows import (
    NONE_CERTAIN,
    compared_text,
    remarks,
    throughput,
    throughput_unit,
)
from benchrun.report.tables import age, figure, format_seconds, price_text

MAX_CODES = 6  # Most findings that are named; the others are counted.
# A shorter rest of a start is not shown: instants of pods are whole seconds.
LEAST_OTHER_SECONDS = 0.5
_Facts = Iterable[tuple[str, str]]


def startup_text(server: ServerStatus) -> str:
    """Format how long each part of a server's start took; empty if nothing is known.

    An example is `pod 40 s (image 31 s), download 20 s, load 9.4 s, compile 22 s, warm-up 15 s,
    other 18 s, claim warm`. The claim is the one that holds the model. Other is the rest of the
    time until the server is ready: Python, imports, reading the model's files, and the wait for the
    first healthy answer.
    """
    if (startup := server.startup) is None:
        return ""
    names = {
        "pod": "pod",
        "download": "download",
        "load": "load",
        "compile": "compile",
        "warm_up": "warm-up",
    }
    parts = {
        text: getattr(startup, f"{name}_seconds") for name, text in names.items()
    }
    known = {
        name: seconds for name, seconds in parts.items() if seconds is not None
    }
    texts = {name: f"{name} {_seconds(seconds)}" for name, seconds in known.items()}
    if (pull := startup.image_pull_seconds) is not None and "pod" in texts:
        texts["pod"] += f" (image {_seconds(pull)})" if pull else " (image there)"
    rest = (server.seconds_to_ready or 0.0) - sum(known.values())
    if "pod" in known and rest >= LEAST_OTHER_SECONDS:
        texts["other"] = f"other {_seconds(rest)}"
    if startup.model is not None:
        texts["model"] = f"claim {startup.model.lower()}"
    if startup.compiled is not None:
        texts["compiled"] = f"compile cache {startup.compiled.lower()}"
    return ", ".join(texts.values())


def _seconds(seconds: float) -> str:
    return (
        f"{figure(seconds, digits=2)} s"
        if seconds < 10
        else format_seconds(seconds)
    )


class RunPart(NamedTuple):
    """A part of a run's time between its acceptance and its end."""

    name: str
    state: Literal["Done", "UnderWay", "ToCome"]
    # How long it took, or has taken so far; None if not known, or not begun.
    seconds: float | None


def steps(status: BenchmarkRunStatus, *, now: datetime) -> tuple[RunPart, ...]:
    """Return the parts of a run's time: client, node, server, warm-up, stages.

    Each part begins when the part before it has ended. A run against an endpoint has no node.
    """
    ends = _ends(status)
    # Every part before one that has ended has ended, too, even without an instant in the status.
    done = max(
        (
            number
            for number, (_, ended) in enumerate(ends, start=1)
            if ended is not None
        ),
        default=0,
    )
    begun = raw.instant(status.accepted_time)
    found: list[RunPart] = []
    for name, ended in ends[:done]:
        found.append(RunPart(name, "Done", raw.seconds_between(begun, ended)))
        begun = ended
    for name, _ in ends[done:]:
        under_way = len(found) == done and begun is not None
        found.append(
            RunPart(name, "UnderWay", raw.seconds_between(begun, now))
            if under_way
            else RunPart(name, "ToCome", None)
        )
    return tuple(found)


def _ends(status: BenchmarkRunStatus) -> list[tuple[str, datetime | None]]:
    """Return when each part ended, or None if the status does not say.

    The condition of the client is used only while the client is ready.
    """
    found = find_condition(status.conditions, "ClientReady")
    client = (
        raw.instant(found.last_transition_time)
        if found and is_true(status.conditions, "ClientReady")
        else None
    )
    node = raw.instant(status.scheduled_time)
    ready, start, end = map(
        raw.instant,
        (status.server_ready_time, status.start_time, status.completion_time),
    )
    ends = [
        ("client", client),
        ("node", node),
        ("server", ready),
        ("warm-up", start),
        ("stages", end),
    ]
    return [
        each
        for each in ends
        if each[0] != "node" or node is not None or ready is None
    ]


class Summary(NamedTuple):
    """A title with the outcome, then pairs of a name and a fact."""

    title: str
    word: str  # The verdict, or the phase.
    sentence: str
    facts: tuple[tuple[str, str], ...]
    look_further: tuple[str, ...]  # Commands that show more.


def run_summary(run: Run, status: BenchmarkRunStatus, *, now: datetime) -> Summary:
    facts = (
        *_spec(run),
        *_servers(status),
        *_times(run, status, now=now),
        *_results(status),
    )
    if not has_ended(status.conditions):
        commands = ["watch {}", "logs {} -f"]
    else:
        commands = [
            *(["report {}"] if status.results else []),
            *(["logs {}"] if status.log_tail else []),
        ]
    return _summary(run, status, facts, commands)


def sweep_summary(
    sweep: Sweep, status: BenchmarkSweepStatus, *, now: datetime
) -> Summary:
    command = "report {}" if has_ended(status.conditions) else "watch {}"
    return _summary(sweep, status, _sweep_facts(sweep, status, now=now), [command])


def _summary(
    of: Run | Sweep,
    status: BenchmarkRunStatus | BenchmarkSweepStatus,
    facts: _Facts,
    commands: Iterable[str],
) -> Summary:
    name = f"{of.name} -n {of.namespace}" if of.namespace else of.name
    return Summary(
        title=f"{of.namespace}/{of.name}" if of.namespace else of.name,
        word=run_list.state(status),
        sentence=status.message or "no operator has processed it yet",
        facts=tuple((fact, text) for fact, text in facts if text),
        look_further=tuple(
            f"benchrun {command.format(name)}" for command in commands
        ),
    )


def _spec(run: Run) -> _Facts:
    spec = run.spec
    yield "model", run_list.model(spec)
    offline = raw.mapping(spec.get("offline"))
    endpoint = raw.mapping(spec.get("endpoint"))
    yield "mode", "offline: the engine without its API server" if offline else ""
    if server := raw.mapping(spec.get("server")) or offline:
        yield "image", run_list.image(spec)
        args = server.get("args")
        yield (
            "arguments",
            " ".join(map(str, args)) if isinstance(args, list) else "",
        )
    if endpoint:
        service = raw.mapping(endpoint.get("serviceRef"))
        yield (
            "endpoint",
            raw.text(endpoint.get("url"), 1024)
            or f"service {raw.text(service.get('name'))}",
        )
    workloads = [
        raw.text(each.get("name")) for each in raw.mappings(spec.get("workloads"))
    ]
    if workloads:
        repeats = raw.number(spec.get("repeats"), default=1)
        often = f", each load point {repeats} times" if repeats > 1 else ""
        if spec.get("repeats") == AUTO:
            often = ", each load point until it is decided"
        yield (
            ("workload" if len(workloads) == 1 else "workloads"),
            ", ".join(workloads) + often,
        )


def _servers(status: BenchmarkRunStatus) -> _Facts:
    for server in status.servers:
        gpus = f"{server.gpus} GPU{'s' if server.gpus > 1 else ''} {server.gpu or ''}".strip()
        parts = [
            f"{ENGINES[server.engine].name} {server.version}"
            if server.version
            else "",
            gpus if server.gpus else "no GPU",
            f"node {server.node}" if server.node else "",
            kv_cache_text(server),
            f"ready after {format_seconds(server.seconds_to_ready)}"
            if server.seconds_to_ready is not None
            else "",
            f"{server.restarts} restarts" if server.restarts else "",
        ]
        yield server.role, ", ".join(part for part in parts if part)
        yield "start", startup_text(server)
        yield "digest", server.image_digest or ""
    if (client := status.client) is not None and client.engine is not None:
        several = (
            f", {client.shards} processes" if client.shards is not None else ""
        )
        yield (
            "client",
            f"{client.engine} {client.engine_version or ''}".strip() + several,
        )
    if status.cost is not None:
        yield "price", price_text(status.cost)


def _created(of: Run | Sweep, now: datetime) -> tuple[str, str]:
    return (
        "created",
        ""
        if of.created_at is None
        else f"{age((now - of.created_at).total_seconds())} ago",
    )


def _times(run: Run, status: BenchmarkRunStatus, *, now: datetime) -> _Facts:
    yield _created(run, now)
    known = (
        f"{each.name} {format_seconds(each.seconds)}"
        for each in steps(status, now=now)
        if each.seconds is not None
    )
    yield "time", ", ".join(known)
    if status.progress is not None:
        done = f"{status.progress.stages_done} of {status.progress.stages_total}"
        yield (
            "stages",
            f"{done} measured"
            + (
                f", {status.progress.stage} under way"
                if status.progress.stage
                else ""
            ),
        )


def sampling_text(status: BenchmarkRunStatus) -> str:
    """Return how tokens were chosen, such as `greedy`; empty if it is unknown.

    If workloads differ, each is listed with its name.
    """
    known = {
        row.workload: row.sampling
        for row in status.results
        if row.sampling is not None
    }
    if len(set(known.values())) <= 1:
        return next(iter(known.values()), "")
    return "; ".join(f"{workload}: {text}" for workload, text in known.items())


def _results(status: BenchmarkRunStatus) -> _Facts:
    yield "sampling", sampling_text(status)
    if (best := status.headline) is not None:
        # That of embeddings says of itself that it is an E2EL.
        of = "" if "E2EL" in best.p99_ttft else "TTFT "
        yield (
            "best",
            f"{best.load_point}: {best.throughput} tok/s, {of}p99 {best.p99_ttft}",
        )
    limits = (
        row
        for row in status.results
        if row.bottleneck is not None and row.bottleneck.limit != "None"
    )
    yield (
        "limit",
        next(
            (
                f"{row.load_point}: {row.bottleneck.sentence}"
                for row in limits
                if row.bottleneck
            ),
            "",
        ),
    )
    yield "profile", status.profile.sentence if status.profile is not None else ""
    if any(finding.severity != "Note" for finding in status.findings):
        yield "findings", run_list.finding_codes(status, most=MAX_CODES)
    outcomes = [each.outcome for row in status.results for each in row.objectives]
    counted = (
        (outcomes.count(word), word.lower())
        for word in ("Met", "Missed", "Inconclusive")
    )
    yield (
        "objectives",
        ", ".join(f"{count} {word}" for count, word in counted if count),
    )
    if (found := status.comparison) is not None:
        changes = [
            change
            for load_point in found.load_points
            for change in load_point.changes
            if change.word in ("Better", "Worse")
        ]
        largest = max(
            changes,
            key=lambda change: abs(change.change_percent or 0.0),
            default=None,
        )
        most = (
            f"; most: {largest.metric} {signed(largest.change_percent, unit=' %')}"
            if largest is not None
            else ""
        )
        yield (
            "compared",
            f"with {found.baseline.name}: {found.outcome}, {found.gate or 'no gate'}{most}",
        )
        if (least := found.detectable_percent) is not None:
            yield "power", detected_text(least)
    elif (gate := find_condition(status.conditions, "NotRegressed")) is not None:
        yield "power", gate.message
    for cut in status.truncated:
        yield "cut", f"{cut.field}: {cut.included} of {cut.total} kept"


def _sweep_facts(
    sweep: Sweep, status: BenchmarkSweepStatus, *, now: datetime
) -> _Facts:
    yield "model", run_list.model(run_list.template(sweep))
    yield "image", run_list.image(run_list.template(sweep))
    yield "variants", ", ".join(variant.name for variant in status.variants)
    yield "baseline", status.baseline or ""
    if status.runs is not None:
        counts = status.runs.model_dump(exclude={"tabled", "summary"})
        yield (
            "runs",
            ", ".join(f"{count} {word}" for word, count in counts.items() if count),
        )
    yield "GPU seconds", figure(status.gpu_seconds) if status.gpu_seconds else ""
    yield _created(sweep, now)
    yield "time", run_list.duration(status, now=now)
    for best in status.best:
        tied = f", tied with {', '.join(best.tied_with)}" if best.tied_with else ""
        shown = f"{figure(throughput(status, best))} {throughput_unit(status)}"
        certain = f"{best.variant} at {best.load_point}, {shown}{tied}"
        yield (
            f"best, {best.objective}",
            certain if best.variant is not None else NONE_CERTAIN,
        )
        yield "undecided", best.undecided_text or ""
    yield "compared", compared_text(status) or ""
    if (
        status.completion_time is None
        and (awaited := find_condition(status.conditions, "Succeeded")) is not None
    ):
        yield "power", awaited.message
    for remark in remarks(status):
        yield "note", remark


def missing_sentences(
    stored: BenchmarkRunStatus, missing: Mapping[str, int]
) -> list[str]:
    """Return sentences on what a finished run did not keep of its measurement.

    `missing` has the number of records that were judged once and are gone, by load point.
    """
    repeats = {row.load_point: row.repeats for row in stored.results}
    sentences = []
    for load_point, lost in missing.items():
        if (judged := repeats.get(load_point)) is None:
            kept = "not all of its records are kept"
        elif lost >= judged:
            kept = "not judged, since none of its records is kept"
        else:
            kept = (
                f"judged by {judged - lost} of its {judged} repeats, since the other records are "
                "not kept"
            )
        sentences.append(f"{load_point}: {kept}")
    lost_samples = "samples of the servers are missing, and findings that rest on them may differ"
    return sentences + [
        f"{cut.included} of {cut.total} chunks of the timeline were kept: {lost_samples}"
        for cut in stored.truncated
        if cut.field == "timeline"
    ]
