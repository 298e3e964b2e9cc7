"""Sections on what a run or sweep was measured with, and the manifest that repeats it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

import yaml
from benchrun_client.engines import ENGINES

from benchrun.api import (
    BenchmarkRunSpec,
    ClientStatus,
    DatasetStatus,
    Judge,
    ServerStatus,
)
from benchrun.api.sweep import spec as sweep_api
from benchrun.names import API_VERSION, MAX_RUN_NAME
from benchrun.observe import Run, Sweep, untrusted_json as raw
from benchrun.plan import Variant, planned_variants
from benchrun.report import html, run_list
from benchrun.report.html import Reported, ReportedSweep
from benchrun.report.run_settings import kv_cache_text, platform_text, settings_rows
from benchrun.report.run_summary import sampling_text, startup_text
from benchrun.report.tables import (
    ABSENT,
    Column,
    Rows,
    figure,
    price_text,
    table_of,
)

REPEAT_SUFFIX = "-again"
# Fields of the spec that switch a single object only.
_OF_THAT_OBJECT = (
    "suspend",
    "cancel",
)


def provenance_section(run: Reported) -> html.Section:
    """Build the facts on the run, its servers, client and judge, and the digests of its traffic."""
    status = run.status
    settings = html.Table(
        "Settings of the server and of the client",
        settings_rows(run.declared.spec, status),
    )
    digests = Rows(
        ("stage", "prompts (SHA-256)"),
        tuple((stage.id, stage.prompts_digest) for stage in run.stages),
    )
    return html.section(
        "provenance",
        "Provenance",
        _run(run),
        *(element for server in status.servers for element in _server(server)),
        *(
            [_client(status.client, sampling_text(status))]
            if status.client is not None
            else []
        ),
        *([_judge(status.judge)] if status.judge is not None else []),
        html.fold("Settings of the server and settings of the client", settings),
        html.Table(
            "Data of the prompts",
            table_of(_DATASET_COLUMNS, status.datasets),
        ),
        html.fold(
            "Traffic of each stage",
            html.Table("Equal digests mean equal prompts", digests),
        ),
        *(html.Prose(f"{note}; {html.STATUS_ONLY}.") for note in run.notes),
    )


def _identity(of: Run | Sweep) -> tuple[tuple[str, str], ...]:
    labels = ", ".join(f"{name}={value}" for name, value in of.labels)
    return (
        ("Name", of.name),
        ("Namespace", of.namespace),
        ("UID", of.uid),
        *([("Labels", labels)] if labels else []),
    )


def _run(run: Reported) -> html.FactList:
    status = run.status
    return html.facts(
        "Run",
        *_identity(run.declared),
        ("Model", run.spec.model.name),
        ("Revision", run.spec.model.revision),
        ("Accepted", status.accepted_time),
        ("Server on its node", status.scheduled_time),
        ("Server healthy", status.server_ready_time),
        ("First measured request", status.start_time),
        ("Server released", status.server_released_time),
        ("Ended", status.completion_time),
        ("Price", None if status.cost is None else price_text(status.cost)),
        ("Stages", str(len(run.stages)) if run.stages else None),
        (
            "Server samples",
            str(run.timeline.samples) if run.timeline is not None else None,
        ),
    )


def _server(server: ServerStatus) -> Iterator[html.Element]:
    yield html.facts(
        f"Servers of the role {server.role}",
        ("Image", server.image),
        ("Image that ran", server.image_digest),
        (ENGINES[server.engine].name, server.version),
        ("Pod", server.pod),
        ("Node", server.node),
        ("GPU", server.gpu or server.gpu_reason),
        ("Servers", str(server.replicas) if server.replicas > 1 else None),
        ("GPUs", str(server.gpus)),
        ("KV cache", kv_cache_text(server).removeprefix("KV cache ")),
        (
            "Seconds to ready",
            None
            if server.seconds_to_ready is None
            else figure(server.seconds_to_ready),
        ),
        ("Start", startup_text(server)),
        ("Restarts", str(server.restarts)),
        ("From the platform's defaults", platform_text(server.defaults)),
    )
    arguments = Rows(("argument",), tuple((argument,) for argument in server.args))
    yield html.fold("Arguments", html.Table("Arguments of the server", arguments))
    reported = Rows(("setting", "value"), tuple(sorted(server.reported.items())))
    yield html.fold(
        title := "Settings that the server reports", html.Table(title, reported)
    )


def _client(client: ClientStatus, sampling: str) -> html.FactList:
    return html.facts(
        "Client",
        ("Image", client.image),
        ("Image that ran", client.image_digest),
        ("Release", client.release),
        (
            "Load engine",
            " ".join(
                word for word in (client.engine, client.engine_version) if word
            ),
        ),
        ("Processes", None if client.shards is None else str(client.shards)),
        ("Sampling", sampling),
        ("Chat template (SHA-256)", client.chat_template),
        ("Tokenizer's commit", client.commit),
        ("From the platform's defaults", platform_text(client.defaults)),
    )


def _judge(judge: Judge) -> html.FactList:
    rules = ("Rules", f"version {judge.version}")
    overrides = ", ".join(judge.overrides)
    return html.facts(
        "Judge",
        rules,
        ("Thresholds", judge.thresholds_digest),
        ("Severities changed", overrides),
    )


_DATASET_COLUMNS: tuple[Column[DatasetStatus], ...] = (
    Column("workload", lambda data: data.name),
    Column("source", lambda data: data.source),
    Column("rows read", lambda data: str(data.rows_read)),
    Column("rows used", lambda data: str(data.rows_used)),
    Column(
        "left out",
        lambda data: (
            ", ".join(
                f"{count} {reason}" for reason, count in data.rows_dropped.items()
            )
            or ABSENT
        ),
    ),
    Column("SHA-256", lambda data: data.sha256),
)


def sweep_provenance_section(sweep: ReportedSweep) -> html.Section:
    """Build the section on what the variants of a sweep set.

    Image digests, nodes and the settings that servers report are on the page of each run.
    """
    declared = sweep.declared
    spec = sweep.spec
    template = spec.template if spec is not None else None
    made: tuple[Variant, ...] = ()
    # No variants where the matrix does not fit its template: the sweep was refused for it.
    with suppress(ValueError):
        made = planned_variants(spec) if spec is not None else ()
    rows = tuple(
        (str(variant.number), variant.name, _set_by(variant.spec, template))
        for variant in made
    )
    settings = Rows(("number", "variant", "beyond the template"), rows)
    varied = html.Table("What each variant sets", settings, stacked=True)
    where = f" -n {declared.namespace}" if declared.namespace else ""
    lead = (
        "Each run has a report of its own, with the images that ran by digest, nodes, "
        "distributions, timeline and findings: "
        f"benchrun report {declared.name}-v1-r1{where} --html FILE. v1 is the number of the "
        "variant, r1 that of the replication."
    )
    return html.section(
        "provenance", "Provenance", _sweep(sweep), varied, html.Prose(lead)
    )


def _sweep(sweep: ReportedSweep) -> html.FactList:
    status = sweep.status
    spec = sweep.spec
    template = run_list.template(sweep.declared)
    return html.facts(
        "Sweep",
        *_identity(sweep.declared),
        ("Model", run_list.model(template)),
        ("Image", run_list.image(template)),
        ("Baseline", status.baseline),
        ("Replications", None if spec is None else str(spec.replications)),
        ("Order", None if spec is None else spec.order),
        ("Runs at a time", None if spec is None else str(spec.max_parallel)),
        ("Seed", None if spec is None else str(spec.template.measurement.seed)),
        ("Accepted", status.accepted_time),
        ("Ended", status.completion_time),
    )


def _set_by(spec: BenchmarkRunSpec, template: BenchmarkRunSpec | None) -> str:
    """Return what the spec of a variant has that the template does not."""
    before, after = (
        each.started if each is not None else None for each in (template, spec)
    )
    if after is None or before is None or template is None:
        return ABSENT
    known = {variable.name: variable for variable in before.env}
    limits = after.resources.limits
    parts = [
        *after.args[len(before.args) :],
        *(
            f"{each.name}={each.value or 'from elsewhere'}"
            for each in after.env
            if known.get(each.name) != each
        ),
        *([f"image {after.image}"] if after.image != before.image else []),
        *([f"model {spec.model.name}"] if spec.model != template.model else []),
        *(
            f"{key}: {amount}"
            for key, amount in limits.items()
            if before.resources.limits.get(key) != amount
        ),
        *(
            f"requests {key}: {amount}"
            for key, amount in after.resources.requests.items()
            if before.resources.requests.get(key) != amount
        ),
        *_shape(spec, template),
    ]
    return " ".join(parts) or "nothing"


def _shape(spec: BenchmarkRunSpec, template: BenchmarkRunSpec) -> Iterator[str]:
    """Yield texts on how servers of a variant's spec differ from those of the template."""
    after = spec.server
    before = template.server
    if after is None or before is None:
        return
    if after.replicas != before.replicas:
        yield f"replicas: {after.replicas}"
    if after.nodes_per_replica != before.nodes_per_replica:
        yield f"nodes a replica: {after.nodes_per_replica}"
    if (
        after.disaggregated is not None
        and after.disaggregated != before.disaggregated
    ):
        roles = (
            after.disaggregated.prefill.replicas,
            after.disaggregated.decode.replicas,
        )
        yield "prefill: {}, decode: {}".format(*roles)


