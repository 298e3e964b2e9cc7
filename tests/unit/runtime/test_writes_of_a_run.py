"""How often a run is written to the API server from its beginning to its end: every object, every
status, every event. Time jumps; decisions are real, what controllers, kubelets and pods do is
played."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from benchrun import names
from benchrun.api import Judgement
from benchrun.decide import Context, Event, Ref, decide
from benchrun.effects import LookUps, Tools
from benchrun.measure.metrics_page import Sample
from benchrun.names import KIND
from benchrun.observe import Declared, Key
from benchrun.runtime.indexes import Indexes
from benchrun.runtime.run_reconciler import RunReconciler
from benchrun.runtime.telemetry import Telemetry
from benchrun_client.contract import ClientProgress
from scale_kit.manifests import STAGES, run
from unit.decide.scenes import T0
from unit.runtime.bodies import KEY, NAMESPACE, UID, child_body, owner
from unit.runtime.fast_time import in_fast_time, now, passing
from unit.runtime.judges import Judge
from unit.runtime.memory_cluster import MemoryCluster, list_everything, status_of
from unit.runtime.scene import Background, arrival

Json = dict[str, Any]
MOST_WRITES = 24
"""The limit of `make bench-runs` and `make bench-scale`."""
CLIENT_POD = "client-pod"
SERVER_POD = "server-pod"
STEP_SECONDS = 7
"""Between things that happen: no two of them are one write."""

WAITING_SECONDS = 60
"""For a GPU."""


class Written(MemoryCluster):
    """Keeps what was written. Of a status `live` alone does not count, as in the benchmarks."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[str] = []

    async def apply(self, manifest: Json) -> Json:
        self.written.append(f"{manifest['kind']} {manifest['metadata']['name']}")
        return await super().apply(manifest)

    async def delete(self, ref: Ref) -> None:
        self.written.append(f"delete {ref.kind}")
        await super().delete(ref)

    async def patch_status(
        self, declared: Declared, *, resource_version: str, changes: Json
    ) -> Json:
        if changes.keys() != {"live"}:
            self.written.append(
                f"status {changes.get('phase', '')} {sorted(changes)}"
            )
        return await super().patch_status(
            declared, resource_version=resource_version, changes=changes
        )

    async def create_event(
        self, about: Declared, event: Event, *, now: datetime
    ) -> None:
        self.written.append(f"event {event.reason}")
        await super().create_event(about, event, now=now)


class SlowJudge(Judge):
    """Has a queue: others are judged first."""

    def __init__(self, seconds: float) -> None:
        super().__init__(Judgement(measured_anything=True, verdict="Valid"))
        self._seconds = seconds

    async def judge(self, *given: Any) -> Any:
        await passing(self._seconds)
        return await super().judge(*given)


