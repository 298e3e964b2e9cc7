"""A server's start is read once, and a measurement does not wait or fail for it."""

from __future__ import annotations

import pytest
from benchrun.decide.decision import StartupTold, StartupWanted
from benchrun.effects.errors import ClusterError, Forbidden, NotFound, Unavailable
from benchrun.observe.startup_log import StartupPhases
from unit.runtime.scene import Scene

WANTED = StartupWanted(pod="p", uid="u", container="vllm")
LOG = "INFO Loading weights took 2.50 seconds"
PULLED = {
    "reason": "Pulled",
    "message": 'Successfully pulled image "v" in 7.5s',
    "involvedObject": {"fieldPath": "spec.containers{vllm}"},
}


async def told(scene: Scene) -> StartupTold:
    assert await scene.once(startups_wanted=(WANTED,), requeue_after_seconds=5) == 0.0, "it is decided upon at once"
    await scene.once()
    return scene.worlds[1].collected.startups["p"]


async def test_log_and_events_are_read_and_decided_upon_at_once(scene: Scene) -> None:
    scene.cluster.log_text, scene.cluster.image_pulls = LOG, (PULLED,)
    assert await told(scene) == StartupTold(StartupPhases(load=2.5), image_pull_seconds=7.5)
    assert scene.cluster.log.count(("log head", "p", "vllm")) == 1
    assert scene.cluster.log.count(("image events", "u")) == 1


@pytest.mark.parametrize("error", [Unavailable("down"), NotFound("gone", code=404), Forbidden("no", code=403)])
async def test_what_can_not_be_read_is_not_known_and_spoils_nothing_else(scene: Scene, error: ClusterError) -> None:
    scene.cluster.log_text, scene.cluster.image_pulls = LOG, (PULLED,)
    scene.cluster.broken["log head"] = error
    assert await told(scene) == StartupTold(StartupPhases(), image_pull_seconds=7.5)


async def test_without_the_right_to_read_events_the_log_still_tells(scene: Scene) -> None:
    scene.cluster.log_text = LOG
    scene.cluster.broken["image events"] = Forbidden("no", code=403)
    assert await told(scene) == StartupTold(StartupPhases(load=2.5), image_pull_seconds=None)
