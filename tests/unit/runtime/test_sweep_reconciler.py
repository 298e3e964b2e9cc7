"""A sweep in a cluster held in memory: what passes ask of the API server, and what they do about
its answers."""

import asyncio
import io
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec, ResultDocument, RunIdentity
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.decide import Ref
from benchrun.decide.sweep.sweep_state import TableWanted
from benchrun.effects import (
    A,
    ClusterError,
    Conflict,
    Forbidden,
    Invalid,
    JudgeChild,
    NotJudged,
    Unavailable,
)
from benchrun.judge_process.judge_job import table_job
from benchrun.judge_process.messages import END, Job, JobPart, SweepJob, read_job
from benchrun.names import API_VERSION, KIND
from benchrun.observe import Key, packed, run_key, sweep_key, sweep_of_run
from benchrun.plan import Owner
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.memory import SweepMemory
from benchrun.runtime.queue import Later
from benchrun.runtime.reconciler import REFUSED_RETRY_SECONDS
from benchrun.runtime.sweep_reconciler import (
    LEFTOVER_SECONDS,
    TABLES,
    SweepReconciler,
)
from benchrun.runtime.telemetry import Telemetry
from unit.judge.comparison.sides import row
from unit.runtime.bodies import swept_body
from unit.runtime.memory_cluster import MemoryCluster, list_everything
from unit.stored_documents import stored_document
from unit.sweep.sweeps import NAME, NAMESPACE, UID, ended, failed, sweep_body

Json = dict[str, Any]
SWEEP = sweep_key(NAMESPACE, NAME)
FIRST = "seqs-v1-r1"
SECOND = "seqs-v2-r1"


class JudgeAtHand(JudgeChild):
    """The judge in this process."""

    def __init__(self) -> None:
        super().__init__()
        self.problem: str | None = None
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def judge(
        self,
        job: Job | SweepJob,
        parts: AsyncGenerator[JobPart, None],
        answer: type[A],
    ) -> tuple[A, bytes]:
        await self.may_answer.wait()
        if self.problem is not None:
            raise NotJudged(self.problem)
        sent = [
            job.line(),
            *[part.head.line() + part.data async for part in parts],
            END,
        ]
        found = read_job(io.BytesIO(b"".join(sent)))
        assert found is not None
        verb, received = found
        assert isinstance(verb, SweepJob)
        table = table_job(verb, received)
        assert isinstance(table, answer)
        return table, b""


class Scene:
    """A sweep, and an operator's part that works on it."""

    def __init__(self, **spec: Any) -> None:
        self.cluster = MemoryCluster()
        self.judge = JudgeAtHand()
        meta = {
            "name": NAME,
            "namespace": NAMESPACE,
            "uid": UID,
            "resourceVersion": "100",
            "generation": 1,
        }
        self.cluster.add(
            SWEEP_KIND,
            {
                "apiVersion": API_VERSION,
                "kind": SWEEP_KIND,
                "metadata": meta,
                "spec": sweep_body(**spec),
            },
        )
        self.restart()

    def restart(self) -> None:
        """Another process: nothing is remembered."""
        self.indexes = Indexes()
        self.enqueued: list[Key] = []
        self.reconcile = SweepReconciler(
            cluster=self.cluster,
            judge=self.judge,
            indexes=self.indexes,
            now=self.now,
            telemetry=Telemetry(),
            enqueue=self.enqueued.append,
        )

    def now(self) -> datetime:
        return datetime(2026, 11, 21, 12, 0, tzinfo=UTC)

    async def once(self) -> float | None:
        """One pass over what the cluster holds; the log tells of this pass alone."""
        await list_everything(self.cluster, self.indexes, ())
        self.cluster.log.clear()
        return await self.reconcile(SWEEP)

    async def until_settled(self) -> None:
        for _ in range(10):
            version = self.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]["metadata"][
                "resourceVersion"
            ]
            known = len(self.cluster.objects)
            retry = await self.once()
            now = self.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]["metadata"][
                "resourceVersion"
            ]
            if retry != 0.0 and (version, known) == (
                now,
                len(self.cluster.objects),
            ):
                return
        raise AssertionError("it does not come to rest")

    def end(self, name: str, status: Json | None = None) -> None:
        results = [row().model_dump(mode="json", by_alias=True)]
        body = self.cluster.objects[KIND, NAMESPACE, name]
        self.cluster.change(
            KIND, body, {"status": status or {**ended(), "results": results}}
        )

    def calls(self, *verbs: str) -> list[tuple[str, ...]]:
        return [entry for entry in self.cluster.log if entry[0] in verbs]

    @property
    def status(self) -> Json:
        found: Json = (
            self.cluster.objects[SWEEP_KIND, NAMESPACE, NAME].get("status") or {}
        )
        return found

    def run_names(self) -> Iterator[str]:
        return (name for kind, _, name in self.cluster.objects if kind == KIND)


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_created_run_is_enqueued(scene: Scene) -> None:
    await scene.once()
    assert scene.calls("apply", "status", "event") == [
        ("apply", KIND, FIRST),
        ("status", SWEEP_KIND, NAME),
        ("event", "Running", NAME),
    ]
    assert scene.enqueued == [run_key(NAMESPACE, FIRST)]
    run = scene.indexes.run(run_key(NAMESPACE, FIRST))
    assert run is not None
    assert run.spec["workloads"]
    assert run.sweep_uid == UID


