"""Runs that another process saw begin: their judging is counted before it begins."""

from typing import Any

import pytest
from benchrun.effects import Unavailable
from benchrun.runtime.queue import Later
from unit.runtime.bodies import stage_body
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import RUNNING, Scene


@pytest.mark.parametrize(
    ("status", "stored", "adopted"),
    [
        ({}, False, False),
        ({"serverReadyTime": "2026-11-21T12:00:00Z"}, False, True),
        ({"startTime": "2026-11-21T12:00:00Z"}, False, True),
        ({}, True, True),
    ],
    ids=["new", "ready", "begun", "with a record"],
)
async def test_a_run_that_had_begun_when_it_was_first_seen_is_adopted(
    status: dict[str, Any], stored: bool, adopted: bool
) -> None:
    scene = Scene(status)
    if stored:
        scene.cluster.add("ConfigMap", stage_body())
    await scene.listed()
    await scene.once()
    assert scene.collected.is_adopted is adopted


async def test_a_run_that_begins_later_is_not_adopted(scene: Scene) -> None:
    await scene.once()
    scene.indexes.learnt("ConfigMap", stage_body())
    await scene.once()
    assert not scene.collected.is_adopted


async def test_an_attempt_counts_when_it_is_written_and_the_next_pass_comes_at_once() -> (
    None
):
    scene = Scene({"phase": "Running"})
    await scene.listed()
    counts = {
        "status": RUNNING.model_copy(update={"judge_attempts": 1}),
        "counts_judging": True,
    }
    scene.cluster.broken["status"] = Unavailable("down")
    with pytest.raises(Later):
        await scene.once(**counts)
    assert not scene.collected.is_judging_counted
    scene.cluster.broken.clear()
    assert await scene.once(**counts) == 0.0
    assert scene.collected.is_judging_counted
    assert status_of(scene.cluster)["judgeAttempts"] == 1
