"""The CustomResourceDefinition of sweeps, made from their models as that of runs is."""

from __future__ import annotations

from typing import Any

from benchrun.api.schema.crd import column, definition, object_schema, with_change_rules
from benchrun.api.schema.structural import Schema, structural_schema
from benchrun.api.sweep.spec import KIND, MAX_NAME, MUTABLE_FIELDS, PLURAL, SHORT_NAME, BenchmarkSweepSpec
from benchrun.api.sweep.status import BenchmarkSweepStatus
from benchrun.names import GROUP

CRD_NAME = f"{PLURAL}.{GROUP}"


def custom_resource_definition() -> dict[str, Any]:
    """The whole manifest, ready to be written as YAML."""
    return definition(kind=KIND, plural=PLURAL, short_name=SHORT_NAME, columns=printer_columns(), schema=sweep_schema())


def sweep_schema() -> Schema:
    """Schema of the object as a whole."""
    return object_schema(
        "A benchmark in many variants: runs that differ in what is swept, and the table that compares them.",
        kind=KIND,
        max_name=MAX_NAME,
        spec=spec_schema(),
        status=status_schema(),
    )


def spec_schema() -> Schema:
    """Schema of `spec`, with the rules about change."""
    return with_change_rules(structural_schema(BenchmarkSweepSpec, defaults=True), MUTABLE_FIELDS, new="sweep")


def status_schema() -> Schema:
    """Schema of `status`. The one default marks a sweep that no operator has seen yet."""
    schema = structural_schema(BenchmarkSweepStatus, defaults=False)
    schema["default"] = {"observedGeneration": -1}
    return schema


def printer_columns() -> list[dict[str, Any]]:
    """Columns of `kubectl get`; those of priority 1 come with `-o wide`."""
    return [
        column("Phase", ".status.phase", "Where the sweep is."),
        column("Runs", ".status.runs.summary", "Runs that have ended, of all."),
        column("Verdict", ".status.verdict", "Whether the numbers can be trusted."),
        column("Best", ".status.best[0].variant", "Variant with the highest throughput per GPU in the first workload."),
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        column("Baseline", ".status.baseline", "Variant that the others are compared with.", wide=True),
        column("Message", ".status.message", "What goes on, or why the sweep ended.", wide=True),
    ]