async def test_from_creation_to_the_table(scene: Scene) -> None:
    await scene.until_settled()
    scene.end(FIRST)
    await scene.until_settled()
    scene.end(SECOND, failed())
    await scene.until_settled()
    assert scene.status["phase"] == "Completed"
    assert [(r["variant"], r.get("reason")) for r in scene.status["results"]] == [
        ("base", None),
        ("wide", "OutOfGPUMemory"),
    ]
    assert len(scene.reconcile.memories) == 0


@pytest.mark.parametrize(
    ("trouble", "counted"),
    [
        pytest.param("", 1, id="there"),
        pytest.param("gone", 0, id="gone"),
        pytest.param("away", 0, id="not-to-be-had"),
        pytest.param("other", 0, id="of-another-run"),
    ],
)
async def test_a_run_counts_by_its_document(
    scene: Scene, trouble: str, counted: int
) -> None:
    """The status of the run has no row left."""
    await scene.until_settled()
    run = scene.cluster.objects[KIND, NAMESPACE, FIRST]
    uid = run["metadata"]["uid"]
    document = ResultDocument(
        run=RunIdentity(
            namespace=NAMESPACE, name=FIRST, uid="x" if trouble == "other" else uid
        ),
        spec=BenchmarkRunSpec.model_validate(run["spec"]),
        results=[row()],
    )
    ref, config_map = stored_document(
        document, Owner(namespace=NAMESPACE, name=FIRST, uid=uid)
    )
    name = config_map["metadata"]["name"]
    if trouble != "gone":
        config_map["metadata"]["uid"] = "uid-of-the-document"
        scene.cluster.add("ConfigMap", config_map)
    if trouble == "away":
        scene.cluster.broken_objects[name] = Unavailable("no answer")
    stored = ref.model_dump(by_alias=True)
    scene.end(FIRST, {**ended(), "results": [], "resultDocument": stored})
    await scene.until_settled()
    scene.end(SECOND, failed())
    await scene.until_settled()
    assert scene.status["phase"] == "Completed"
    shown = {each["variant"]: each["runs"] for each in scene.status["results"]}
    assert shown["base"] == counted


async def test_figures_are_read_once_a_run(scene: Scene) -> None:
    await scene.until_settled()
    scene.end(FIRST)
    await scene.once()
    assert scene.calls("get").count(("get", KIND, FIRST)) == 1
    scene.end(SECOND)
    await scene.once()
    assert ("get", KIND, FIRST) not in scene.cluster.log
    assert scene.status["phase"] == "Completed"


async def test_news_of_a_run_that_say_nothing_of_the_sweep_cost_nothing(
    scene: Scene,
) -> None:
    await scene.until_settled()
    run = scene.cluster.objects[KIND, NAMESPACE, FIRST]
    scene.cluster.change(
        KIND, run, {"status": {"phase": "Running", "live": {"running": 3}}}
    )
    assert await scene.once() is None
    assert [entry for entry in scene.cluster.log if entry[0] != "list"] == []


