"""The CustomResourceDefinition, made from the models: what pydantic checks in the operator, the API server checks before it."""

from __future__ import annotations

from typing import Any

from benchrun.api.base import CATEGORY, GROUP, KIND, PLURAL, SHORT_NAME, VERSION
from benchrun.api.names import MAX_RUN_NAME
from benchrun.api.rules import VALIDATIONS
from benchrun.api.spec import MUTABLE_FIELDS, BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus
from benchrun.api.structural import Schema, structural_schema

CRD_NAME = f"{PLURAL}.{GROUP}"

_DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""Names of children are made from the run's name, and a Service's must be one."""


def custom_resource_definition() -> dict[str, Any]:
    """The whole manifest, ready to be written as YAML. Keys come in the order a reader expects them."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD_NAME},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": KIND,
                "listKind": f"{KIND}List",
                "plural": PLURAL,
                "singular": KIND.lower(),
                "shortNames": [SHORT_NAME],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": printer_columns(),
                    "schema": {"openAPIV3Schema": root_schema()},
                }
            ],
        },
    }


def root_schema() -> Schema:
    """Schema of the object as a whole."""
    return {
        "description": "A benchmark of one LLM server as an object: server, traffic, measurement and verdict.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Version of this schema: {GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"Always {KIND}."},
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": MAX_RUN_NAME, "pattern": _DNS_LABEL}},
            },
            "spec": spec_schema(),
            "status": status_schema(),
        },
    }


def spec_schema() -> Schema:
    """Schema of `spec`, with the rules about change: one for every field that may not, and the one-way switch."""
    schema = structural_schema(BenchmarkRunSpec, defaults=True)
    frozen = [name for name in schema["properties"] if name not in MUTABLE_FIELDS]
    schema[VALIDATIONS] += [_immutable(name, required=name in schema["required"]) for name in frozen]
    schema[VALIDATIONS].append(
        _transition("!oldSelf.cancel || self.cancel", "cancel can't be taken back; create a new run", path=".cancel")
    )
    return schema


def status_schema() -> Schema:
    """Schema of `status`. The one default marks a run that no operator has seen yet."""
    schema = structural_schema(BenchmarkRunStatus, defaults=False)
    schema["default"] = {"observedGeneration": -1}
    return schema


def printer_columns() -> list[dict[str, Any]]:
    """Columns of `kubectl get`; those of priority 1 come with `-o wide`."""
    return [
        _column("Phase", ".status.phase", "Where the run is."),
        _column("Progress", ".status.progress.summary", "Stages measured, of all."),
        _column("Verdict", ".status.verdict", "Whether the numbers can be trusted."),
        _column("Tok/s", ".status.headline.throughput", "Output tokens a second at the best load point."),
        _column("P99 TTFT", ".status.headline.p99TTFT", "Time to first token at that load point, in milliseconds."),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        _column("Cell", ".status.headline.cell", "Which load point that is.", wide=True),
        _column("vLLM", ".status.servers[0].version", "Version of the server, as it says.", wide=True),
        _column("GPU", ".status.servers[0].gpu", "GPU model.", wide=True),
        _column("Message", ".status.message", "What the run waits for, or why it ended.", wide=True),
    ]


def _immutable(name: str, *, required: bool) -> dict[str, str]:
    same = f"self.{name} == oldSelf.{name}"
    both = f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})"
    return _transition(same if required else both, f"spec.{name} is immutable; create a new run", path=f".{name}")


def _transition(cel: str, message: str, *, path: str) -> dict[str, str]:
    """A rule with oldSelf: it has no counterpart in Python, where there is only the new object."""
    return {"rule": cel, "message": message, "fieldPath": path}


def _column(name: str, path: str, description: str, *, wide: bool = False) -> dict[str, Any]:
    column: dict[str, Any] = {"name": name, "type": "string", "jsonPath": path, "description": description}
    return column | {"priority": 1} if wide else column
