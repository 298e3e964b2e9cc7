"""What was varied, in which order, and where the runs are that hold the rest."""

from __future__ import annotations

from benchrun.api.spec import BenchmarkRunSpec
from benchrun.observe import raw
from benchrun.plan.sweep.variants import Variant, variants
from benchrun.report.html.blocks import Block, Facts, Prose, Section, Table
from benchrun.report.html.sweep.reported import ReportedSweep
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