async def test_a_restarted_operator_creates_nothing_twice_and_comes_to_the_same_table(
    scene: Scene,
) -> None:
    undisturbed = Scene()
    for each in (undisturbed, scene):
        await each.until_settled()
        for name in (FIRST, SECOND):
            if each is scene:
                each.restart()
            await each.until_settled()
            each.end(name)
        await each.until_settled()
    assert list(scene.run_names()) == [FIRST, SECOND]
    assert (scene.status, scene.status["phase"]) == (
        undisturbed.status,
        "Completed",
    )


async def test_an_answer_that_was_lost_is_made_good_by_the_run_that_is_found(
    scene: Scene,
) -> None:
    """It was created, and the operator died before it heard of it: the watch has not told the next
    one yet."""
    await scene.reconcile(SWEEP)
    await list_everything(scene.cluster, scene.indexes, ())
    await scene.reconcile(SWEEP)
    scene.indexes.drop(run_key(NAMESPACE, FIRST), f"uid-of-{FIRST}")
    scene.reconcile.memories.drop(SWEEP)
    await scene.reconcile(SWEEP)
    assert list(scene.run_names()) == [FIRST]
    assert scene.indexes.run(run_key(NAMESPACE, FIRST)) is not None


async def test_cancel_is_sent_to_what_runs_and_waited_for() -> None:
    scene = Scene(maxParallel=2)
    await scene.until_settled()
    body = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    scene.cluster.change(SWEEP_KIND, body, {"spec": {"cancel": True}})
    await scene.once()
    assert scene.calls("cancel") == [
        ("cancel", KIND, FIRST),
        ("cancel", KIND, SECOND),
    ]
    assert scene.status["phase"] == "Running"
    await scene.once()
    assert scene.calls("cancel") == []
    for name in (FIRST, SECOND):
        scene.end(name, failed("Cancelled"))
    await scene.until_settled()
    assert scene.status["phase"] == "Cancelled"


async def test_a_run_that_cannot_be_cancelled_keeps_none_of_the_others_from_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(maxParallel=2)
    await scene.until_settled()
    cancel_run = scene.cluster.cancel_run

    async def refused(ref: Ref) -> Json | None:
        if ref.name == FIRST:
            raise Invalid("spec: another rule is broken", code=422)
        return await cancel_run(ref)

    monkeypatch.setattr(scene.cluster, "cancel_run", refused)
    sweep = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    scene.cluster.change(
        SWEEP_KIND, sweep, {"spec": {"cancel": True}, "metadata": {"generation": 2}}
    )
    with pytest.raises(Later):
        await scene.once()
    assert scene.cluster.objects[KIND, NAMESPACE, SECOND]["spec"]["cancel"] is True


async def test_newer_values_do_not_stop_a_cancelled_sweep_from_cancelling_runs(
    scene: Scene,
) -> None:
    await scene.until_settled()
    sweep = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    scene.cluster.change(
        SWEEP_KIND,
        sweep,
        {"spec": {"cancel": True}, "status": {"phase": "Rebalancing"}},
    )
    await scene.once()
    assert scene.cluster.objects[KIND, NAMESPACE, FIRST]["spec"]["cancel"] is True


def foreign(controller: Json | None) -> Json:
    owners = (
        []
        if controller is None
        else [{"apiVersion": API_VERSION, "controller": True, **controller}]
    )
    meta = {
        "name": FIRST,
        "namespace": NAMESPACE,
        "uid": "x",
        "resourceVersion": "7",
        "ownerReferences": owners,
    }
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": meta, "spec": {}}


@pytest.mark.parametrize(
    "controller",
    [None, {"kind": SWEEP_KIND, "name": "other", "uid": "y"}],
    ids=["a user", "a sweep"],
)
async def test_a_run_of_that_name_that_belongs_to_another_is_a_conflict(
    scene: Scene, controller: Json | None
) -> None:
    theirs = scene.cluster.add(KIND, foreign(controller))
    assert await scene.once() == 0.0
    await scene.until_settled()
    assert [
        c["reason"] for c in scene.status["conditions"] if c["type"] == "Failed"
    ] == ["Conflict"]
    assert scene.cluster.objects[KIND, NAMESPACE, FIRST] == theirs


