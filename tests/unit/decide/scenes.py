"""A run in its cluster, put together sentence by sentence: `Scene().client_ready().server_healthy().arrived(0)`.

Every method returns a new scene. Instants are seconds after `T0`; a scene's own is that of the pass that will look at it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any

from benchrun.api import names
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.api.status import BenchmarkRunStatus
from benchrun.decide.decision import Collected, Context, Decision, World
from benchrun.decide.reconcile import decide
from benchrun.measure.samples import Sample
from benchrun.observe.views import Child, Children, Pod, Run, Termination
from benchrun.plan.client_plan import client_plan
from benchrun.plan.stages import stages
from benchrun_client.contract import Failure, Progress, StageRecord
from unit.decide.deliveries import arrival, record
from unit.plan.specs import OWNER, Json, endpoint_body, rates, spec_body, workload

T0 = datetime(2026, 1, 1, tzinfo=UTC)
CLIENT_CREATED, CLIENT_READY = 1, 10
SERVER_CREATED, SCHEDULED, HEALTHY, FIRST_REQUEST = 11, 20, 60, 70
CONTEXT = Context(client_image="client:1")
TWO_STAGES = spec_body(workloads=[workload("chat", load=rates("1", "4"))])
SERVICE_ENDPOINT = endpoint_body({"serviceRef": {"name": "prod"}}, workloads=[workload("chat", load=rates("1", "4"))])
URL_ENDPOINT = endpoint_body({"url": "http://llm.example"}, workloads=[workload("chat", load=rates("1", "4"))])
OFFLINE = spec_body(
    server=None,
    offline={"image": "vllm/vllm-openai:v0.32.0", "resources": {"limits": {"nvidia.com/gpu": 1}}},
    workloads=[workload("chat", load={"batchSizes": [1, 4]})],
)

REFUSED = {"fieldOfAnOlderOperator": 1}
"""Makes any spec one that is refused."""

PLAN, JOB, SERVICE, DEPLOYMENT = (
    ("ConfigMap", "plan"),
    ("Job", "client"),
    ("Service", "server"),
    ("Deployment", "server"),
)
GROUPS = ("LeaderWorkerSet", "server")
"""In place of the Deployment, where servers are more than one pod."""


def instant(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def text(seconds: float) -> str:
    """As the status writes it."""
    return instant(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_us(seconds: float) -> int:
    return int(instant(seconds).timestamp() * 1e6)


@dataclass(frozen=True)
class Scene:
    """What a pass will see."""

    spec: Json = field(default_factory=lambda: TWO_STAGES)
    status: Json = field(default_factory=dict)
    objects: tuple[Child, ...] = ()
    pods: tuple[Pod, ...] = ()
    collected: Collected = field(default_factory=lambda: Collected(log_searched=True, read_back=True))
    seconds: float = 0
    context: Context = CONTEXT
    generation: int = 1

    # ---- looking ---------------------------------------------------------------------------------------------------

    def world(self) -> World:
        run = Run(
            OWNER.namespace,
            OWNER.name,
            OWNER.uid,
            generation=self.generation,
            spec=dict(self.spec),
            status=dict(self.status),
        )
        children = Children(objects=self.objects, pods=self.pods)
        return World(
            run=run, children=children, collected=self.collected, now=instant(self.seconds), context=self.context
        )

    def decide(self) -> Decision:
        return decide(self.world())

    def settled(self) -> Scene:
        """After a pass has written its status; what it asked for was not carried out."""
        return self.with_status(self.decide().status)

    # ---- the run ---------------------------------------------------------------------------------------------------

    def with_spec(self, **changes: Any) -> Scene:
        """Top-level fields replaced."""
        return replace(self, spec={**self.spec, **changes})

    def with_status(self, status: BenchmarkRunStatus) -> Scene:
        return replace(self, status=status.model_dump(mode="json", by_alias=True, exclude_none=True))

    def at(self, seconds: float) -> Scene:
        return replace(self, seconds=seconds)

    def operator_restarted(self) -> Scene:
        """What was in memory is lost."""
        return replace(self, collected=Collected())

    # ---- children --------------------------------------------------------------------------------------------------

    def having(self, *identities: tuple[str, str], **changes: Any) -> Scene:
        """Objects by kind and role."""
        return replace(self, objects=(*self.objects, *(_child(kind, role, **changes) for kind, role in identities)))

    def without(self, kind: str, role: str) -> Scene:
        """The object is gone, and its pods with it."""
        objects = tuple(c for c in self.objects if (c.kind, c.role) != (kind, role))
        takes_pods = kind in ("Deployment", "LeaderWorkerSet", "Job")
        return replace(self, objects=objects, pods=tuple(p for p in self.pods if not (takes_pods and p.role == role)))

    def another_server(self, name: str, **changes: Any) -> Scene:
        """One more pod of the server role, like the one there is."""
        like = next(p for p in self.pods if p.role == names.ROLE_SERVER)
        return replace(self, pods=(*self.pods, replace(like, name=name, uid=f"{name}-uid", **changes)))

    def pod(self, role: str, **changes: Any) -> Scene:
        """The pod of that role, made or changed."""
        old = next((p for p in self.pods if p.role == role), None) or _pod(role)
        others = tuple(p for p in self.pods if p.role != role)
        return replace(self, pods=(*others, replace(old, **changes)))

    # ---- the way through a run -------------------------------------------------------------------------------------

    def client_created(self) -> Scene:
        """Plan, Job and Service are there, and the client's pod runs."""
        service = (SERVICE,) if self._starts else ()
        scene = self.having(PLAN, *service, JOB).pod(names.ROLE_CLIENT)
        addresses = ("10.0.0.7:8000",) if self.spec.get("endpoint", {}).get("serviceRef") else None
        return scene.knowing(endpoint_addresses=addresses).at(max(self.seconds, CLIENT_CREATED))

    def client_ready(self) -> Scene:
        """The client has found all it needs, and said so."""
        scene = self if self._has(*JOB) else self.client_created()
        return (
            scene.pod(names.ROLE_CLIENT, ready=True).says(phase="Waiting").at(max(self.seconds, CLIENT_READY)).settled()
        )

    def server_pending(self) -> Scene:
        """The Deployment (or LeaderWorkerSet) is there; its pod has no node."""
        workload = GROUPS if self.spec.get("server", {}).get("nodesPerReplica", 1) > 1 else DEPLOYMENT
        return self.client_ready().having(workload).pod(names.ROLE_SERVER).at(SERVER_CREATED).settled()

    def server_loading(self) -> Scene:
        """The server's pod runs and loads its weights."""
        started = {"node": "n1", "ip": "10.0.0.9", "phase": "Running"}
        times = {"scheduled_at": instant(SCHEDULED), "started_at": instant(SCHEDULED)}
        return self.server_pending().pod(names.ROLE_SERVER, **started, **times).at(SCHEDULED).settled()

    def server_healthy(self) -> Scene:
        """The client has had a healthy answer and warms up."""
        scene = self.server_loading().pod(names.ROLE_SERVER, ready=True) if self._starts else self.client_ready()
        return scene.says(phase="WarmingUp", healthy_unix_us=unix_us(HEALTHY)).at(HEALTHY).settled()

    def measuring(self) -> Scene:
        """The first stage is being measured."""
        return (
            self.server_healthy()
            .says(phase="Measuring", **_MEASURING, stage="chat/rate=1/r1")
            .at(FIRST_REQUEST)
            .settled()
        )

    def arrived(self, *sequences: int, **changes: Any) -> Scene:
        """Records have come; they are in no ConfigMap yet."""
        new = tuple(
            arrival(s, _stage_id(self._accepted(), s), plan_digest(self._accepted()), **changes) for s in sequences
        )
        known = {a.sequence: a.record for a in new} | {r.sequence: r for r in self.collected.records}
        return self.knowing(arrivals=(*self.collected.arrivals, *new), records=_by_sequence(known))

    def stored(self, *sequences: int, loaded: bool = True) -> Scene:
        """Records are in ConfigMaps; `loaded`: and in memory, else they are still to be read back."""
        maps = tuple(_stage_map(s) for s in sequences)
        left = tuple(a for a in self.collected.arrivals if a.sequence not in sequences)
        known = {r.sequence: r for r in self.collected.records}
        if loaded:
            known |= {
                s: record(s, _stage_id(self._accepted(), s), plan_digest(self._accepted()))
                for s in sequences
                if s not in known
            }
        scene = replace(self, objects=(*self.objects, *maps))
        at_hand = self.collected.read_back and loaded
        return scene.knowing(arrivals=left, records=_by_sequence(known), read_back=at_hand)

    # ---- what was heard --------------------------------------------------------------------------------------------

    def knowing(self, **changes: Any) -> Scene:
        """Fields of what was collected, replaced."""
        return replace(self, collected=replace(self.collected, **changes))

    def says(self, **changes: Any) -> Scene:
        """The client's latest word; what it said before still holds."""
        old = self.collected.progress or Progress(version=0, phase="Preparing")
        return self.knowing(progress=old.model_copy(update={**changes, "version": old.version + 1}))

    def fails(self, reason: str, message: str) -> Scene:
        """The client says that it can't measure."""
        return self.says(phase="Failed", failure=Failure(reason=reason, message=message))

    def sampled(self, *seconds: float) -> Scene:
        """The server's page was read at these instants, and nothing of it is stored yet."""
        read = tuple(Sample(at=instant(s).timestamp(), role="server", pod="server-1", running=4.0) for s in seconds)
        return self.knowing(
            samples=(*self.collected.samples, *read), unstored_samples=(*self.collected.unstored_samples, *read)
        )

    @property
    def _starts(self) -> bool:
        """Whether the run has a server of its own."""
        return "server" in self.spec or "offline" in self.spec

    def _has(self, kind: str, role: str) -> bool:
        return any((c.kind, c.role) == (kind, role) for c in self.objects)

    def _accepted(self) -> str:
        """The spec by which records were taken, as JSON: refused it was later."""
        accepted = {name: value for name, value in self.spec.items() if name not in REFUSED}
        return BenchmarkRunSpec.model_validate(accepted).model_dump_json(by_alias=True)


