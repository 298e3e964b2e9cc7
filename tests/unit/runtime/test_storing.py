"""What is stored of a run in a pass: a record is an arrival until its ConfigMap is there, samples
until they are written."""

from typing import Any

import pytest
from benchrun.decide import Decision, Facts
from benchrun.effects import Unavailable
from benchrun.runtime.queue import Later
from unit.runtime.fast_time import now, passing, run_fast
from unit.runtime.scene import RUNNING, Scene, arrival, sample, stage


async def test_record_stays_an_arrival_until_its_configmap_exists(
    scene: Scene,
) -> None:
    one = arrival()
    seen = []

    def look(facts: Facts) -> Decision:
        seen.append(
            (sorted(facts.collected.arrivals), sorted(facts.collected.sequences))
        )
        return Decision(
            status=RUNNING, apply=(stage(one),) if facts.collected.arrivals else ()
        )

    scene.decide = look
    await scene.once()
    scene.collected.take(one)
    await scene.once()
    await scene.once()
    assert seen == [([], []), ([0], [0]), ([], [0])]


async def test_samples_that_were_stored_are_no_longer_unstored(
    scene: Scene,
) -> None:
    await scene.once()
    samples = scene.collected.samples
    for at in (1, 2):
        samples.add(sample(at))

    def store(facts: Facts) -> Decision:
        decided = Decision(
            status=RUNNING, apply=(stage(arrival(), tuple(samples.unstored)),)
        )
        samples.add(sample(3))  # one more arrives while the pass is under way
        return decided

    scene.decide = store
    await scene.once()
    assert [s.at for s in samples.unstored] == [3]
    assert samples.recent[-1].at == 3


async def test_samples_stay_unstored_when_storing_failed(scene: Scene) -> None:
    await scene.once()
    scene.collected.samples.add(sample(1))
    scene.cluster.broken["apply"] = Unavailable("down")
    with pytest.raises(Later):
        await scene.once(apply=(stage(arrival(), (sample(1),)),))
    assert [s.at for s in scene.collected.samples.unstored] == [1]


async def test_a_record_that_an_earlier_attempt_has_stored_is_no_conflict_and_later_samples_wait(
    scene: Scene,
) -> None:
    """Its answer was lost, and samples came since: the same record beside another piece of the
    timeline."""
    one = arrival()
    earlier = stage(one, (sample(1),))
    earlier["metadata"] |= {"uid": "e", "resourceVersion": "500"}
    scene.cluster.add("ConfigMap", earlier)
    await scene.once()
    samples = scene.collected.samples
    for at in (1, 2):
        samples.add(sample(at))
    await scene.once(apply=(stage(one, tuple(samples.unstored)),), acknowledge=1)
    assert (scene.collected.conflict, [s.at for s in samples.unstored]) == (
        None,
        [2],
    )
    assert ("acknowledge", "1") in scene.cluster.log
    await scene.once()
    assert [c.sequence for c in scene.facts_seen[-1].children.objects] == [0]


def test_where_the_api_server_does_not_answer_the_other_records_wait_for_the_next_pass() -> (
    None
):
    """Once each was offered in turn: of 20 records a pass took 10 minutes, in which no deadline and
    no cancel was looked at."""

    async def go() -> None:
        scene = Scene()
        await scene.listed()

        async def hang(manifest: dict[str, Any]) -> dict[str, Any]:
            await passing(30)
            raise Unavailable("TimeoutError")

        scene.cluster.apply = hang  # type: ignore[method-assign]
        with pytest.raises(Later):
            await scene.once(
                apply=tuple(stage(arrival(sequence)) for sequence in range(20))
            )
        assert now() == 30

    run_fast(go())
