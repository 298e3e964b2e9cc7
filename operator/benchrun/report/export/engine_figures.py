"""The load engine's own figures of a stage, word for word."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.measure.cells import LATENCIES
from benchrun.report.export.exported import ExportedStage, pools

_LATENCIES = tuple(f"_{latency}_ms" for latency in LATENCIES)


def engine_figures(stage: ExportedStage) -> Mapping[str, float | int | None]:
    """Under its own names. Where nothing was measured it says 0, which is no latency: None here."""
    measured = tuple(f"_{latency}_ms" for latency in pools([stage]))
    return {
        name: None if name.endswith(_LATENCIES) and not name.endswith(measured) else value
        for name, value in stage.record.scalars.items()
    }
