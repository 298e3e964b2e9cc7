"""The servers of a run that ends are deleted before anything else of a pass, whatever else fails in
it."""

from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest
from benchrun.api import ServerStatus
from benchrun.decide import (
    Compilations,
    Decision,
    Ending,
    Event,
    Facts,
    LogTail,
    Ref,
)
from benchrun.effects import ClusterError, Conflict, Invalid, Throttled, Unavailable
from benchrun.observe import run_key
from benchrun.runtime.queue import Later, WorkQueue
from benchrun.runtime.run_reconciler import LAST_WORDS_SECONDS
from benchrun_client.engines import ENGINES
from unit.runtime.bodies import KEY, NAMESPACE, child_body, run_body
from unit.runtime.fast_time import in_fast_time, now, passing, run_fast
from unit.runtime.memory_cluster import status_of
from unit.runtime.scene import RUNNING, Scene, manifest

VLLM = ENGINES["VLLM"]

SERVERS = tuple(
    Ref("Deployment", NAMESPACE, name, name) for name in ("prefill", "decode")
)
JOB = Ref("Job", NAMESPACE, "client", "client")
DELETED = [("delete", ref.kind, ref.name) for ref in (*SERVERS, JOB)]
ENDING = RUNNING.model_copy(update={"phase": "Collecting"})
TAIL = LogTail(pod="p", container="server", previous=False)
LOG = Compilations(
    pod="p", container="server", since="2026-11-21T12:00:00Z", engine=VLLM
)
ERRORS = [
    pytest.param(Conflict("moved on", code=409), id="409"),
    pytest.param(Invalid("never", code=422), id="422"),
    pytest.param(Throttled("slow down", retry_after_seconds=7), id="429"),
    pytest.param(Unavailable("kubelet", code=500), id="500"),
    pytest.param(Unavailable("TimeoutError"), id="timeout"),
]


def ending(**more: Any) -> dict[str, Any]:
    """A decision with something of everything."""
    return {
        "status": ENDING,
        "delete": (*SERVERS, JOB),
        "apply": (manifest(),),
        "events": (Event("Failed", "for a test", warning=True),),
        "lookups": (LOG,),
        **more,
    }


async def served() -> Scene:
    """A run that holds two servers and a client."""
    scene = Scene()
    for ref in (*SERVERS, JOB):
        scene.cluster.add(ref.kind, child_body(ref.name, uid=ref.uid or ""))
    await scene.listed()
    return scene


def held(scene: Scene) -> list[str]:
    """What of it is still there."""
    return [
        name
        for kind, _, name in scene.cluster.objects
        if kind in ("Deployment", "Job")
    ]


@pytest.mark.parametrize(
    "verb", ["apply", "status", "get", "event", "log", "log since"]
)
@pytest.mark.parametrize("error", ERRORS)
@in_fast_time
async def test_servers_go_first_whatever_fails(
    verb: str, error: ClusterError
) -> None:
    scene = await served()
    scene.cluster.broken[verb] = error
    with suppress(Later):
        await scene.once(**ending())
    assert (scene.cluster.writes()[:3], held(scene)) == (DELETED, [])
    assert [
        child.deleting
        for child in scene.indexes.children(KEY).objects
        if child.kind != "Service"
    ] == [True] * 3
    await scene.lookups.close()


@pytest.mark.parametrize("error", ERRORS)
@in_fast_time
async def test_the_log_of_a_failed_server_is_requested_once_and_does_not_keep_it(
    error: ClusterError,
) -> None:
    scene = await served()
    scene.cluster.broken["log"] = error
    assert await scene.once(**ending(last_words=TAIL)) == 0.0
    assert scene.cluster.log[:4] == [("log", "p", "server"), *DELETED]
    answer = scene.collected.answers.of(TAIL)
    assert answer is not None
    assert (answer.value, answer.problem) == (None, str(error))
    await scene.once(**ending(last_words=TAIL))
    assert scene.cluster.log.count(("log", "p", "server")) == 1
    await scene.lookups.close()


def test_a_log_that_never_comes_holds_the_server_for_a_second() -> None:
    async def end() -> None:
        scene = await served()
        scene.cluster.hanging = {"log"}
        assert await scene.once(**ending(last_words=TAIL)) == 0.0
        assert (now(), held(scene)) == (LAST_WORDS_SECONDS, [])
        assert scene.collected.answers.value(TAIL) is None
        await scene.lookups.close()

    run_fast(end())
    assert LAST_WORDS_SECONDS == 1.0


@in_fast_time
async def test_the_last_words_are_known_to_the_decision_that_follows_at_once() -> (
    None
):
    scene = await served()
    assert await scene.once(**ending(last_words=TAIL)) == 0.0
    assert "phase" not in status_of(scene.cluster)
    assert scene.collected.answers.value(TAIL) == "the last words"


@in_fast_time
async def test_lookups_before_the_server_goes_do_not_delay_it() -> None:
    scene = await served()
    scene.cluster.hanging = {"log since"}
    await scene.once(**ending())
    await passing(0.1)
    assert (now() < 0.2, held(scene)) == (True, [])
    assert ("log since", "p", LOG.since) in scene.cluster.log
    await scene.lookups.close()


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("last_words", [None, TAIL])
@in_fast_time
async def test_a_delete_that_fails_keeps_nothing_else_from_being_done_and_the_pass_is_retried(
    error: ClusterError, last_words: LogTail | None
) -> None:
    scene = await served()
    scene.cluster.broken_objects["prefill"] = error
    with pytest.raises(Later) as later:
        await scene.once(**ending(last_words=last_words, forget=True))
    assert later.value.__cause__ is error
    assert [
        entry for entry in scene.cluster.writes() if entry[0] == "delete"
    ] == DELETED
    assert held(scene) == ["prefill"]
    assert status_of(scene.cluster)["phase"] == "Collecting"
    assert len(scene.memories) == 1
    scene.cluster.broken_objects.clear()
    await scene.once(**ending(delete=SERVERS[:1], forget=True))
    assert (held(scene), len(scene.memories)) == ([], 0)


