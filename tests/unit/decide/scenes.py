"""A run in its cluster, put together step by step.

For example: `Scene().client_ready().server_healthy().arrived(0)`. Every method returns a new scene.
Instants are seconds after `T0`; a scene's own is that of the next reconcile.
"""

import json
import pickle
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Self

from benchrun import names
from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus, RunIdentity
from benchrun.decide import (
    Answer,
    Answers,
    Collected,
    Compilations,
    Context,
    Decision,
    EndpointPods,
    Evaluation,
    Facts,
    Judging,
    LogTail,
    Query,
    decide,
)
from benchrun.judge.document_size import packed_document
from benchrun.judge.judged_run import Surroundings, judged_run
from benchrun.measure.metrics_page import Sample
from benchrun.observe import Child, Children, Pod, Run, Termination
from benchrun.plan import PackedResult, plan_of_client, planned_stages
from benchrun_client.contract import ClientProgress, Failure, Sealed, StageRecord
from unit.decide.deliveries import plain, record, sealed
from unit.plan.specs import OWNER, Json, endpoint_body, rates, spec_body, workload

T0 = datetime(2026, 1, 1, tzinfo=UTC)
CLIENT_CREATED = 1
CLIENT_READY = 10
SERVER_CREATED = 11
SCHEDULED = 20
HEALTHY = 60
FIRST_REQUEST = 70
CONTEXT = Context(client_image="client:1", channel_key=b"key of this operator")
PLAN_DIGEST = "c" * 64
TWO_STAGES = spec_body(workloads=[workload("chat", load=rates("1", "4"))])
SERVICE_ENDPOINT = endpoint_body(
    {"serviceRef": {"name": "prod"}},
    workloads=[workload("chat", load=rates("1", "4"))],
)
GATEWAY_ENDPOINT = endpoint_body(
    {
        "url": "https://gateway.example",
        "metrics": {"pods": {"labels": {"b": "2", "a": "1"}, "port": 8001}},
    },
    workloads=[workload("chat", load=rates("1", "4"))],
)
URL_ENDPOINT = endpoint_body(
    {"url": "http://llm.example"},
    workloads=[workload("chat", load=rates("1", "4"))],
)
OFFLINE = spec_body(
    server=None,
    offline={
        "image": "vllm/vllm-openai:v0.32.0",
        "resources": {"limits": {"nvidia.com/gpu": 1}},
    },
    workloads=[workload("chat", load={"batchSizes": [1, 4]})],
)

REFUSED = {"repeats": 0}  # makes any spec one that is refused
NEWER = {"fieldOfANewerOperator": 1}  # makes any spec one of another version

PLAN = ("ConfigMap", "plan")
JOB = ("Job", "client")
SERVICE = ("Service", "server")
DEPLOYMENT = ("Deployment", "server")
# in place of the Deployment, where servers are more than one pod
GROUPS = (
    "LeaderWorkerSet",
    "server",
)


def instant(seconds: float) -> datetime:
    return T0 + timedelta(seconds=seconds)


