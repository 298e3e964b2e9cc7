"""How many texts stand in a prompt: where a dataset packs texts, requests a second are not what is asked about."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.observe import raw
from benchrun.report.rows import figure


def texts_per_prompt(spec: Mapping[str, object]) -> dict[str, int]:
    """By workload, those alone whose dataset is `texts`. Of a run's spec as the API server holds it; what is not there, as in
    the spec of another version, counts as nothing."""
    found: dict[str, int] = {}
    for workload in raw.mappings(spec.get("workloads")):
        dataset = raw.mapping(workload.get("dataset"))
        if "texts" in dataset:
            texts = raw.mapping(dataset["texts"])
            found[raw.text(workload.get("name"))] = raw.number(texts.get("textsPerPrompt"), default=1)
    return found


def texts_a_second(request_throughput: float | None, workload: str, texts: Mapping[str, int]) -> str:
    """For a column."""
    known = request_throughput is not None and workload in texts
    return figure((request_throughput or 0.0) * texts[workload] if known else None)
