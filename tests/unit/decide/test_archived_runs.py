"""Where runs are archived, a run and its records are deleted only once they are."""

from dataclasses import replace

import pytest
from benchrun.decide import rests
from unit.decide.scenes import CONTEXT, Scene
from unit.decide.summaries import deleted
from unit.decide.test_storing import CLEAN

ARCHIVING = replace(CONTEXT, archive=True)
BARE = (
    Scene(context=ARCHIVING)
    .measuring()
    .arrived(0, 1)
    .at(300)
    .answered()
    .settled()
    .stored(0, 1)
    .without("Deployment", "server")
    .without("Job", "client")
)
EXPIRED = BARE.with_spec(ttlSecondsAfterFinished=600).at(10_000)


def marked(scene: Scene, status: str = "True") -> Scene:
    """The scene with the condition Archived of this status."""
    mark = {"type": "Archived", "status": status, "reason": "Written"}
    conditions = [*scene.status["conditions"], mark]
    return replace(scene, status=scene.status | {"conditions": conditions})


@pytest.mark.parametrize(
    ("scene", "goes"),
    [
        pytest.param(EXPIRED, False, id="not archived"),
        pytest.param(marked(EXPIRED, "False"), False, id="said not to be"),
        pytest.param(marked(EXPIRED), True, id="archived"),
        pytest.param(marked(EXPIRED.at(800)), False, id="archived before its TTL"),
        pytest.param(replace(EXPIRED, context=CONTEXT), True, id="no archive"),
    ],
)
def test_a_run_outlives_its_ttl_until_it_is_archived(
    scene: Scene, goes: bool
) -> None:
    assert scene.decide().delete_run is goes


def test_nobody_is_woken_while_it_waits_for_the_mark() -> None:
    assert EXPIRED.decide().requeue_after_seconds is None
    assert EXPIRED.at(800).decide().requeue_after_seconds == 100


def test_the_mark_stays_in_the_status() -> None:
    scene = marked(EXPIRED.at(800))
    kept = scene.decide().status.conditions[-1]
    assert (kept.type, kept.status, kept.reason) == ("Archived", "True", "Written")


def test_records_beyond_the_limit_wait_too() -> None:
    full = replace(CLEAN, context=ARCHIVING)
    assert deleted(full.decide()) == []
    assert rests(full.facts())
    assert deleted(marked(full).decide()) == ["ConfigMap"] * 4
    assert not rests(marked(full).facts())
    assert deleted(CLEAN.decide()) == ["ConfigMap"] * 4