def text(seconds: float) -> str:
    """Return the instant so many seconds after `T0`, in the status's form."""
    return instant(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_us(seconds: float) -> int:
    return int(instant(seconds).timestamp() * 1e6)


@dataclass(frozen=True)
class Scene:
    """The observed state that the next reconcile will see."""

    spec: Json = field(default_factory=lambda: TWO_STAGES)
    status: Json = field(default_factory=dict)
    objects: tuple[Child, ...] = ()
    pods: tuple[Pod, ...] = ()
    collected: Collected = field(default_factory=Collected)
    measured: Mapping[int, StageRecord] = field(default_factory=dict)
    """What the records hold that have come: for the judge alone."""
    seconds: float = 0
    context: Context = CONTEXT
    generation: int = 1
    labels: tuple[tuple[str, str], ...] = ()

    # ---- looking
    # ---------------------------------------------------------------------------------------------------

    def facts(self) -> Facts:
        run = Run(
            OWNER.namespace,
            OWNER.name,
            OWNER.uid,
            generation=self.generation,
            spec=dict(self.spec),
            status=dict(self.status),
            labels=self.labels,
        )
        children = Children(objects=self.objects, pods=self.pods)
        return Facts(
            run=run,
            children=children,
            collected=self.collected,
            now=instant(self.seconds),
            context=self.context,
        )

    def decide(self) -> Decision:
        return decide(self.facts())

    def settled(self) -> Self:
        """Return the scene with the decided status written.

        Nothing else of the decision is carried out.
        """
        state = pickle.dumps(self.facts())
        if state not in _SETTLED:
            _SETTLED[state] = _written(self.decide().status)
        return replace(self, status=json.loads(_SETTLED[state]))

    def ended(self, baseline: Run | None = None) -> Decision:
        """Decide once all queries are answered that the end of a run waits for.

        No log can be read, and the judge has judged.
        """
        return self.answered(baseline).decide()

    def answered_but_judged(self) -> Decision:
        """Decide once the queries of logs are answered, as unreadable, but the judge's is not."""
        wanted = (q for q in self.decide().lookups if isinstance(q, Compilations))
        return self.with_answers({query: Answer(None) for query in wanted}).decide()

    def answered(self, baseline: Run | None = None) -> Self:
        """Return the scene with all queries answered that the end of a run waits for."""
        decision = self.decide()
        queries = [
            q
            for q in (decision.last_words, *decision.lookups)
            if isinstance(q, LogTail | Compilations | Judging)
        ]
        unanswered = [
            query for query in queries if query not in self.collected.answers
        ]
        if not unanswered:
            return self
        answers: dict[Query[Any], Answer[Any]] = {
            q: Answer(
                self.judgement(q, baseline) if isinstance(q, Judging) else None
            )
            for q in unanswered
        }
        return self.with_answers(answers).answered(baseline)

    def judgement(self, query: Judging, baseline: Run | None = None) -> Evaluation:
        """Judge the run as the judge's process does."""
        spec = BenchmarkRunSpec.model_validate_json(self._accepted())
        stored = {c.sequence for c in self.objects if c.role == names.ROLE_STAGE}
        known = sorted(
            s for s in self.measured if s in stored | self.collected.sequences
        )
        identity = RunIdentity(
            namespace=OWNER.namespace, name=OWNER.name, uid=OWNER.uid
        )
        judgement, document = judged_run(
            Surroundings(
                identity=identity,
                servers=query.servers,
                client=query.client,
                instants=query.instants,
                baseline=baseline,
                ending=query.ending,
                unstored=query.unstored,
            ),
            spec,
            [self.measured[s] for s in known],
            self.collected.samples.unstored,
        )
        return Evaluation(
            judgement, PackedResult.of(packed_document(document).data)
        )

    # ---- the run
    # ---------------------------------------------------------------------------------------------------

    def with_spec(self, **changes: Any) -> Self:
        return replace(self, spec={**self.spec, **changes})

    def with_status(self, status: BenchmarkRunStatus) -> Self:
        return replace(self, status=json.loads(_written(status)))

    def at(self, seconds: float) -> Self:
        return replace(self, seconds=seconds)

    def operator_restarted(self) -> Self:
        """Return the scene after a restart of the operator, which loses its memory."""
        return replace(self, collected=Collected())

    # ---- children
    # --------------------------------------------------------------------------------------------------

    def having(self, *identities: tuple[str, str], **changes: Any) -> Self:
        """Return the scene with more objects, by kind and role."""
        return replace(
            self,
            objects=(
                *self.objects,
                *(_child(kind, role, **changes) for kind, role in identities),
            ),
        )

    def without(self, kind: str, role: str) -> Self:
        """Return the scene without an object and its pods."""
        objects = tuple(c for c in self.objects if (c.kind, c.role) != (kind, role))
        takes_pods = kind in ("Deployment", "LeaderWorkerSet", "Job")
        return replace(
            self,
            objects=objects,
            pods=tuple(p for p in self.pods if not (takes_pods and p.role == role)),
        )

    def another_server(self, name: str, **changes: Any) -> Self:
        """Return the scene with one more pod of the server role, like the existing one."""
        like = next(p for p in self.pods if p.role == names.ROLE_SERVER)
        return replace(
            self,
            pods=(
                *self.pods,
                replace(like, name=name, uid=f"{name}-uid", **changes),
            ),
        )

    def pod(self, role: str, **changes: Any) -> Self:
        """Return the scene with the pod of that role created or changed."""
        old = next((p for p in self.pods if p.role == role), None) or _pod(role)
        others = tuple(p for p in self.pods if p.role != role)
        return replace(self, pods=(*others, replace(old, **changes)))

    # ---- the way through a run
    # -------------------------------------------------------------------------------------

    def client_created(self) -> Self:
        """Return the scene with plan, Job and Service created and the client's pod running."""
        service = (SERVICE,) if self._starts else ()
        scene = self.having(PLAN, *service, JOB).pod(names.ROLE_CLIENT)
        found = (
            scene.endpoint_found("10.0.0.7:8000")
            if self.spec.get("endpoint", {}).get("serviceRef")
            else scene
        )
        return found.at(max(self.seconds, CLIENT_CREATED))

    def client_ready(self) -> Self:
        """Return the scene with a client that has found all it needs, and reported so."""
        scene = self if self._has(*JOB) else self.client_created()
        return (
            scene.pod(names.ROLE_CLIENT, ready=True)
            .reports(phase="Waiting")
            .at(max(self.seconds, CLIENT_READY))
            .settled()
        )

    def server_pending(self) -> Self:
        """Return the scene with a Deployment (or LeaderWorkerSet) whose pod has no node."""
        workload = (
            GROUPS
            if self.spec.get("server", {}).get("nodesPerReplica", 1) > 1
            else DEPLOYMENT
        )
        return (
            self.client_ready()
            .having(workload)
            .pod(names.ROLE_SERVER)
            .at(SERVER_CREATED)
            .settled()
        )

    def server_loading(self) -> Self:
        """Return the scene with the server's pod running and loading its weights."""
        started = {"node": "n1", "ip": "10.0.0.9", "phase": "Running"}
        times = {
            "scheduled_at": instant(SCHEDULED),
            "started_at": instant(SCHEDULED),
        }
        return (
            self.server_pending()
            .pod(names.ROLE_SERVER, **started, **times)
            .at(SCHEDULED)
            .settled()
        )

    def server_healthy(self) -> Self:
        """Return the scene with a client that has had a healthy answer and warms up."""
        scene = (
            self.server_loading().pod(names.ROLE_SERVER, ready=True)
            if self._starts
            else self.client_ready()
        )
        return (
            scene.reports(phase="WarmingUp", healthy_unix_us=unix_us(HEALTHY))
            .at(HEALTHY)
            .settled()
        )

    def measuring(self) -> Self:
        """Return the scene while the first stage is being measured."""
        return (
            self.server_healthy()
            .reports(phase="Measuring", **_MEASURING, stage="chat/rate=1/r1")
            .at(FIRST_REQUEST)
            .settled()
        )

    def arrived(self, *sequences: int, **changes: Any) -> Self:
        """Return the scene with records received that are in no ConfigMap yet."""
        if changes:
            return self.delivered(
                *(record(s, *self._place(s), **changes) for s in sequences)
            )
        return self._with(*(plain(s, *self._place(s)) for s in sequences))

    def delivered(self, *records: StageRecord) -> Self:
        return self._with(*((measured, sealed(measured)) for measured in records))

    def stored(self, *sequences: int) -> Self:
        """Return the scene with records in ConfigMaps, and no longer in memory."""
        maps = tuple(_stage_map(s) for s in sequences)
        left = {
            s: a for s, a in self.collected.arrivals.items() if s not in sequences
        }
        measured = {s: plain(s, *self._place(s))[0] for s in sequences} | dict(
            self.measured
        )
        return replace(
            self, objects=(*self.objects, *maps), measured=measured
        ).knowing(arrivals=left)

    def _with(self, *deliveries: tuple[StageRecord, Sealed]) -> Self:
        collected = deepcopy(self.collected)
        for _, came in deliveries:
            collected.take(came)
        measured = {record.sequence: record for record, _ in deliveries} | dict(
            self.measured
        )
        return replace(self, collected=collected, measured=measured)

    def _place(self, sequence: int) -> tuple[str, str]:
        return _stage_id(self._accepted(), sequence), plan_digest(self._accepted())

    # ---- what was heard
    # --------------------------------------------------------------------------------------------

    def knowing(self, **changes: Any) -> Self:
        """Return the scene with fields of what was collected replaced."""
        return replace(self, collected=replace(self.collected, **changes))

    def with_answers(self, answers: Mapping[Query[Any], Answer[Any]]) -> Self:
        return self.knowing(answers=Answers({**self.collected.answers, **answers}))

    def log_read(self, text: str | None = None) -> Self:
        """Return the scene with the query of the server's last words answered."""
        return self.with_answers(
            {LogTail("server-1", "server", previous=False): Answer(text)}
        )

    def endpoint_found(self, *addresses: str) -> Self:
        """Return the scene with the query of the pods behind the Service answered."""
        return self.with_answers(
            {EndpointPods("prod", 8000): Answer(addresses or None)}
        )

    def client(self, **changes: Any) -> Self:
        """Return the scene with another known state of the connection to the client."""
        return self.knowing(client=replace(self.collected.client, **changes))

    def reports(self, **changes: Any) -> Self:
        """Return the scene after a report of the client; what it reported before still holds."""
        old = self.collected.client.progress or ClientProgress(
            version=0, phase="Preparing"
        )
        return self.client(
            progress=old.model_copy(update={**changes, "version": old.version + 1})
        )

    def fails(self, reason: str, message: str) -> Self:
        """Return the scene after the client's report that it can't measure."""
        return self.reports(
            phase="Failed", failure=Failure(reason=reason, message=message)
        )

    def sampled(self, *seconds: float) -> Self:
        """Return the scene with samples of the server at these instants, none stored yet."""
        samples = deepcopy(self.collected.samples)
        for s in seconds:
            samples.add(
                Sample(
                    at=instant(s).timestamp(),
                    role="server",
                    pod="server-1",
                    running=4.0,
                )
            )
        return self.knowing(samples=samples)

    @property
    def _starts(self) -> bool:
        """Return whether the run has a server of its own."""
        return "server" in self.spec or "offline" in self.spec

    def _has(self, kind: str, role: str) -> bool:
        return any((c.kind, c.role) == (kind, role) for c in self.objects)

    def _accepted(self) -> str:
        """Return, as JSON, the spec by which records were received, before it was refused."""
        accepted = {
            name: value
            for name, value in self.spec.items()
            if (name, value) not in UNREADABLE
        }
        return BenchmarkRunSpec.model_validate(accepted).model_dump_json(
            by_alias=True
        )


UNREADABLE = [*REFUSED.items(), *NEWER.items()]

_MEASURING = {"first_request_unix_us": unix_us(FIRST_REQUEST)}

SERVER_DIED = Termination(
    exit_code=2,
    reason="Error",
    message="vllm: error: unrecognized arguments: --nonsense",
)


_SETTLED: dict[bytes, str] = {}
"""Decided statuses in JSON by pickled facts: hundreds of scenes begin with the same steps."""


def _written(status: BenchmarkRunStatus) -> str:
    return status.model_dump_json(by_alias=True, exclude_none=True)


@lru_cache(maxsize=64)
def plan_digest(spec_json: str) -> str:
    return plan_of_client(
        OWNER,
        BenchmarkRunSpec.model_validate_json(spec_json),
        token_digest="d" * 64,
    ).digest()


@lru_cache(maxsize=256)
def _stage_id(spec_json: str, sequence: int) -> str:
    return planned_stages(
        BenchmarkRunSpec.model_validate_json(spec_json), run_uid=OWNER.uid
    )[sequence].id


def _child(kind: str, role: str, **changes: Any) -> Child:
    planned = names.plan_name(OWNER.name, OWNER.uid)
    name = (
        planned
        if role == names.ROLE_PLAN
        else names.child_name(OWNER.name, OWNER.uid, role)
    )
    name = (
        names.group_name(OWNER.name, OWNER.uid)
        if kind == "LeaderWorkerSet"
        else name
    )
    child = Child(
        kind, name, f"{kind}-uid", role, owner_uid=OWNER.uid, deleting=False
    )
    return replace(child, **changes)


def _stage_map(sequence: int) -> Child:
    name = names.stage_name(OWNER.name, OWNER.uid, sequence)
    return replace(
        _child("ConfigMap", names.ROLE_STAGE),
        name=name,
        uid=f"stage-{sequence}",
        sequence=sequence,
    )


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
