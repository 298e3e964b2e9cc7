"""The CustomResourceDefinition, made from the models: what pydantic checks in the operator, the API server checks before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchrun.api.base import VALIDATIONS
from benchrun.api.schema.structural import Schema, structural_schema
from benchrun.api.spec import MUTABLE_FIELDS, BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus
from benchrun.names import CATEGORY, GROUP, KIND, MAX_RUN_NAME, PLURAL, SHORT_NAME, VERSION

CRD_NAME = f"{PLURAL}.{GROUP}"

_DNS_LABEL = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
"""Names of children are made from the run's name, and a Service's must be one."""


def custom_resource_definition() -> dict[str, Any]:
    """The whole manifest, ready to be written as YAML. Keys come in the order a reader expects them."""
    return definition(kind=KIND, plural=PLURAL, short_name=SHORT_NAME, columns=printer_columns(), schema=root_schema())


def definition(
    *, kind: str, plural: str, short_name: str, columns: list[dict[str, Any]], schema: Schema
) -> dict[str, Any]:
    """The manifest of one of our kinds."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": plural,
                "singular": kind.lower(),
                "shortNames": [short_name],
                "categories": [CATEGORY],
            },
            "versions": [
                {
                    "name": VERSION,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": columns,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


def root_schema() -> Schema:
    """Schema of the object as a whole."""
    return object_schema(
        "A benchmark of one LLM server as an object: server, traffic, measurement and verdict.",
        kind=KIND,
        max_name=MAX_RUN_NAME,
        spec=spec_schema(),
        status=status_schema(),
    )


def object_schema(description: str, *, kind: str, max_name: int, spec: Schema, status: Schema) -> Schema:
    """Schema of an object of one of our kinds."""
    return {
        "description": description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string", "description": f"Version of this schema: {GROUP}/{VERSION}."},
            "kind": {"type": "string", "description": f"Always {kind}."},
            "metadata": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": max_name, "pattern": _DNS_LABEL}},
            },
            "spec": spec,
            "status": status,
        },
    }


def spec_schema() -> Schema:
    """Schema of `spec`, with the rules about change."""
    return with_change_rules(structural_schema(BenchmarkRunSpec, defaults=True), MUTABLE_FIELDS, new="run")


def with_change_rules(schema: Schema, mutable: Sequence[str], *, new: str) -> Schema:
    """The schema with a rule for every field that may not change, and the one-way switch. `new`: what to create instead."""
    frozen = [name for name in schema["properties"] if name not in mutable]
    schema[VALIDATIONS] += [_immutable(name, required=name in schema["required"], new=new) for name in frozen]
    never_back = f"cancel can't be taken back; create a new {new}"
    schema[VALIDATIONS].append(_transition("!oldSelf.cancel || self.cancel", never_back, path=".cancel"))
    return schema


def status_schema() -> Schema:
    """Schema of `status`. The one default marks a run that no operator has seen yet."""
    schema = structural_schema(BenchmarkRunStatus, defaults=False)
    schema["default"] = {"observedGeneration": -1}
    return schema


def printer_columns() -> list[dict[str, Any]]:
    """Columns of `kubectl get`; those of priority 1 come with `-o wide`."""
    return [
        column("Phase", ".status.phase", "Where the run is."),
        column("Progress", ".status.progress.summary", "Stages measured, of all."),
        column("Verdict", ".status.verdict", "Whether the numbers can be trusted."),
        column("Tok/s", ".status.headline.throughput", "Output tokens a second at the best load point."),
        column("P99 TTFT", ".status.headline.p99TTFT", "Time to first token at that load point, in milliseconds."),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        column("Cell", ".status.headline.cell", "Which load point that is.", wide=True),
        column("vLLM", ".status.servers[0].version", "Version of the server, as it says.", wide=True),
        column("GPU", ".status.servers[0].gpu", "GPU model.", wide=True),
        column("Message", ".status.message", "What the run waits for, or why it ended.", wide=True),
    ]


def _immutable(name: str, *, required: bool, new: str) -> dict[str, str]:
    same = f"self.{name} == oldSelf.{name}"
    both = f"has(self.{name}) == has(oldSelf.{name}) && (!has(self.{name}) || {same})"
    return _transition(same if required else both, f"spec.{name} is immutable; create a new {new}", path=f".{name}")


def _transition(cel: str, message: str, *, path: str) -> dict[str, str]:
    """A rule with oldSelf: it has no counterpart in Python, where there is only the new object."""
    return {"rule": cel, "message": message, "fieldPath": path}


def column(name: str, path: str, description: str, *, wide: bool = False) -> dict[str, Any]:
    """A printer column; a wide one comes with `-o wide` only."""
    shown: dict[str, Any] = {"name": name, "type": "string", "jsonPath": path, "description": description}
    return shown | {"priority": 1} if wide else shown