@dataclass
class Play:
    """One run, its operator, and what happens to it."""

    judge_seconds: float
    cluster: Written = field(default_factory=Written)
    indexes: Indexes = field(default_factory=Indexes)
    news: list[Key] = field(default_factory=list)

    def __post_init__(self) -> None:
        body = run("chat", NAMESPACE)
        body["metadata"] |= {"uid": UID, "resourceVersion": "100", "generation": 1}
        self.cluster.add(KIND, body)
        tools = Tools(self.cluster, SlowJudge(self.judge_seconds))
        self.reconciler = RunReconciler(
            cluster=self.cluster,
            indexes=self.indexes,
            sessions=Background([]),
            lookups=LookUps(tools, news=self.news.append),
            now=self.time,
            context=Context(client_image="client:1", channel_key=b"key"),
            decide=decide,
            telemetry=Telemetry(),
        )
        self.due: float | None = 0.0

    def time(self) -> datetime:
        return T0 + timedelta(seconds=now())

    async def goes_on(self, seconds: int) -> None:
        """The cluster's watches tell what happened, and passes are made when they are due."""
        for _ in range(seconds):
            await list_everything(self.cluster, self.indexes, ())
            self.due = await self.reconciler(KEY)
            while self.news or self.due == 0:
                self.news.clear()
                self.due = await self.reconciler(KEY)
            await passing(1)

    def hears(self, **changes: Any) -> None:
        client = self.reconciler.memories.of(KEY, UID).collected.client
        before = client.progress or ClientProgress(version=0, phase="Preparing")
        update = {**changes, "version": before.version + 1}
        client.progress = before.model_copy(update=update)

    def measures(self, sequence: int) -> None:
        """A record has come, and pages are read."""
        collected = self.reconciler.memories.of(KEY, UID).collected
        collected.arrivals[sequence] = arrival(sequence)
        collected.sequences.add(sequence)

    def reads(self, running: float) -> None:
        collected = self.reconciler.memories.of(KEY, UID).collected
        at = self.time().timestamp()
        collected.samples.add(
            Sample(at=at, role="server", pod=SERVER_POD, running=running)
        )

    def pod(
        self, role: str, name: str, container: str, *, ready: bool | None
    ) -> None:
        """As kubelet and scheduler write it; `ready` None: no node has taken it."""
        made_by = names.child_name("chat", UID, role)
        body = child_body(
            name, uid=f"{name}-uid", version=self.version(), role=role
        )
        kind, made_by = (
            ("Job", made_by)
            if role == "client"
            else ("ReplicaSet", f"{made_by}-5d4f8")
        )
        body["metadata"]["ownerReferences"] = [
            {**owner(), "kind": kind, "name": made_by}
        ]
        body["metadata"]["creationTimestamp"] = self.text()
        body["spec"] = {
            "containers": [{"name": container, "image": f"{container}:1"}]
        }
        body["status"] = (
            {"phase": "Pending"}
            if ready is None
            else self.running(container, ready)
        )
        self.cluster.add("Pod", body)

    def client_ends(self) -> None:
        """All its records are stored."""
        pod = self.cluster.objects["Pod", NAMESPACE, CLIENT_POD]
        ended = self.cluster.change("Pod", pod, {"status": {"phase": "Succeeded"}})
        ended["metadata"]["resourceVersion"] = str(self.version())

    def running(self, container: str, ready: bool) -> Json:
        state = {"running": {"startedAt": self.text()}}
        shown = {
            "name": container,
            "image": f"{container}:1",
            "imageID": "i@sha256:0",
        }
        conditions = [
            {
                "type": "PodScheduled",
                "status": "True",
                "lastTransitionTime": self.text(),
            },
            {
                "type": "Ready",
                "status": str(ready),
                "lastTransitionTime": self.text(),
            },
        ]
        container_status = {
            **shown,
            "ready": ready,
            "restartCount": 0,
            "state": state,
        }
        return {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "startTime": self.text(),
            "conditions": conditions,
            "containerStatuses": [container_status],
        }

    def text(self) -> str:
        return self.time().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def version(self) -> int:
        return 10_000 + round(now())

    def unix_us(self) -> int:
        return int(self.time().timestamp() * 1e6)


async def played(judge_seconds: float) -> Play:
    """A run from its beginning to its end."""
    play = Play(judge_seconds)
    await play.goes_on(STEP_SECONDS)
    for ready in (None, False, True):
        play.pod(names.ROLE_CLIENT, CLIENT_POD, names.CLIENT_CONTAINER, ready=ready)
        play.hears(phase="Waiting" if ready else "Preparing")
        await play.goes_on(STEP_SECONDS)
    for ready in (None, False, True):
        play.pod(names.ROLE_SERVER, SERVER_POD, "server", ready=ready)
        await play.goes_on(WAITING_SECONDS if ready is None else STEP_SECONDS)
    play.hears(phase="WarmingUp", healthy_unix_us=play.unix_us())
    await play.goes_on(STEP_SECONDS)
    play.hears(phase="Measuring", first_request_unix_us=play.unix_us(), stage="one")
    for sequence in range(STAGES):
        for second in range(30):
            play.reads(float(second))
            await play.goes_on(1)
        play.measures(sequence)
    await play.goes_on(STEP_SECONDS)
    play.cluster.objects.pop(("Pod", NAMESPACE, SERVER_POD))
    play.client_ends()
    await play.goes_on(200)
    return play


@pytest.mark.parametrize(
    ("judge_seconds", "most"),
    [
        pytest.param(0.2, MOST_WRITES, id="judged at once"),
        pytest.param(3.0, MOST_WRITES, id="judged soon"),
        # that it is measured and not judged yet is said then
        pytest.param(100.0, MOST_WRITES + 1, id="judged late"),
    ],
)
@in_fast_time
async def test_a_run_is_written_a_few_times(
    judge_seconds: float, most: int
) -> None:
    play = await played(judge_seconds)
    assert status_of(play.cluster)["phase"] == "Completed"
    assert len(play.cluster.written) == most, play.cluster.written
