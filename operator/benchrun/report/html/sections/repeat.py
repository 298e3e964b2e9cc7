"""The manifest that measures the same again."""

from __future__ import annotations

from benchrun.api.base import KIND
from benchrun.api.names import MAX_RUN_NAME
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.report.html.blocks import Code, Prose, Section
from benchrun.report.html.manifest_text import asked_again, manifest_text
from benchrun.report.html.reported import Reported

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