async def test_a_run_of_an_earlier_sweep_of_this_name_is_waited_for(
    scene: Scene,
) -> None:
    scene.cluster.add(
        KIND, foreign({"kind": SWEEP_KIND, "name": NAME, "uid": "of-the-earlier"})
    )
    assert await scene.once() == 0.0
    assert await scene.once() == LEFTOVER_SECONDS
    assert "earlier sweep of this name" in scene.status["message"]
    del scene.cluster.objects[KIND, NAMESPACE, FIRST]
    await scene.until_settled()
    assert (
        scene.status["message"]
        == "0 of 2 runs have ended, seqs-v1-r1 is still running"
    )


async def test_what_is_forbidden_is_reported_and_retried(scene: Scene) -> None:
    scene.cluster.broken["apply"] = Forbidden(
        "exceeded quota: count/benchmarkruns", code=403
    )
    assert await scene.once() == 0.0
    assert await scene.once() == REFUSED_RETRY_SECONDS
    assert [
        c["reason"] for c in scene.status["conditions"] if c["type"] == "Ready"
    ] == ["QuotaExceeded"]
    scene.cluster.broken.clear()
    await scene.once()
    assert list(scene.run_names()) == [FIRST]


async def test_a_reworded_answer_does_not_trigger_a_new_query(scene: Scene) -> None:
    scene.cluster.broken["apply"] = Forbidden("no (request 1)", code=403)
    assert await scene.once() == 0.0
    scene.cluster.broken["apply"] = Forbidden("no (request 2)", code=403)
    assert await scene.once() == REFUSED_RETRY_SECONDS


@pytest.mark.parametrize(
    ("expected", "error"),
    [
        (
            (True, False, False),
            Forbidden("x is forbidden: no such right", code=403),
        ),
        (
            (True, True, False),
            Forbidden("exceeded quota: count/benchmarkruns", code=403),
        ),
        (
            (True, False, True),
            Forbidden('failed calling webhook "w": EOF', code=500),
        ),
        ((True, False, True), Unavailable("down", code=503)),
        (
            (True, False, False),
            Invalid("x is forbidden: a policy denied request: no", code=422),
        ),
        ((False, False, False), Invalid("spec.server.image: too long", code=422)),
    ],
)
async def test_why_a_run_is_not_there(
    scene: Scene, expected: tuple[bool, bool, bool], error: ClusterError
) -> None:
    scene.cluster.broken["apply"] = error
    await scene.once()
    found = scene.reconcile.memories[SWEEP].collected.not_created
    assert found is not None
    assert (found.curable, found.quota, found.retried) == expected
    assert found.since is not None


async def test_an_invalid_spec_ends_the_sweep(scene: Scene) -> None:
    scene.cluster.broken["apply"] = Invalid("spec.server.image: too long", code=422)
    await scene.until_settled()
    assert [
        c["reason"] for c in scene.status["conditions"] if c["type"] == "Failed"
    ] == ["RunInvalid"]
    assert (
        "seqs-v1-r1 is refused by the API server: spec.server.image: too long"
        in scene.status["message"]
    )


async def test_a_run_that_vanished_is_remeasured(scene: Scene) -> None:
    await scene.until_settled()
    scene.end(FIRST)
    del scene.cluster.objects[KIND, NAMESPACE, FIRST]
    await scene.until_settled()
    assert list(scene.run_names()) == [FIRST]
    assert scene.status["runs"]["running"] == 1


async def test_a_conflict_is_reread_and_retried(scene: Scene) -> None:
    scene.cluster.broken["status"] = Conflict("modified", code=409)
    with pytest.raises(Later):
        await scene.once()
    assert ("get", SWEEP_KIND, NAME) in scene.cluster.log


