"""The reference page of sweeps, written from their schema. The template's fields stand on the page of runs."""

from __future__ import annotations

from typing import Any

from benchrun.api.schema.crd import SWEEP
from benchrun.api.schema.structural import Schema
from benchrun.api.sweep.spec import KIND, MAX_NAME, MUTABLE_FIELDS, SHORT_NAME
from benchrun.names import API_VERSION, CATEGORY

from dev.reference import page

_INTRO = f"""\
# {KIND}

API version `{API_VERSION}`, kind `{KIND}`, short name `{SHORT_NAME}`, category `{CATEGORY}`. The same text is shown by
`kubectl explain {SHORT_NAME}.spec`. A name has at most {MAX_NAME} characters and is a DNS label, since its runs are named after it.
How to use it: [sweeps](../sweeps.md).

Decimals are strings (`"0.5"`, `"inf"`): specs hold no floats. `[]` stands for the entries of a list, `{{}}` for the values of
a map. A field whose default is a dash is simply absent when it is left out."""


def sweep_reference_text() -> str:
    """The page as Markdown; the same models always give the same bytes."""
    return page(
        _INTRO,
        columns=SWEEP.printer_columns(),
        spec=_without_fields_of_runs(SWEEP.spec_schema()),
        status=SWEEP.status_schema(),
        mutable=MUTABLE_FIELDS,
        instead="other variants are another sweep",
    )


def _without_fields_of_runs(spec: Schema) -> Schema:
    """The template, and models in the matrix, are told once: on the page of runs."""
    properties: dict[str, Any] = dict(spec["properties"])
    template = properties["template"]["description"].removesuffix(".")
    fields = "Its fields are those of [`BenchmarkRun.spec`](benchmarkrun.md)."
    properties["template"] = {"type": "object", "description": f"{template}. {fields}"}
    return {**spec, "properties": properties}