_MEASURING = {"first_request_unix_us": unix_us(FIRST_REQUEST)}

SERVER_DIED = Termination(exit_code=2, reason="Error", message="vllm: error: unrecognized arguments: --nonsense")


@lru_cache(maxsize=64)
def plan_digest(spec_json: str) -> str:
    return client_plan(OWNER, BenchmarkRunSpec.model_validate_json(spec_json)).digest()


@lru_cache(maxsize=256)
def _stage_id(spec_json: str, sequence: int) -> str:
    return stages(BenchmarkRunSpec.model_validate_json(spec_json), run_uid=OWNER.uid)[sequence].id


def _by_sequence(known: dict[int, StageRecord]) -> tuple[StageRecord, ...]:
    return tuple(known[s] for s in sorted(known))


def _child(kind: str, role: str, **changes: Any) -> Child:
    planned = names.plan_name(OWNER.name, OWNER.uid)
    name = planned if role == names.ROLE_PLAN else names.child_name(OWNER.name, role)
    name = names.group_name(OWNER.name, OWNER.uid) if kind == "LeaderWorkerSet" else name
    child = Child(kind, name, f"{kind}-uid", role, owner_uid=OWNER.uid, deleting=False, applied_hash="applied")
    return replace(child, **changes)


def _stage_map(sequence: int) -> Child:
    name = names.stage_name(OWNER.name, sequence)
    return replace(_child("ConfigMap", names.ROLE_STAGE), name=name, uid=f"stage-{sequence}", sequence=sequence)


def _pod(role: str) -> Pod:
    created = CLIENT_CREATED if role == names.ROLE_CLIENT else SERVER_CREATED
    running = role == names.ROLE_CLIENT
    return Pod(
        name=f"{role}-1",
        uid=f"{role}-1-uid",
        role=role,
        run_uid=OWNER.uid,
        ip="10.0.0.5" if running else None,
        phase="Running" if running else "Pending",
        ready=False,
        deleting=False,
        node="n0" if running else None,
        scheduled_at=instant(created) if running else None,
        created_at=instant(created),
    )