async def test_what_came_to_be_during_a_pass_is_never_overwritten(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    apply = scene.cluster.apply

    async def meanwhile(manifest: Json) -> Json:
        body = scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
        over = {"phase": "Completed", "message": "another operator's"}
        body = scene.cluster.change(SWEEP_KIND, body, {"status": over})
        scene.indexes.heard(SWEEP_KIND, body, deleted=False)
        return await apply(manifest)

    monkeypatch.setattr(scene.cluster, "apply", meanwhile)
    with pytest.raises(Later):
        await scene.once()
    assert scene.status == {"phase": "Completed", "message": "another operator's"}


async def test_nothing_is_lost_when_the_api_server_is_away(scene: Scene) -> None:
    scene.cluster.broken["apply"] = Unavailable("down", code=503)
    assert [await scene.once(), await scene.once()] == [0.0, REFUSED_RETRY_SECONDS]
    assert "down" in scene.status["message"]
    scene.cluster.broken.clear()
    await scene.until_settled()
    assert list(scene.run_names()) == [FIRST]


@pytest.mark.parametrize(
    ("finalizers", "cancelled"),
    [(["a/b"], [FIRST, SECOND]), (["a/b", "orphan"], []), (None, [FIRST, SECOND])],
)
async def test_runs_of_a_sweep_that_a_finalizer_keeps_are_cancelled_unless_they_are_to_stay(
    finalizers: list[str] | None, cancelled: list[str]
) -> None:
    scene = Scene(maxParallel=2)
    await scene.until_settled()
    meta = {"deletionTimestamp": "2026-11-21T12:00:00Z", "finalizers": finalizers}
    scene.cluster.change(
        SWEEP_KIND,
        scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME],
        {"metadata": meta},
    )
    assert [await scene.once(), len(scene.reconcile.memories)] == [None, 0]
    assert [name for _, _, name in scene.calls("cancel")] == cancelled
    assert scene.calls("apply", "status") == []
    assert [await scene.once(), scene.calls("cancel") if cancelled else []] == [
        None,
        [],
    ]


async def test_a_sweep_that_is_gone_while_it_is_deleted_is_forgotten(
    scene: Scene,
) -> None:
    await scene.until_settled()
    scene.indexes.mark_deleting(SWEEP_KIND, NAMESPACE, NAME, UID)
    del scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    assert await scene.reconcile(SWEEP) is None


async def test_a_sweep_that_is_gone_is_forgotten(scene: Scene) -> None:
    await scene.until_settled()
    del scene.cluster.objects[SWEEP_KIND, NAMESPACE, NAME]
    assert await scene.once() is None
    assert len(scene.reconcile.memories) == 0


def test_a_sweeps_key_is_never_that_of_a_run() -> None:
    keys: set[Key] = {sweep_key("a", "b"), run_key("a", "b")}
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("controller", "sweep"),
    [
        pytest.param({}, SWEEP, id="of the sweep that gives such names"),
        pytest.param(None, None, id="of nobody"),
        pytest.param(
            {"name": "other"}, None, id="of a sweep that gives other names"
        ),
        pytest.param({"kind": KIND}, None, id="of another kind"),
        pytest.param(
            {"apiVersion": "evil.dev/v1"}, None, id="of another API group"
        ),
        pytest.param({"uid": ""}, None, id="of no uid"),
    ],
)
def test_a_run_tells_its_sweep_by_its_controller_and_its_name(
    controller: Json | None, sweep: Key | None
) -> None:
    body = swept_body(FIRST, sweep=NAME, sweep_uid=UID)
    references = body["metadata"]["ownerReferences"]
    references[:] = [] if controller is None else [references[0] | controller]
    assert sweep_of_run(body) == sweep


async def made(scene: Scene) -> None:
    """The table that is being made is there."""
    making = scene.reconcile.memories.of(SWEEP, UID).making
    assert making is not None
    scene.enqueued.clear()
    scene.judge.may_answer.set()
    await making
    assert scene.enqueued == [SWEEP]


