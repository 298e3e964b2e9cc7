"""What is stored, what is read back of it, by whom, and when; and the baseline, which is read the same way."""

from __future__ import annotations

import base64
from dataclasses import replace

import pytest
from benchrun.decide.decision import Arrival, Decision, Ending, Ref, World
from benchrun.effects.errors import Unavailable
from benchrun.plan.stored import log_config_map
from benchrun.runtime.queue import Later
from benchrun_client.contract import Envelope
from unit.measure.records import record
from unit.runtime.bodies import KEY, NAMESPACE, UID, child_body, run_body, stage_body
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import ENDED, OWNER, RUNNING, STAGE_0, Scene, arrival, sample, stage


def arrival_of(run_uid: str) -> Arrival:
    """The first record, of that run."""
    sealed = Envelope.seal(record(run_uid=run_uid, sequence=0))
    return Arrival(sequence=0, digest=sealed.digest, data=sealed.data())


async def test_record_stays_an_arrival_until_its_configmap_exists(scene: Scene) -> None:
    one = arrival()
    await scene.once()
    scene.memories.of(KEY, UID).take(one)
    await scene.once(apply=(stage(one),))
    await scene.once()
    assert [len(w.collected.arrivals) for w in scene.worlds] == [0, 1, 0]
    assert [len(w.collected.records) for w in scene.worlds] == [0, 1, 0]
    assert [w.collected.sequences for w in scene.worlds] == [frozenset(), {0}, {0}]


async def test_samples_that_were_stored_are_no_longer_unstored(scene: Scene) -> None:
    one = arrival()
    await scene.once()
    memory = scene.memories.of(KEY, UID)
    memory.unstored_samples += [sample(1), sample(2)]

    def store(world: World) -> Decision:
        memory.unstored_samples.append(sample(3))  # one more arrives while the pass is under way
        return Decision(status=RUNNING, apply=(stage(one, world.collected.unstored_samples),))

    scene.decide = store
    await scene.once()
    scene.decide = lambda world: Decision(status=RUNNING)
    await scene.once()
    collected = scene.worlds[-1].collected
    assert [s.at for s in collected.unstored_samples] == [3]
    assert [s.at for s in collected.samples] == [1, 2, 3]


async def test_samples_stay_unstored_when_storing_failed(scene: Scene) -> None:
    await scene.once()
    scene.memories.of(KEY, UID).unstored_samples.append(sample(1))
    scene.cluster.broken["apply"] = Unavailable("down")
    with pytest.raises(Later):
        await scene.once(apply=(stage(arrival(), (sample(1),)),))
    assert len(scene.memories.of(KEY, UID).unstored_samples) == 1


async def test_samples_stay_unstored_when_an_earlier_attempt_turns_out_to_have_been_stored(scene: Scene) -> None:
    one = arrival()
    earlier = stage(one, (sample(1),))
    earlier["metadata"] |= {"uid": "e", "resourceVersion": "500"}
    scene.cluster.add("ConfigMap", earlier)
    scene.memories.of(KEY, UID).restored = True
    scene.memories.of(KEY, UID).unstored_samples += [sample(1), sample(2)]
    await scene.once(apply=(stage(one, (sample(1), sample(2))),))
    assert len(scene.memories.of(KEY, UID).unstored_samples) == 2
    await scene.once()
    assert [c.sequence for c in scene.worlds[-1].children.objects] == [0]


@pytest.fixture
async def after_restart() -> Scene:
    """A new process finds a run of which one stage is stored."""
    made = Scene()
    body = stage(arrival(), (sample(1), sample(2)))
    body["metadata"] |= {"uid": "s0", "resourceVersion": "500"}
    made.cluster.add("ConfigMap", body)
    await made.listed()
    return made


async def test_timeline_is_read_back_once(after_restart: Scene) -> None:
    for _ in range(3):
        await after_restart.once()
    collected = after_restart.worlds[0].collected
    assert [s.at for s in collected.samples] == [1, 2]
    assert (len(collected.records), collected.read_back) == (0, False)
    assert (collected.unstored_samples, collected.arrivals) == ((), ())
    assert after_restart.cluster.log.count(("get", "ConfigMap", STAGE_0)) == 1