@in_fast_time
async def test_when_it_was_released_is_kept_from_the_first_time() -> None:
    scene = await served()
    await scene.once()
    assert scene.collected.released_at is None
    await scene.once(**ending())
    assert scene.collected.released_at == scene.now()
    before = scene.collected.released_at = scene.now() - timedelta(seconds=5)
    await scene.once(**ending())
    assert scene.collected.released_at == before
    await scene.lookups.close()


class Many:
    """Runs that end at the same moment, each with a server, a record to store and a status."""

    def __init__(self, *runs: str, changes: dict[str, Any]) -> None:
        self.scene = Scene()
        self._changes = changes
        self.keys = [run_key(NAMESPACE, name) for name in runs]
        for name in runs:
            uid = f"uid-of-{name}"
            body = run_body(name, uid=uid, status={"observedGeneration": 0})
            self.scene.cluster.add("BenchmarkRun", body)
            server = child_body(
                f"{name}-server", uid=f"{name}-server", run=name, owner_uid=uid
            )
            self.scene.cluster.add("Deployment", server)

    def _decide(self, facts: Facts) -> Decision:
        name = facts.run.name
        server = Ref("Deployment", NAMESPACE, f"{name}-server", f"{name}-server")
        stays = [
            child for child in facts.children.objects if child.kind == "Deployment"
        ]
        return Decision(
            status=ENDING.model_copy(update=self._changes.get("status", {})),
            ending=self._changes.get("ending"),
            delete=(server,) if any(not child.deleting for child in stays) else (),
            apply=(manifest(f"{name}-record", kind="ConfigMap"),),
        )

    async def log(self) -> list[str]:
        """What one worker asked the cluster for, in order."""
        await self.scene.listed()
        self.scene.decide = self._decide
        urgent = self.scene.indexes.holds_server
        queue = WorkQueue(self.scene.reconciler, workers=1, urgent=urgent)
        for key in self.keys:
            queue.add(key)
        queue.start()
        await passing(0.5)
        await queue.stop()
        return [
            verb
            for verb, *_ in self.scene.cluster.log
            if verb in ("delete", "apply")
        ]


@in_fast_time
async def test_all_servers_go_before_anything_else_is_done_about_their_runs() -> (
    None
):
    """With an API server that takes half a second, 500 runs that ended together kept the last
    server for minutes: each wrote its record and status first."""
    assert (
        await Many("a", "b", "c", changes={}).log()
        == ["delete"] * 3 + ["apply"] * 3
    )


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"ending": Ending("Cancelled", "by hand")}, id="why it ends"),
        pytest.param(
            {"status": {"servers": [ServerStatus(engine="VLLM", role="server")]}},
            id="what they were",
        ),
    ],
)
@in_fast_time
async def test_what_nobody_could_find_out_later_is_written_at_once(
    changes: dict[str, Any],
) -> None:
    many = Many("a", changes=changes)
    assert await many.log() == ["delete", "apply"]
    verbs = [
        verb
        for verb, *_ in many.scene.cluster.log
        if verb in ("delete", "apply", "status")
    ]
    assert verbs == ["delete", "apply", "status"]
    assert len(many.scene.facts_seen) == 1


@pytest.mark.parametrize("forget", [False, True])
@in_fast_time
async def test_what_cannot_be_stored_keeps_the_run_from_being_called_finished(
    forget: bool,
) -> None:
    scene = await served()
    scene.cluster.broken["apply"] = Unavailable("down")
    assert await scene.once(**ending(forget=forget)) == 0
    with pytest.raises(Later):
        await scene.once(**ending(forget=forget))
    assert held(scene) == []
    assert status_of(scene.cluster).get("phase") == (
        None if forget else "Collecting"
    )
    assert len(scene.memories) == 1
    await scene.lookups.close()


@pytest.mark.parametrize("error", [None, Unavailable("down")])
@in_fast_time
async def test_a_run_that_is_being_deleted_lets_go_however_long_a_finalizer_keeps_it(
    error: ClusterError | None,
) -> None:
    """Nothing else would: until it is gone the garbage collector removes nothing, and no deadline
    of it is looked at."""
    scene = await served()
    leaving = run_body(
        version=2000,
        deletionTimestamp="2026-11-21T12:00:00Z",
        finalizers=["example.com/slow"],
    )
    scene.indexes.heard("BenchmarkRun", leaving, deleted=False)
    if error is not None:
        scene.cluster.broken_objects["prefill"] = error
        assert await scene.once() is not None
        scene.cluster.broken_objects.clear()
    assert await scene.once() is None
    assert (held(scene), len(scene.memories)) == ([], 0)


@in_fast_time
async def test_a_client_that_goes_alone_as_of_a_suspended_run_is_no_release() -> (
    None
):
    scene = await served()
    await scene.once(delete=(JOB,))
    assert ([ref.name for ref in SERVERS], scene.collected.released_at) == (
        held(scene),
        None,
    )