async def test_a_pass_does_not_wait_for_its_table(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchrun.runtime.sweep_reconciler.TABLE_SECONDS", 0.0)
    await scene.until_settled()
    scene.end(FIRST)
    scene.judge.may_answer.clear()
    await scene.until_settled()
    assert list(scene.run_names()) == [FIRST, SECOND]
    assert scene.status.get("results", []) == []
    await made(scene)
    await scene.until_settled()
    assert [row["runs"] for row in scene.status["results"]] == [1, 0]


async def test_the_end_waits_for_its_table(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchrun.runtime.sweep_reconciler.TABLE_SECONDS", 0.0)
    scene.judge.may_answer.clear()
    for name in (FIRST, SECOND):
        await scene.until_settled()
        scene.end(name)
    await scene.until_settled()
    assert scene.status["phase"] == "Running"
    await made(scene)  # of the first run alone
    scene.judge.may_answer.clear()
    await scene.until_settled()
    assert scene.status["phase"] == "Running"
    await made(scene)
    await scene.until_settled()
    assert scene.status["phase"] == "Completed"
    assert [row["runs"] for row in scene.status["results"]] == [1, 1]


async def test_a_run_that_ends_while_a_table_is_made_gets_one_too(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchrun.runtime.sweep_reconciler.TABLE_SECONDS", 0.0)
    await scene.until_settled()
    scene.end(FIRST)
    scene.judge.may_answer.clear()
    await scene.until_settled()
    scene.end(SECOND)
    await scene.once()  # its end is in the status
    monkeypatch.setattr("benchrun.runtime.sweep_reconciler.TABLE_SECONDS", 60.0)
    second = asyncio.create_task(scene.once())
    for _ in range(
        100
    ):  # it waits for the first table, and will not wait for another
        await asyncio.sleep(0)
    assert not second.done()
    scene.judge.may_answer.set()
    await second
    assert scene.enqueued[-1] == SWEEP
    await scene.until_settled()
    assert scene.status["phase"] == "Completed"


async def test_a_sweep_whose_table_cannot_be_made_ends_and_says_so(
    scene: Scene,
) -> None:
    scene.judge.problem = "killed by SIGXCPU"
    for name in (FIRST, SECOND):
        await scene.until_settled()
        scene.end(name)
    await scene.until_settled()
    assert [
        c["reason"] for c in scene.status["conditions"] if c["type"] == "Complete"
    ] == ["NotJudged"]
    assert "SIGXCPU" in scene.status["message"]


async def test_the_table_of_a_sweep_that_is_gone_is_not_made(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await scene.until_settled()
    scene.end(FIRST)
    scene.judge.may_answer.clear()
    monkeypatch.setattr("benchrun.runtime.sweep_reconciler.TABLE_SECONDS", 0.0)
    await scene.once()
    making = scene.reconcile.memories.of(SWEEP, UID).making
    assert making is not None
    scene.reconcile.memories.drop(SWEEP)
    await asyncio.wait({making})
    assert making.cancelled()


async def test_a_sweep_that_memory_has_no_room_for_is_read_in_every_pass(
    scene: Scene,
) -> None:
    scene.indexes = scene.reconcile.indexes = Indexes(declared_bytes=10)
    await scene.once()
    assert ("get", SWEEP_KIND, NAME) in scene.cluster.log
    assert list(scene.run_names()) == [FIRST]
    scene.end(FIRST)
    await scene.once()
    await scene.once()
    assert len(list(scene.run_names())) == 2, (
        "its runs have no room either; their ends are known"
    )
    assert scene.status["phase"] == "Running"


async def test_few_tables_are_made_at_a_time_and_namespaces_take_turns(
    scene: Scene,
) -> None:
    """Each holds its sweep's spec, as long as it waits for the judge."""
    scene.judge.may_answer.clear()
    asked: list[str] = []
    answering = scene.judge.judge

    async def judge(job: Any, parts: Any, answer: Any) -> Any:
        asked.append(job.namespace)
        return await answering(job, parts, answer)

    scene.judge.judge = judge  # type: ignore[method-assign]
    wanted = TableWanted("base", (), ())
    tables = [
        asyncio.create_task(
            scene.reconcile._table(
                sweep_key(namespace, str(number)),
                packed(sweep_body()),
                wanted,
                SweepMemory("u"),
            )
        )
        for number, namespace in enumerate("aaaaaaaab")
    ]
    for _ in range(20):
        await asyncio.sleep(0)
    assert sorted(asked) == ["a"] * (TABLES - 1) + ["b"]
    scene.judge.may_answer.set()
    await asyncio.gather(*tables)
    assert sorted(asked) == sorted("aaaaaaaab")