async def test_nothing_is_decided_before_the_timeline_was_read_back(after_restart: Scene) -> None:
    after_restart.cluster.broken["get"] = Unavailable("down")
    with pytest.raises(Later):
        await after_restart.once()
    assert after_restart.worlds == []


def judging(scene: Scene, *, ending: Ending | None = None) -> None:
    """Decide to read back what is stored, then to end: as the real thing does."""
    server = Ref("Deployment", NAMESPACE, "br-chat-server-a1", "child-1")
    collecting, over = (RUNNING.model_copy(update={"phase": phase}) for phase in ("Collecting", "Completed"))

    def decide(world: World) -> Decision:
        if world.collected.read_back:
            return Decision(status=over, delete=(server,), forget=True)
        return Decision(status=collecting, delete=(server,), acknowledge=2, read_back=True, ending=ending)

    scene.decide = decide


@pytest.fixture
async def to_judge(after_restart: Scene) -> Scene:
    """One record is stored, another has just come; the server is there."""
    after_restart.cluster.add("Deployment", child_body())
    await after_restart.listed()
    await after_restart.once()
    after_restart.memories.of(KEY, UID).take(arrival(1))
    after_restart.cluster.log.clear()
    judging(after_restart)
    return after_restart


async def test_records_are_read_back_after_the_server_was_released_and_judged_in_the_same_pass(to_judge: Scene) -> None:
    await to_judge.once()
    assert to_judge.cluster.log == [
        ("delete", "Deployment", "br-chat-server-a1"),
        ("acknowledge", "2"),
        ("get", "ConfigMap", STAGE_0),
        ("status", "BenchmarkRun", "chat"),
        ("get", "BenchmarkRun", "chat"),
    ]
    collected = to_judge.worlds[-1].collected
    assert tuple(collected.records) == (record(run_uid=UID, sequence=0), record(run_uid=UID, sequence=1))
    assert status_of(to_judge.cluster)["phase"] == "Completed"
    assert len(to_judge.memories) == 0


async def test_it_is_judged_as_it_was_with_what_was_stored_since(to_judge: Scene) -> None:
    first = to_judge.decide
    to_judge.decide = lambda world: replace(
        first(world), apply=() if world.collected.read_back else (stage(arrival(1)),)
    )
    await to_judge.once()
    objects = to_judge.worlds[-1].children.objects
    assert sorted(c.sequence for c in objects if c.sequence is not None) == [0, 1]
    assert [c.deleting for c in objects if c.kind == "Deployment"] == [False]
    assert [r.sequence for r in to_judge.worlds[-1].collected.records] == [0, 1]


async def test_records_that_can_not_be_read_now_are_judged_later_and_the_server_is_gone_all_the_same(
    to_judge: Scene,
) -> None:
    judging(to_judge, ending=Ending("Cancelled", "by hand"))
    for unavailable in (True, True, False):
        if unavailable:
            with pytest.raises(Later):
                await broken_get(to_judge)
            assert status_of(to_judge.cluster)["phase"] == "Collecting"
        else:
            await to_judge.once()
    assert to_judge.worlds[-1].collected.ending == Ending("Cancelled", "by hand")
    assert len(to_judge.worlds[-1].collected.records) == 2
    assert status_of(to_judge.cluster)["phase"] == "Completed"


async def broken_get(scene: Scene) -> None:
    """A pass while ConfigMaps can't be read."""
    name = ("ConfigMap", NAMESPACE, STAGE_0)
    kept = scene.cluster.objects[name]
    scene.cluster.broken_objects = {STAGE_0: Unavailable("down")}
    try:
        await scene.once()
    finally:
        scene.cluster.broken_objects = {}
    assert scene.cluster.objects[name] is kept


@pytest.mark.parametrize(
    ("what", "data"),
    [
        pytest.param("not a gzip stream", b"not gzip", id="garbage"),
        pytest.param("holds record 0 of run another", arrival_of("another").data, id="another run's"),
    ],
)
async def test_stored_record_that_is_none_is_told_and_does_not_stop_the_run(
    to_judge: Scene, what: str, data: bytes
) -> None:
    body = to_judge.cluster.objects["ConfigMap", NAMESPACE, STAGE_0]
    body["binaryData"] = {"record.json.gz": base64.b64encode(data).decode()}
    await to_judge.once()
    collected = to_judge.worlds[-1].collected
    assert [r.sequence for r in collected.records] == [1]
    assert collected.refused is not None
    assert STAGE_0 in collected.refused
    assert what in collected.refused


