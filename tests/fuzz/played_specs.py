"""What becomes of a spec: it is refused at a field, or it is acted on until its run or sweep has
ended, or waits.

Pods are made from the manifests that were decided, and read as the watches read them. The client
keeps to the plan that it was given."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, NamedTuple

from benchrun import names
from benchrun.api import BenchmarkRunSpec, BenchmarkRunStatus, has_ended
from benchrun.api.conditions import Conditions, Reason
from benchrun.api.sweep import BenchmarkSweepStatus, SweepReason, essence
from benchrun.decide import (
    Answer,
    Collected,
    Compilations,
    Decision,
    EndpointPods,
    Evaluation,
    Facts,
    Judging,
    LogTail,
    Query,
    decide,
)
from benchrun.decide.sweep.sweep_state import SweepCollected, SweepFacts
from benchrun.judge_process.judge_job import judge_job
from benchrun.judge_process.messages import Job, JobPart
from benchrun.observe import (
    Children,
    Run,
    child_of,
    pod_of,
    run_of,
    sweep_of,
    swept_runs,
)
from benchrun.plan import PackedResult, load_points
from benchrun_client.contract import PLAN_FILE, Plan
from unit.decide.scenes import CONTEXT, instant
from unit.decide.simulated_cluster import SimulatedClient
from unit.judge.comparison.sides import row, run
from unit.plan.specs import OWNER
from unit.sweep.sweeps import a_run, decided_with_table, ended

Json = dict[str, Any]
Fate = Literal["all goes well", "no pod comes"]
FATES: tuple[Fate, ...] = ("all goes well", "no pod comes")
NAMED_REASONS = {
    value
    for kind in (Reason, SweepReason)
    for each in kind.__mro__
    for name, value in vars(each).items()
    if name.isupper()
} | {"Accepted", "Ready"}
AT_A_FIELD = re.compile(r"spec[]\w.\[/-]*: \S")
FAR_AHEAD_SECONDS = 10_000_000
"""Beyond every deadline."""
PASSES = 40
CREATED = "2026-01-01T00:00:00Z"


class Outcome(NamedTuple):
    """How it ended, or what it waits for."""

    kind: Literal["refused", "ended", "waits"]
    phase: str | None
    reason: str
    message: str


def outcome_of_run(spec: Any, fate: Fate) -> Outcome:
    """What becomes of a run with this spec. Raises AssertionError where it is neither."""
    world = _World(spec, stands=fate == "all goes well")
    for step in range(PASSES):
        decision = world.passes()
        if decision.forget or step > 12:
            break
        world.now += 60 if step < 6 else FAR_AHEAD_SECONDS
    status = BenchmarkRunStatus.model_validate(world.status)
    return _outcome(status.conditions, status.phase, status.message)


def _outcome(
    conditions: Conditions, phase: str | None, message: str | None
) -> Outcome:
    states = {each.type: each for each in conditions}
    assert {each.reason for each in conditions} <= NAMED_REASONS, states
    reason = states["Reconciling"].reason
    text = message or ""
    if states["Accepted"].status == "False":
        assert AT_A_FIELD.match(text), text
        return Outcome("refused", phase, reason, text)
    kind: Literal["ended", "waits"] = "ended" if has_ended(conditions) else "waits"
    assert states["Reconciling"].status == ("True" if kind == "waits" else "False")
    return Outcome(kind, phase, reason, text)


@dataclass
class _World:
    """The cluster around one run, and what the operator remembers of it."""

    spec: Any
    stands: bool
    now: int = 0
    status: Json = field(default_factory=dict)
    manifests: dict[tuple[str, str], Json] = field(default_factory=dict)
    collected: Collected = field(default_factory=Collected)
    client: SimulatedClient | None = None

    def passes(self) -> Decision:
        """Pass after pass until nothing changes any more."""
        for _ in range(8):
            before = (
                dict(self.status),
                set(self.manifests),
                len(self.collected.answers),
            )
            self._client_goes_on()
            decision = decide(self._facts())
            self._carry_out(decision)
            if (
                self.status,
                set(self.manifests),
                len(self.collected.answers),
            ) == before:
                return decision
        return decision

    def _facts(self) -> Facts:
        metadata = {
            "namespace": OWNER.namespace,
            "name": OWNER.name,
            "uid": OWNER.uid,
            "generation": 1,
            "creationTimestamp": CREATED,
        }
        run = run_of(
            {"metadata": metadata, "spec": self.spec, "status": self.status}
        )
        objects = tuple(
            child_of(kind, body) for (kind, _), body in self.manifests.items()
        )
        pods = tuple(map(pod_of, self._pods()))
        now = instant(0) + timedelta(seconds=self.now)
        return Facts(run, Children(objects, pods), self.collected, now, CONTEXT)

    def _pods(self) -> Iterator[Json]:
        if not self.stands:
            return
        for (kind, name), body in self.manifests.items():
            spec = body.get("spec", {})
            if kind == "Deployment":
                for number in range(spec["replicas"]):
                    yield _pod(
                        spec["template"],
                        "ReplicaSet",
                        f"{name}-5d4",
                        f"{name}-{number}",
                    )
            elif kind == "LeaderWorkerSet":
                yield from _group_pods(name, spec)
            elif kind == "Job":
                for rank in range(spec.get("completions", 1)):
                    label = {names.LABEL_COMPLETION_INDEX: str(rank)}
                    yield _pod(
                        spec["template"], "Job", name, f"{name}-{rank}", label
                    )

    def _client_goes_on(self) -> None:
        plan = next(
            (
                m
                for (_, name), m in self.manifests.items()
                if name.endswith("-plan")
            ),
            None,
        )
        if (
            not self.stands
            or plan is None
            or ("Job", self._job) not in self.manifests
        ):
            return
        if self.client is None:
            parsed = Plan.model_validate_json(plan["data"][PLAN_FILE])
            self.client = SimulatedClient(parsed, started=self.now - 5)
        serves = any(
            kind in ("Deployment", "LeaderWorkerSet") for kind, _ in self.manifests
        )
        is_endpoint = isinstance(self.spec, dict) and "endpoint" in self.spec
        self.client.tick(self.now, server_healthy=serves or is_endpoint)
        self.collected.client.progress = self.client.progress
        for arrival in self.client.records:
            self.collected.take(arrival)

    @property
    def _job(self) -> str:
        return names.child_name(OWNER.name, OWNER.uid, names.ROLE_CLIENT)

    def _carry_out(self, decision: Decision) -> None:
        self.collected.ending = decision.ending or self.collected.ending
        for ref in decision.delete:
            self.manifests.pop((ref.kind, ref.name), None)
        for manifest in decision.apply:
            about = manifest["metadata"]
            uid = f"uid-of-{about['name']}"
            body = {
                **manifest,
                "metadata": {**about, "uid": uid, "creationTimestamp": CREATED},
            }
            self.manifests.setdefault((manifest["kind"], about["name"]), body)
        wanted = (*decision.lookups, *filter(None, (decision.last_words,)))
        for question in wanted:
            self.collected.answers.setdefault(question, self._answer(question))
        self.status = decision.status.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )

    def _answer(self, question: Query[Any]) -> Answer[Any]:
        if isinstance(question, Judging):
            return Answer(self._judged(question))
        known: dict[type, Any] = {
            LogTail: "",
            Compilations: (),
            EndpointPods: ("10.0.0.7:8000",),
        }
        return Answer(known.get(type(question)))

    def _judged(self, question: Judging) -> Any:
        """By the judge's own code, and all records that came."""
        job = Job(
            name=OWNER.name,
            namespace=OWNER.namespace,
            uid=OWNER.uid,
            spec=self.spec,
            servers=list(question.servers),
            client=question.client,
            ending=question.ending,
            instants=question.instants,
        )
        arrivals = self.client.records if self.client is not None else []
        parts = [
            JobPart.of(
                "record",
                each.body,
                name=each.envelope.stage_id,
                envelope=each.envelope,
            )
            for each in arrivals
        ]
        judgement, document = judge_job(Job.model_validate_json(job.line()), parts)
        return Evaluation(judgement, PackedResult.of(document))


