"""The exporter of a node is looked up once, and missed by nobody."""

from __future__ import annotations

import pytest
from benchrun.decide.decision import ExporterPod, GpuExporters
from benchrun.effects.errors import ClusterError, Forbidden, Unavailable
from unit.runtime.scene import Scene

EXPORTERS = GpuExporters("gpu-operator", "app=nvidia-dcgm-exporter", 9400)
EXPORTER = ExporterPod("dcgm-x", "10.1.0.7")


@pytest.fixture
async def told_of_exporters() -> Scene:
    made = Scene(gpu_exporters=EXPORTERS)
    await made.listed()
    return made


async def found(scene: Scene) -> dict[str, ExporterPod | None]:
    assert await scene.once(exporters_wanted=("n1",), requeue_after_seconds=5) == 0.0, "it is decided upon at once"
    await scene.once()
    return dict(scene.worlds[1].collected.exporters)


async def test_it_is_looked_up_once_and_decided_upon_at_once(told_of_exporters: Scene) -> None:
    told_of_exporters.cluster.exporters["n1"] = EXPORTER
    assert await found(told_of_exporters) == {"n1": EXPORTER}
    assert told_of_exporters.cluster.log.count(("exporter", "gpu-operator", "n1")) == 1


@pytest.mark.parametrize("error", [Forbidden("no", code=403), Unavailable("down")])
async def test_where_it_can_not_be_looked_up_there_is_none(told_of_exporters: Scene, error: ClusterError) -> None:
    told_of_exporters.cluster.broken["exporter"] = error
    assert await found(told_of_exporters) == {"n1": None}