async def test_stored_record_that_somebody_deleted_is_missed_and_not_waited_for(to_judge: Scene) -> None:
    del to_judge.cluster.objects["ConfigMap", NAMESPACE, STAGE_0]
    await to_judge.once()
    assert [r.sequence for r in to_judge.worlds[-1].collected.records] == [1]
    assert status_of(to_judge.cluster)["phase"] == "Completed"


async def test_stage_of_another_run_of_the_same_name_is_not_read(scene: Scene) -> None:
    foreign = stage_body(0)
    foreign["metadata"]["ownerReferences"][0]["uid"] = "another-run"
    scene.indexes.learnt("ConfigMap", foreign)
    await scene.once()
    assert [e for e in scene.cluster.log if e[1] == "ConfigMap"] == []


# ---- what the server's log told --------------------------------------------------------------------------------------

LOG = log_config_map(OWNER, compilations=(7.5,))


async def test_what_the_judgement_adds_is_stored_before_the_end_is_written(to_judge: Scene) -> None:
    first = to_judge.decide
    to_judge.decide = lambda world: replace(first(world), apply=(LOG,) if world.collected.read_back else ())
    await to_judge.once()
    told = to_judge.cluster.log
    assert told.index(("apply", "ConfigMap", "br-chat-log-a1")) < told.index(("status", "BenchmarkRun", "chat"))
    assert status_of(to_judge.cluster)["phase"] == "Completed"


async def test_a_run_is_not_called_finished_before_that_is_stored(to_judge: Scene) -> None:
    first = to_judge.decide
    to_judge.decide = lambda world: replace(first(world), apply=(LOG,) if world.collected.read_back else ())
    to_judge.cluster.broken["apply"] = Unavailable("down")
    with pytest.raises(Later):
        await to_judge.once()
    assert status_of(to_judge.cluster)["phase"] == "Running"


async def test_a_new_operator_knows_what_the_log_told(after_restart: Scene) -> None:
    """The server is gone, and its log with it."""
    after_restart.cluster.add("ConfigMap", {**LOG, "metadata": LOG["metadata"] | {"uid": "l", "resourceVersion": "9"}})
    await after_restart.listed()
    await after_restart.once()
    collected = after_restart.worlds[0].collected
    assert (collected.compilations, collected.log_searched) == ((7.5,), True)
    assert [s.at for s in collected.samples] == [1, 2]


# ---- the baseline ----------------------------------------------------------------------------------------------------


def wanting_the_baseline(world: World) -> Decision:
    wanted = None if world.collected.baseline_sought else "before"
    return Decision(status=RUNNING, read_back=wanted is not None, baseline_wanted=wanted)


async def test_the_baseline_is_read_whole_and_decided_on_in_the_same_pass(scene: Scene) -> None:
    """The index keeps no results of runs that have ended."""
    scene.cluster.add("BenchmarkRun", run_body("before", uid="uid-before", status=ENDED | {"results": [{"cell": "c"}]}))
    await scene.listed()
    scene.decide = wanting_the_baseline
    await scene.once()
    baseline = scene.worlds[-1].collected.baseline
    assert baseline is not None
    assert (len(scene.worlds), baseline.uid, baseline.status["results"]) == (2, "uid-before", [{"cell": "c"}])


async def test_a_baseline_that_does_not_exist_is_sought_once(scene: Scene) -> None:
    scene.decide = wanting_the_baseline
    await scene.once()
    await scene.once()
    collected = scene.worlds[-1].collected
    assert (collected.baseline, collected.baseline_sought) == (None, True)
    assert scene.cluster.log.count(("get", "BenchmarkRun", "before")) == 1


async def test_a_baseline_that_can_not_be_read_now_is_sought_again(scene: Scene) -> None:
    scene.cluster.broken_objects["before"] = Unavailable("no answer")
    scene.decide = wanting_the_baseline
    with pytest.raises(Later):
        await scene.once()
    del scene.cluster.broken_objects["before"]
    await scene.once()
    assert scene.worlds[-1].collected.baseline_sought
