"""The manifest that measures the same again."""

from __future__ import annotations

from benchrun.api.sweep.spec import KIND, MAX_NAME, BenchmarkSweepSpec
from benchrun.observe import raw
from benchrun.report.html.blocks import Code, Prose, Section
from benchrun.report.html.manifest_text import asked_again, manifest_text
from benchrun.report.html.sections.repeat import RUN_FIELDS
from benchrun.report.html.sweep.reported import ReportedSweep


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


