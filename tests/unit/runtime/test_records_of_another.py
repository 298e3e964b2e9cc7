"""Records that another operator stored: no watch reports them, and a run must not end for want of
them."""

import pytest
from benchrun.api import Reason
from benchrun.decide import Decision, Ending, Facts
from benchrun.effects import Unavailable
from benchrun.runtime.queue import Later
from unit.runtime.bodies import stage_body
from unit.runtime.scene import RUNNING, Scene

GONE = Ending(Reason.SERVER_GONE, "the server's Deployment was deleted")


def _ends_without_records(facts: Facts) -> Decision:
    is_stored = any(child.sequence is not None for child in facts.children.objects)
    return Decision(status=RUNNING, ending=None if is_stored else GONE)


async def gone(*, stored: bool) -> Scene:
    """A run whose server is gone, after all was listed."""
    scene = Scene({"phase": "Running"})
    await scene.listed()
    if stored:
        scene.cluster.add("ConfigMap", stage_body())
    scene.decide = _ends_without_records
    return scene


@pytest.mark.parametrize(("stored", "ending"), [(True, None), (False, GONE)])
async def test_they_are_looked_for_before_the_run_ends(stored: bool, ending: Ending | None) -> None:
    scene = await gone(stored=stored)
    await scene.once()
    assert scene.collected.ending == ending


async def test_it_does_not_end_before_they_could_be_looked_for() -> None:
    scene = await gone(stored=True)
    scene.cluster.broken["list"] = Unavailable("no answer")
    with pytest.raises(Later):
        await scene.once()
    assert scene.collected.ending is None
    scene.cluster.broken.clear()
    await scene.once()
    assert scene.collected.ending is None


async def test_an_end_that_stands_is_not_looked_into_again() -> None:
    scene = await gone(stored=False)
    await scene.once()
    scene.cluster.log.clear()
    await scene.once()
    assert [entry for entry in scene.cluster.log if entry[0] == "list"] == []
