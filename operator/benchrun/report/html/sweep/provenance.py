"""What was varied, where the runs are that hold the rest, and the manifest that measures the same again."""

from __future__ import annotations

from benchrun.api import BenchmarkRunSpec
from benchrun.api.sweep.spec import KIND, MAX_NAME, BenchmarkSweepSpec
from benchrun.observe import raw
from benchrun.plan.variants import Variant, variants
from benchrun.report.html.blocks import Block, Code, Facts, Prose, Section, Table, asked_again, manifest_text
from benchrun.report.html.reported import ReportedSweep
from benchrun.report.html.sections.provenance import RUN_FIELDS
from benchrun.report.rows import ABSENT, Rows


def sweep_provenance_section(sweep: ReportedSweep) -> Section:
    """Image digests, nodes and settings that servers report belong to a run, and stand on its page."""
    blocks: list[Block] = [Facts("Sweep", _facts(sweep))]
    made = _variants(sweep)
    if made:
        blocks.append(Table("What each variant sets", _settings(sweep, made), stacked=True))
    where = f" -n {sweep.namespace}" if sweep.namespace else ""
    blocks.append(
        Prose(
            "Each run has a report of its own, with the images that ran by digest, nodes, distributions, timeline and findings: "
            f"benchrun report {sweep.name}-v1-r1{where} --html FILE. Its number is that of the variant, then that of the replication."
        )
    )
    return Section("provenance", "Provenance", tuple(blocks))


def _facts(sweep: ReportedSweep) -> tuple[tuple[str, str], ...]:
    status, spec = sweep.status, sweep.spec
    template = raw.mapping(sweep.written.get("template"))
    server = raw.mapping(template.get("server") or template.get("offline"))
    pairs = (
        ("Name", sweep.name),
        ("Namespace", sweep.namespace),
        ("UID", sweep.uid),
        ("Model", raw.text(raw.mapping(template.get("model")).get("name"))),
        ("Image", raw.text(server.get("image"), 1024)),
        ("Baseline", status.baseline),
        ("Replications", None if spec is None else str(spec.replications)),
        ("Order", None if spec is None else spec.order),
        ("Runs at a time", None if spec is None else str(spec.max_parallel)),
        ("Seed", None if spec is None else str(spec.template.measurement.seed)),
        ("Accepted", status.accepted_time),
        ("Ended", status.completion_time),
    )
    return tuple((name, value) for name, value in pairs if value)


def _variants(sweep: ReportedSweep) -> tuple[Variant, ...]:
    """None where the matrix can't be laid over its template: the sweep was refused for it."""
    try:
        return variants(sweep.spec) if sweep.spec is not None else ()
    except ValueError:
        return ()


def _settings(sweep: ReportedSweep, made: tuple[Variant, ...]) -> Rows:
    template = sweep.spec.template if sweep.spec is not None else None
    rows = tuple((str(variant.number), variant.name, _set_by(variant.spec, template)) for variant in made)
    return Rows(("number", "variant", "beyond the template"), rows)


def _set_by(spec: BenchmarkRunSpec, template: BenchmarkRunSpec | None) -> str:
    """What its spec has that the template has not."""
    before, after = (each.started if each is not None else None for each in (template, spec))
    if after is None or before is None or template is None:
        return ABSENT
    known = {variable.name: variable for variable in before.env}
    parts = [
        *after.args[len(before.args) :],
        *(f"{each.name}={each.value or 'from elsewhere'}" for each in after.env if known.get(each.name) != each),
        *([f"image {after.image}"] if after.image != before.image else []),
        *([f"model {spec.model.name}"] if spec.model != template.model else []),
        *(
            f"{key}: {amount}"
            for key, amount in after.resources.limits.items()
            if before.resources.limits.get(key) != amount
        ),
    ]
    return " ".join(parts) or "nothing"


# ---- repeat -----------------------------------------------------------------------------------------------------------
# The manifest that measures the same again.

_FIELDS = tuple(field.alias or name for name, field in BenchmarkSweepSpec.model_fields.items())


def sweep_repeat_section(sweep: ReportedSweep) -> Section:
    """With a name of its own: a finished sweep never starts again."""
    lead = (
        "Save it and give it to benchrun run -f or kubectl apply -f. It is the spec of this sweep under another name, since a "
        "finished sweep never starts again. Tags of images may point elsewhere by now; what ran stands in the runs."
    )
    return Section("repeat", "Measure it again", (Prose(lead), Code("Manifest", manifest(sweep))))


def manifest(sweep: ReportedSweep) -> str:
    """YAML."""
    spec = asked_again(sweep.written, _FIELDS)
    if "template" in spec:
        spec["template"] = asked_again(raw.mapping(spec["template"]), RUN_FIELDS)
    return manifest_text(KIND, sweep.name, sweep.namespace, spec, max_name=MAX_NAME)
