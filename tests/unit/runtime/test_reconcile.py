"""One pass: what is decided is done, in order, once; what breaks is made good by the next pass."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun.api import names
from benchrun.api.status import BenchmarkRunStatus
from benchrun.decide.decision import (
    Arrival,
    Context,
    Decision,
    Ending,
    Event,
    LogRange,
    LogWanted,
    PullTarget,
    Ref,
    ScrapeTarget,
    World,
)
from benchrun.effects.errors import ClusterError, Forbidden, Invalid, NotFound, Throttled, Unavailable
from benchrun.measure.samples import Sample
from benchrun.measure.timeline import Timeline, encode
from benchrun.plan.metadata import Owner, metadata, stamped
from benchrun.plan.stored import stage_config_map
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.listing import list_everything
from benchrun.runtime.memory import Memories
from benchrun.runtime.queue import Later
from benchrun.runtime.reconcile import Reconciler
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.contract import Envelope
from unit.measure.records import record
from unit.runtime.bodies import KEY, NAMESPACE, UID, child_body, run_body, stage_body
from unit.runtime.memory_cluster import MemoryCluster, status_of

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
STAGE_0 = names.stage_name("chat", 0)
OWNER = Owner(namespace=NAMESPACE, name="chat", uid=UID)
PULL = PullTarget(pod="client", url="http://10.0.0.9:8090", nonce="n" * 16, from_sequence=0)
SCRAPE = ScrapeTarget(role="server", pod="p", url="http://10.0.0.1:8000/metrics", interval_seconds=1)
RUNNING = BenchmarkRunStatus(observed_generation=1, phase="Running")
ENDED = {
    "observedGeneration": 1,
    "attempt": 1,
    "phase": "Completed",
    "conditions": [
        {
            "type": "Complete",
            "status": "True",
            "reason": "Measured",
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-11-21T12:00:00Z",
        }
    ],
}


class Sessions:
    """What passes ask of the background."""

    def __init__(self, log: list[tuple[str, ...]]) -> None:
        self.followed: list[tuple[tuple[ScrapeTarget, ...], PullTarget | None]] = []
        self.stopped = 0
        self.active = 0
        self.hears = True
        self._log = log

    def __len__(self) -> int:
        return self.active

    def follow(self, key: object, run: object, memory: object, *, scrape: Any, pull: Any) -> None:
        self.followed.append((scrape, pull))

    async def acknowledge(self, key: object, through: int) -> bool:
        self._log.append(("acknowledge", str(through)))
        return self.hears

    def stop(self, key: object) -> None:
        self.stopped += 1


class Scene:
    """A run in a cluster, and a reconciler that decides what the test says."""

    def __init__(self, status: dict[str, Any] | None = None) -> None:
        self.cluster = MemoryCluster()
        self.cluster.add("BenchmarkRun", run_body(status=status))
        self.indexes = Indexes()
        self.memories = Memories()
        self.sessions = Sessions(self.cluster.log)
        self.telemetry = Telemetry()
        self.worlds: list[World] = []
        self.decide: Callable[[World], Decision] = lambda world: Decision(status=RUNNING)
        self.reconciler = Reconciler(
            cluster=self.cluster,
            indexes=self.indexes,
            memories=self.memories,
            sessions=self.sessions,
            clock=self,
            context=Context(client_image="client"),
            decide=self._decide,
            telemetry=self.telemetry,
        )

    def now(self) -> datetime:
        return NOW

    async def listed(self) -> None:
        await list_everything(self.cluster, self.indexes, ())
        self.cluster.log.clear()

    async def once(self, **decision: Any) -> float | None:
        """One pass with this decision."""
        if decision:
            self.decide = lambda world: Decision(**({"status": RUNNING} | decision))
        return await self.reconciler(KEY)

    def count(self, result: str) -> float:
        return self.telemetry.registry.get_sample_value("benchrun_reconcile_total", {"result": result}) or 0.0

    def _decide(self, world: World) -> Decision:
        self.worlds.append(world)
        return self.decide(world)


@pytest.fixture
async def scene() -> Scene:
    """A run without children."""
    made = Scene()
    await made.listed()
    return made


def manifest(name: str = "br-chat-server-a1", kind: str = "Service", role: str = names.ROLE_SERVER) -> dict[str, Any]:
    return stamped({"apiVersion": "v1", "kind": kind, "metadata": metadata(OWNER, name=name, role=role)})


def arrival(sequence: int = 0) -> Arrival:
    sealed = Envelope.seal(record(run_uid=UID, sequence=sequence))
    return Arrival(sequence=sequence, digest=sealed.digest, data=sealed.data())


def stage(one: Arrival, samples: tuple[Sample, ...] = ()) -> dict[str, Any]:
    timeline = encode(Timeline(samples=samples)) if samples else None
    return stage_config_map(OWNER, sequence=one.sequence, digest=one.digest, record=one.data, timeline=timeline)


def arrival_of(run_uid: str) -> Arrival:
    """The first record, of that run."""
    sealed = Envelope.seal(record(run_uid=run_uid, sequence=0))
    return Arrival(sequence=0, digest=sealed.digest, data=sealed.data())


def sample(at: float) -> Sample:
    return Sample(at=at, role="server", pod="p", running=1.0)


# ---- what a decision sees --------------------------------------------------------------------------------------------


async def test_decision_sees_run_children_and_time(scene: Scene) -> None:
    scene.indexes.heard("Job", child_body("br-chat-client-a1"), deleted=False)
    await scene.once()
    world = scene.worlds[0]
    assert (world.run.uid, world.now) == (UID, NOW)
    assert [c.name for c in world.children.objects] == ["br-chat-client-a1"]


async def test_live_figures_are_written_less_often_when_many_runs_go_on(scene: Scene) -> None:
    await scene.once()
    scene.sessions.active = 200
    await scene.once()
    assert [w.context.live_interval_seconds for w in scene.worlds] == [5.0, 10.0]


# ---- order and economy -----------------------------------------------------------------------------------------------


async def test_everything_is_done_in_order(scene: Scene) -> None:
    scene.cluster.add("Deployment", child_body("old", uid="old"))
    await scene.once(
        delete=(Ref("Deployment", NAMESPACE, "old", "old"),),
        apply=(manifest("a"), manifest("b")),
        acknowledge=2,
        events=(Event("Running", "go"),),
    )
    assert scene.cluster.log == [
        ("delete", "Deployment", "old"),
        ("apply", "Service", "a"),
        ("apply", "Service", "b"),
        ("acknowledge", "2"),
        ("status", "BenchmarkRun", "chat"),
        ("get", "BenchmarkRun", "chat"),
        ("event", "Running", "chat"),
    ]


async def test_passes_over_a_run_that_does_not_change_write_nothing(scene: Scene) -> None:
    await scene.once(apply=(manifest(),))
    scene.cluster.log.clear()
    for _ in range(5):
        await scene.once()
    assert scene.cluster.log == []


async def test_object_just_applied_is_known_before_the_watch_tells(scene: Scene) -> None:
    await scene.once(apply=(manifest(),))
    await scene.once()
    assert [c.applied_hash for c in scene.worlds[1].children.objects] == [
        manifest()["metadata"]["annotations"][names.ANNOTATION_APPLIED]
    ]


async def test_object_that_changed_is_applied_again_over_the_one_we_know(scene: Scene) -> None:
    await scene.once(apply=(manifest(),))
    changed = stamped({**manifest(), "spec": {"clusterIP": "None"}})
    await scene.once(apply=(changed,))
    assert [w[0] for w in scene.cluster.writes()].count("apply") == 2
    assert scene.cluster.objects["Service", NAMESPACE, "br-chat-server-a1"]["spec"] == {"clusterIP": "None"}


async def test_requeue_is_what_the_decision_says(scene: Scene) -> None:
    assert await scene.once(requeue_after_seconds=12.5) == 12.5
    assert await scene.once(requeue_after_seconds=None) is None


async def test_background_follows_the_decision(scene: Scene) -> None:
    await scene.once(scrape=(SCRAPE,), pull=PULL)
    assert scene.sessions.followed == [((SCRAPE,), PULL)]


async def test_client_is_told_once_and_again_when_it_did_not_hear(scene: Scene) -> None:
    scene.sessions.hears = False
    await scene.once(acknowledge=1)
    scene.sessions.hears = True
    for _ in range(3):
        await scene.once(acknowledge=1)
    await scene.once(acknowledge=2)
    assert [e[1] for e in scene.cluster.log if e[0] == "acknowledge"] == ["1", "1", "2"]


# ---- the status ------------------------------------------------------------------------------------------------------


async def test_status_is_written_with_what_changed(scene: Scene) -> None:
    await scene.once()
    assert status_of(scene.cluster) == {"observedGeneration": 1, "phase": "Running", "attempt": 1}


async def test_stale_pass_never_overwrites_and_reads_again(scene: Scene) -> None:
    scene.cluster.add("BenchmarkRun", run_body(version=150, status={"message": "somebody else's"}))
    with pytest.raises(Later):
        await scene.once(events=(Event("Running", "go"),))
    assert status_of(scene.cluster) == {"message": "somebody else's"}
    assert scene.cluster.events == []
    assert scene.count("conflict") == 1
    await scene.once(events=(Event("Running", "go"),))
    assert status_of(scene.cluster) == {"observedGeneration": 1, "phase": "Running", "attempt": 1}
    assert [e.reason for e in scene.cluster.events] == ["Running"]


async def test_run_made_anew_under_the_same_name_is_not_given_the_old_ones_status(scene: Scene) -> None:
    scene.cluster.add("BenchmarkRun", run_body(uid="other", version=150))
    with pytest.raises(Later):
        await scene.once()
    assert status_of(scene.cluster) == {}
    run = scene.indexes.run(KEY)
    assert run is not None
    assert run.uid == "other"


async def test_run_that_turns_out_to_be_gone_is_forgotten(scene: Scene) -> None:
    del scene.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]
    scene.cluster.broken["status"] = NotFound("gone", code=404)
    with pytest.raises(Later):
        await scene.once()
    scene.indexes.heard("BenchmarkRun", run_body(version=101), deleted=True)
    assert await scene.once() is None
    assert len(scene.memories) == 0


# ---- what can go wrong -----------------------------------------------------------------------------------------------


async def test_failed_write_ends_the_pass_before_the_status(scene: Scene) -> None:
    scene.cluster.broken["apply"] = Unavailable("down")
    with pytest.raises(Later, match="down"):
        await scene.once(apply=(manifest(),), events=(Event("Running", "go"),))
    assert (status_of(scene.cluster), scene.cluster.events) == ({}, [])
    assert scene.count("unavailable") == 1


async def test_throttling_is_obeyed(scene: Scene) -> None:
    scene.cluster.broken["apply"] = Throttled("slow down", retry_after_seconds=17)
    with pytest.raises(Later) as later:
        await scene.once(apply=(manifest(),))
    assert later.value.seconds == 17


QUOTA = Forbidden('deployments.apps "x" is forbidden: exceeded quota: gpus', code=403)
INVALID = Invalid('Deployment.apps "x" is invalid: spec.template.spec.tolerations[0]: nonsense', code=422)


@pytest.mark.parametrize(
    ("error", "reason", "curable"), [(QUOTA, "QuotaExceeded", True), (INVALID, "ChildInvalid", False)]
)
async def test_refusal_by_the_cluster_is_decided_upon_at_once_and_told(
    scene: Scene, error: Forbidden | Invalid, reason: str, curable: bool
) -> None:
    scene.cluster.broken["apply"] = error
    assert await scene.once(apply=(manifest(), manifest("b"))) == 0.0
    assert ("apply", "Service", "b") not in scene.cluster.log
    await scene.once()
    refused = scene.worlds[1].collected.refused_object
    assert refused is not None
    assert (refused.kind, refused.name, refused.role) == ("Service", "br-chat-server-a1", "server")
    assert (refused.message, refused.curable) == (str(error), curable)
    assert [(e.reason, e.warning) for e in scene.cluster.events] == [(reason, True)]


async def test_what_is_refused_stands_in_the_status_and_is_offered_again_now_and_then(scene: Scene) -> None:
    scene.cluster.broken["apply"] = QUOTA
    waits = [await scene.once(apply=(manifest(),), requeue_after_seconds=100.0) for _ in range(4)]
    assert waits == [0.0, 15.0, 15.0, 15.0]
    assert status_of(scene.cluster)["phase"] == "Running"
    assert len(scene.cluster.events) == 1
    del scene.cluster.broken["apply"]
    assert await scene.once(apply=(manifest(),)) == 0.0
    assert await scene.once(apply=(manifest(),), requeue_after_seconds=100.0) == 100.0
    assert scene.worlds[-1].collected.refused_object is None


async def test_words_that_change_with_every_answer_do_not_make_it_spin(scene: Scene) -> None:
    waits = []
    for request in range(3):
        scene.cluster.broken["apply"] = Forbidden(f"denied (request {request})", code=403)
        waits.append(await scene.once(apply=(manifest(),)))
    assert waits == [0.0, 15.0, 15.0]


async def test_nothing_is_acknowledged_or_finished_while_a_record_is_refused(scene: Scene) -> None:
    scene.cluster.broken["apply"] = QUOTA
    one, two = arrival(0), arrival(1)
    for _ in range(3):
        await scene.once(apply=(stage(one), stage(two)), acknowledge=2, forget=True)
    assert [e for e in scene.cluster.log if e[0] in ("acknowledge", "status")] == []
    assert ("apply", "ConfigMap", names.stage_name("chat", 1)) in scene.cluster.log
    await scene.once(acknowledge=2, forget=True)
    assert [e[0] for e in scene.cluster.log if e[0] in ("acknowledge", "status")] == ["acknowledge", "status"]


async def test_event_that_can_not_be_posted_fails_nothing(scene: Scene) -> None:
    scene.cluster.broken["event"] = Forbidden("no rights", code=403)
    assert await scene.once(events=(Event("Running", "go"),), requeue_after_seconds=3) == 3


async def test_name_taken_by_somebody_else_is_decided_upon_and_never_overwritten(scene: Scene) -> None:
    theirs = scene.cluster.add("Service", child_body(owner_uid=None, run=None))
    assert await scene.once(apply=(manifest(),)) == 0.0
    assert scene.cluster.objects["Service", NAMESPACE, "br-chat-server-a1"] is theirs
    await scene.once()
    assert scene.worlds[1].collected.conflict == "Service br-chat-server-a1 exists and is not ours"


async def test_name_taken_by_another_run_is_a_conflict_too(scene: Scene) -> None:
    theirs = scene.cluster.add("Service", child_body(owner_uid="another-run"))
    scene.indexes.heard("Service", theirs, deleted=False)
    await scene.once(apply=(manifest(),))
    assert scene.cluster.objects["Service", NAMESPACE, "br-chat-server-a1"] is theirs
    await scene.once()
    assert scene.worlds[1].collected.conflict is not None


async def test_bug_in_a_decision_is_counted_and_raised(scene: Scene) -> None:
    def broken(world: World) -> Decision:
        raise ZeroDivisionError

    scene.decide = broken
    with pytest.raises(ZeroDivisionError):
        await scene.once()
    assert scene.count("error") == 1


# ---- looking things up -----------------------------------------------------------------------------------------------


async def test_log_tail_is_fetched_once_and_decided_upon_at_once(scene: Scene) -> None:
    wanted = LogWanted(pod="p", container="vllm", previous=True)
    assert await scene.once(log_wanted=wanted) == 0.0
    await scene.once(log_wanted=wanted, requeue_after_seconds=5)
    assert scene.worlds[1].collected.log_tail == "the last words"
    assert scene.cluster.log.count(("log", "p", "vllm")) == 1


async def test_log_that_is_gone_is_not_asked_for_again(scene: Scene) -> None:
    scene.cluster.broken["log"] = NotFound("no such container", code=404)
    await scene.once(log_wanted=LogWanted(pod="p", container="vllm", previous=False))
    await scene.once()
    collected = scene.worlds[1].collected
    assert (collected.log_tail, collected.log_tail_tried) == (None, True)


async def test_log_is_asked_for_again_when_the_api_server_was_away(scene: Scene) -> None:
    scene.cluster.broken["log"] = Unavailable("down")
    with pytest.raises(Later):
        await scene.once(log_wanted=LogWanted(pod="p", container="vllm", previous=False))
    await scene.once(requeue_after_seconds=1)
    assert scene.worlds[1].collected.log_tail_tried is False


SEARCH = LogRange(pod="p", container="vllm", since_seconds=60)
COMPILED = "2026-11-21T11:59:30.500000000Z WARNING Triton kernel JIT compilation during inference: f. This ..."


async def test_log_is_searched_before_the_server_goes(scene: Scene) -> None:
    scene.cluster.log_text = COMPILED
    await scene.once(log_search=SEARCH, delete=(Ref("Deployment", NAMESPACE, "d", "u"),))
    assert scene.cluster.log[:2] == [("log since", "p", "60"), ("delete", "Deployment", "d")]
    await scene.once()
    collected = scene.worlds[1].collected
    assert (collected.log_searched, collected.compilations) == (True, (NOW.timestamp() - 29.5,))


@pytest.mark.parametrize("error", [Unavailable("down"), NotFound("gone", code=404), Forbidden("no", code=403)])
async def test_log_that_can_not_be_had_is_not_waited_for(scene: Scene, error: ClusterError) -> None:
    scene.cluster.broken["log since"] = error
    await scene.once(log_search=SEARCH, delete=(Ref("Deployment", NAMESPACE, "d", "u"),))
    assert ("delete", "Deployment", "d") in scene.cluster.log
    await scene.once()
    collected = scene.worlds[1].collected
    assert (collected.log_searched, collected.compilations) == (True, None)


async def test_slow_log_holds_the_server_for_half_a_second(scene: Scene) -> None:
    scene.cluster.log_seconds = 60.0
    began = time.monotonic()
    await scene.once(log_search=SEARCH, delete=(Ref("Deployment", NAMESPACE, "d", "u"),))
    assert 0.4 < time.monotonic() - began < 2.0
    assert ("delete", "Deployment", "d") in scene.cluster.log


@pytest.fixture
async def endpoint() -> Scene:
    """A run against an existing Service."""
    made = Scene()
    body = made.cluster.objects["BenchmarkRun", NAMESPACE, "chat"]
    body["spec"] = {"endpoint": {"serviceRef": {"name": "vllm", "port": 8001}}}
    await made.listed()
    return made


async def test_endpoint_is_looked_up_by_the_name_in_the_spec(endpoint: Scene) -> None:
    endpoint.cluster.addresses = ("10.0.0.1:8001",)
    assert await endpoint.once(lookup_endpoint=True, requeue_after_seconds=5) == 0.0
    assert await endpoint.once(lookup_endpoint=True, requeue_after_seconds=5) == 5
    assert endpoint.worlds[1].collected.endpoint_addresses == ("10.0.0.1:8001",)
    assert ("endpoints", "vllm", "8001") in endpoint.cluster.log


async def test_service_that_does_not_exist_has_no_addresses(endpoint: Scene) -> None:
    endpoint.cluster.broken["endpoints"] = NotFound("no such service", code=404)
    await endpoint.once(lookup_endpoint=True)
    await endpoint.once()
    assert endpoint.worlds[1].collected.endpoint_addresses == ()


# ---- storing and reading back ----------------------------------------------------------------------------------------


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


# ---- the end ---------------------------------------------------------------------------------------------------------


async def test_run_that_is_over_is_forgotten_after_its_status_was_written(scene: Scene) -> None:
    await scene.once(scrape=(SCRAPE,))
    scene.cluster.add("BenchmarkRun", run_body(version=2000))
    with pytest.raises(Later):
        await scene.once(forget=True, status=RUNNING.model_copy(update={"message": "over"}))
    assert (len(scene.memories), scene.sessions.stopped) == (1, 0)
    await scene.once(forget=True, status=RUNNING.model_copy(update={"message": "over"}), requeue_after_seconds=9)
    assert (len(scene.memories), scene.sessions.stopped) == (0, 1)


async def test_run_that_ended_reads_and_writes_nothing() -> None:
    scene = Scene(status=ENDED)
    scene.cluster.add("ConfigMap", stage_body())
    await scene.listed()
    await scene.once(status=BenchmarkRunStatus.model_validate(ENDED), forget=True)
    assert scene.cluster.log == []
    assert len(scene.memories) == 0


async def test_run_whose_time_is_up_is_deleted_by_uid(scene: Scene) -> None:
    await scene.once(delete_run=True, forget=True)
    assert ("BenchmarkRun", NAMESPACE, "chat") not in scene.cluster.objects


@pytest.mark.parametrize("gone", [True, False])
async def test_deleted_run_is_dropped_without_a_decision(scene: Scene, gone: bool) -> None:
    await scene.once()
    body = run_body(version=2000, deletionTimestamp="2026-11-21T12:00:00Z")
    scene.indexes.heard("BenchmarkRun", body, deleted=gone)
    scene.cluster.log.clear()
    assert await scene.once() is None
    assert (scene.cluster.log, len(scene.worlds), len(scene.memories)) == ([], 1, 0)
    assert scene.sessions.stopped == 1


async def test_memory_of_a_run_is_not_handed_to_another_of_the_same_name(scene: Scene) -> None:
    await scene.once()
    scene.memories.of(KEY, UID).refuse("wrong digest")
    scene.indexes.heard("BenchmarkRun", run_body(uid="again", version=2000), deleted=False)
    scene.cluster.add("BenchmarkRun", run_body(uid="again", version=2000))
    await scene.once()
    assert scene.worlds[1].collected.refused is None


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
