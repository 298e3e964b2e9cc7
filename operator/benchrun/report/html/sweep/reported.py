"""What the page of a sweep is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchrun.api.metric_keys import KEYS
from benchrun.api.sweep.spec import BenchmarkSweepSpec
from benchrun.api.sweep.status import BenchmarkSweepStatus, Row
from benchrun.observe import raw
from benchrun.report.texts_per_prompt import texts_per_prompt

MAX_OPEN_ROWS = 30
"""Longer tables beside a chart are opened by a click."""


@dataclass(frozen=True, slots=True)
class ReportedSweep:
    """A sweep that has ended."""

    name: str
    namespace: str
    uid: str
    written: Mapping[str, object]
    """The spec as the API server holds it."""
    spec: BenchmarkSweepSpec | None
    """None: it is another version's, or none at all; the status is told all the same."""
    status: BenchmarkSweepStatus

    @property
    def texts_per_prompt(self) -> Mapping[str, int]:
        """Of workloads that pack texts, by name."""
        return texts_per_prompt(raw.mapping(self.written.get("template")))

    def per_gpu(self, row: Row) -> float | None:
        """Output tokens a second and GPU; of a server without GPUs, of the server."""
        output = row.metrics.get(KEYS["OutputThroughput"])
        gpus = next((variant.gpus for variant in self.status.variants if variant.name == row.variant), 0)
        return None if output is None else output / max(1, gpus)