_RUN_FIELDS, _SWEEP_FIELDS = (
    [field.alias or name for name, field in model.model_fields.items()]
    for model in (BenchmarkRunSpec, sweep_api.BenchmarkSweepSpec)
)


def repeat_section(of: Reported | ReportedSweep) -> html.Section:
    kind = "run"
    give = "give it to kubectl apply -f"
    ran = "Provenance has the images that ran"
    if isinstance(of, ReportedSweep):
        kind = "sweep"
        give = "give it to benchrun run -f or kubectl apply -f"
        ran = "the reports of its runs have the images that ran"
    lead = (
        f"Save it and {give}. It is the spec of this {kind} under another name, since a finished "
        f"{kind} never starts again. Image "
        f"tags may point to other images by now; {ran}."
    )
    repeated = html.CodeBlock("Manifest", manifest(of.declared))
    return html.section("repeat", "Measure it again", html.Prose(lead), repeated)


def manifest(of: Run | Sweep) -> str:
    """Return the YAML manifest of the same spec, with another name."""
    fields, longest = (
        (_RUN_FIELDS, MAX_RUN_NAME)
        if isinstance(of, Run)
        else (_SWEEP_FIELDS, sweep_api.MAX_NAME)
    )
    spec = _ordered(of.spec, fields)
    if isinstance(of, Sweep) and "template" in spec:
        spec["template"] = _ordered(raw.mapping(spec["template"]), _RUN_FIELDS)
    name = of.name[: longest - len(REPEAT_SUFFIX)].rstrip("-.") + REPEAT_SUFFIX
    metadata = {
        "name": name,
        **({"namespace": of.namespace} if of.namespace else {}),
    }
    body: Mapping[str, object] = {
        "apiVersion": API_VERSION,
        "kind": of.kind,
        "metadata": metadata,
        "spec": spec,
    }
    text: str = yaml.dump(
        body, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100
    )
    return text


def _ordered(
    spec: Mapping[str, object], fields: Sequence[str]
) -> dict[str, object]:
    """Return a spec with its fields in the order of the reference.

    The API server sorts them by name. Settings that concern only this one object are left out.
    """
    kept = (name for name in spec if name not in _OF_THAT_OBJECT)
    return {
        n: spec[n]
        for n in sorted(
            kept,
            key=lambda name: fields.index(name) if name in fields else len(fields),
        )
    }


class _Plain(yaml.SafeDumper):
    """A YAML writer that writes no anchors, which are hard to read."""

    def ignore_aliases(self, data: object) -> bool:
        return True
