"""What was measured with what, and the manifest that measures the same again."""

from __future__ import annotations

from collections.abc import Iterable

from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus, ServerStatus
from benchrun.names import KIND, MAX_RUN_NAME
from benchrun.report.html.blocks import Block, Code, Facts, Fold, Prose, Section, Table, asked_again, manifest_text
from benchrun.report.html.reported import Reported
from benchrun.report.result_rows import price_told
from benchrun.report.rows import ABSENT, Rows, figure
from benchrun.report.run_summary import startup_told

_Pairs = Iterable[tuple[str, str | None]]


def provenance_section(run: Reported) -> Section:
    """The run, its servers, the client, the judge, and the digests of traffic and records."""
    blocks: list[Block] = [_facts("Run", _run(run))]
    for server in run.status.servers:
        blocks.append(_facts(f"Servers of the role {server.role}", _server(server)))
        if server.args:
            blocks.append(Fold("Arguments", (Table("Arguments of the server", _column("argument", server.args)),)))
        if server.reported:
            rows = Rows(("setting", "value"), tuple(sorted(server.reported.items())))
            blocks.append(Fold("What the server reports of itself", (Table("Settings as the server says", rows),)))
    blocks += [_facts("Client", _client(run.status)), _facts("Judge", _judge(run.status))]
    if run.status.datasets:
        blocks.append(Table("Data that prompts were made of", _datasets(run.status)))
    if run.records:
        rows = Rows(("stage", "prompts (SHA-256)"), tuple((r.stage_id, r.prompts_digest) for r in run.records))
        blocks.append(Fold("Traffic of each stage", (Table("Equal digests mean equal prompts", rows),)))
    blocks += [Prose(note) for note in run.notes]
    return Section("provenance", "Provenance", tuple(block for block in blocks if not _is_empty(block)))


def _run(run: Reported) -> _Pairs:
    status = run.status
    return (
        ("Name", run.name),
        ("Namespace", run.namespace),
        ("UID", run.uid),
        ("Model", run.spec.model.name),
        ("Revision", run.spec.model.revision),
        ("Accepted", status.accepted_time),
        ("Server on its node", status.scheduled_time),
        ("Server healthy", status.server_ready_time),
        ("First measured request", status.start_time),
        ("Server released", status.server_released_time),
        ("Ended", status.completion_time),
        ("Price", None if status.cost is None else price_told(status.cost)),
        ("Records at hand", str(len(run.records))),
        ("Readings of the servers", str(len(run.samples))),
    )


def _server(server: ServerStatus) -> _Pairs:
    return (
        ("Image", server.image),
        ("Image that ran", server.image_digest),
        ("vLLM", server.version),
        ("Pod", server.pod),
        ("Node", server.node),
        ("GPU", server.gpu or server.gpu_reason),
        ("Servers", str(server.replicas) if server.replicas > 1 else None),
        ("GPUs", str(server.gpus)),
        ("KV cache", None if server.kv_cache_tokens is None else f"{server.kv_cache_tokens} tokens"),
        ("Seconds to ready", None if server.seconds_to_ready is None else figure(server.seconds_to_ready)),
        ("Start", startup_told(server)),
        ("Restarts", str(server.restarts)),
    )


def _client(status: BenchmarkRunStatus) -> _Pairs:
    client = status.client
    if client is None:
        return ()
    engine = " ".join(word for word in (client.engine, client.engine_version) if word)
    return (
        ("Image", client.image),
        ("Image that ran", client.image_digest),
        ("Load engine", engine),
        ("Processes", None if client.shards is None else str(client.shards)),
    )


def _judge(status: BenchmarkRunStatus) -> _Pairs:
    judge = status.judge
    if judge is None:
        return ()
    return (
        ("Rules", f"version {judge.version}"),
        ("Thresholds", judge.thresholds_digest),
        ("Severities changed", ", ".join(judge.overrides)),
    )


def _datasets(status: BenchmarkRunStatus) -> Rows:
    rows = tuple(
        (
            data.name,
            data.source,
            str(data.rows_read),
            str(data.rows_used),
            ", ".join(f"{count} {reason}" for reason, count in data.rows_dropped.items()) or ABSENT,
            data.sha256,
        )
        for data in status.datasets
    )
    return Rows(("workload", "source", "rows read", "rows used", "left out", "SHA-256"), rows)


def _facts(title: str, pairs: _Pairs) -> Facts:
    return Facts(title, tuple((name, value) for name, value in pairs if value))


def _column(header: str, values: Iterable[str]) -> Rows:
    return Rows((header,), tuple((value,) for value in values))


def _is_empty(block: Block) -> bool:
    return isinstance(block, Facts) and not block.pairs


# ---- repeat -----------------------------------------------------------------------------------------------------------
# The manifest that measures the same again.

RUN_FIELDS = tuple(field.alias or name for name, field in BenchmarkRunSpec.model_fields.items())


def repeat_section(run: Reported) -> Section:
    """With a name of its own: a finished run never starts again."""
    lead = (
        "Save it and give it to kubectl apply -f. It is the spec of this run under another name, since a finished run never "
        "starts again. Tags of images may point elsewhere by now; what ran is under Provenance."
    )
    return Section("repeat", "Measure it again", (Prose(lead), Code("Manifest", manifest(run))))


def manifest(run: Reported) -> str:
    """YAML."""
    return manifest_text(KIND, run.name, run.namespace, asked_again(run.written, RUN_FIELDS), max_name=MAX_RUN_NAME)
