"""A comparison keeps to its share: the status stays under 100 kB with the largest one."""

from benchrun.api import KEYS, ComparedMetric
from benchrun.observe import Run
from unit.decide.scenes import Scene
from unit.decide.test_status_size import LARGEST, LIMIT_BYTES, size

METRICS: list[ComparedMetric] = list(KEYS)
WITH_BASELINE: Scene = LARGEST.with_spec(baseline={"name": "b" * 40, "metrics": METRICS}).measuring()


def test_measured_and_compared_at_64_load_points() -> None:
    scene = WITH_BASELINE.arrived(*range(64))
    before = scene.ended().status.model_dump(mode="json", by_alias=True, exclude_none=True)
    spec = {name: value for name, value in scene.spec.items() if name != "baseline"}
    status = scene.ended(Run("lab", "b" * 40, "uid-b", 1, spec=spec, status=before)).status
    assert status.comparison is not None
    assert f". {len(METRICS) * len(status.results)} figures: " in status.comparison.message
    assert "comparison.cells[].changes" in {note.field for note in status.truncated}
    assert size(status) < LIMIT_BYTES