def _group_pods(name: str, spec: Json) -> Iterator[Json]:
    template = spec["leaderWorkerTemplate"]
    for number in range(spec["replicas"]):
        for rank in range(template["size"]):
            kind = "leaderTemplate" if rank == 0 else "workerTemplate"
            label = {names.LABEL_WORKER_INDEX: str(rank)}
            pod = f"{name}-{number}-{rank}"
            yield _pod(
                template[kind], "StatefulSet", f"{name}-{number}", pod, label
            )


def _pod(
    template: Json,
    owner_kind: str,
    owner: str,
    name: str,
    labels: Json | None = None,
) -> Json:
    """One that runs and is ready."""
    about = template["metadata"]
    controller = {
        "kind": owner_kind,
        "name": owner,
        "uid": f"uid-of-{owner}",
        "controller": True,
    }
    metadata = {
        **about,
        "name": name,
        "uid": f"uid-of-{name}",
        "labels": {**about["labels"], **(labels or {})},
        "ownerReferences": [controller],
        "creationTimestamp": CREATED,
    }
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": CREATED}
        for kind in ("PodScheduled", "Ready")
    ]
    main = {"name": template["spec"]["containers"][0]["name"], "restartCount": 0}
    state = {**main, "state": {"running": {"startedAt": CREATED}}}
    status = {
        "phase": "Running",
        "podIP": "10.0.0.9",
        "conditions": conditions,
        "containerStatuses": [state],
    }
    return {
        "metadata": metadata,
        "spec": {**template["spec"], "nodeName": "n1"},
        "status": status,
    }


def outcome_of_sweep(spec: Any) -> Outcome:
    """What becomes of a sweep with this spec, each of whose runs is measured at once."""
    metadata = {
        "namespace": "lab",
        "name": "seqs",
        "uid": "sweep-uid-1",
        "generation": 1,
    }
    status: Json = {}
    runs: dict[str, Run] = {}
    for turn in range(300):
        body = {"metadata": metadata, "spec": spec, "status": status}
        figures = {each.uid: _figures(each.spec) for each in runs.values()}
        collected = SweepCollected(measured=figures)
        now = instant(turn * 60.0)
        seen = swept_runs(runs.values())
        decision = decided_with_table(
            SweepFacts(sweep_of(body), seen, collected, now)
        )
        before = (status, set(runs))
        status = decision.status.model_dump(
            mode="json", by_alias=True, exclude_none=True
        )
        for manifest in decision.create:
            name = manifest["metadata"]["name"]
            made = replace(a_run(name, status=ended()), spec=manifest["spec"])
            runs.setdefault(name, made)
        if decision.forget or (status, set(runs)) == before:
            break
    read = BenchmarkSweepStatus.model_validate(status)
    return _outcome(read.conditions, read.phase, read.message)


def _figures(spec: Json) -> BenchmarkRunStatus:
    """Typical ones, at every load that is listed."""
    parsed = BenchmarkRunSpec.model_validate(spec)
    return essence(
        run("any", [row(each.id) for each in load_points(parsed)]).status
    )
