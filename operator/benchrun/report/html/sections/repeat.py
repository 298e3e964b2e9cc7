"""The manifest that measures the same again."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from benchrun.api.base import API_VERSION, KIND
from benchrun.api.names import MAX_RUN_NAME
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.report.html.blocks import Code, Prose, Section
from benchrun.report.html.reported import Reported

AGAIN = "-again"
_OF_THAT_RUN = ("suspend", "cancel")
"""Said to one object while it ran."""
_ORDER = tuple(field.alias or name for name, field in BenchmarkRunSpec.model_fields.items())


def repeat_section(run: Reported) -> Section:
    """With a name of its own: a finished run never starts again."""
    lead = (
        "Save it and give it to kubectl apply -f. It is the spec of this run under another name, since a finished run never "
        "starts again. Tags of images may point elsewhere by now; what ran is under Provenance."
    )
    return Section("repeat", "Measure it again", (Prose(lead), Code("Manifest", manifest(run))))


def manifest(run: Reported) -> str:
    """YAML."""
    spec = {name: run.written[name] for name in sorted(run.written, key=_place) if name not in _OF_THAT_RUN}
    metadata = {"name": _another_name(run.name), **({"namespace": run.namespace} if run.namespace else {})}
    body: Mapping[str, object] = {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}
    text: str = yaml.dump(body, Dumper=_Plain, sort_keys=False, allow_unicode=True, width=100)
    return text


def _place(field: str) -> int:
    """As the reference lists them; the API server gives them by the alphabet."""
    return _ORDER.index(field) if field in _ORDER else len(_ORDER)


def _another_name(name: str) -> str:
    return name[: MAX_RUN_NAME - len(AGAIN)].rstrip("-.") + AGAIN


class _Plain(yaml.SafeDumper):
    """Without anchors: what is written twice reads better twice."""

    def ignore_aliases(self, data: object) -> bool:
        return True
