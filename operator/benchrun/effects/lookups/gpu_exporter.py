"""The GPU exporter that runs on a node."""

from __future__ import annotations

from benchrun.decide.lookups import ExporterPod, GpuExporter
from benchrun.effects.lookups.tools import About, Kind, NotFoundOut, Tools


async def _look_up(tools: Tools, _: About, question: GpuExporter) -> ExporterPod:
    found = None if tools.exporters is None else await tools.cluster.exporter_on(tools.exporters, question.node)
    if found is None:
        raise NotFoundOut(f"no GPU exporter runs on node {question.node}")
    return found


GPU_EXPORTER = Kind(_look_up, seconds=10.0)
