"""Every status that a run or sweep may have, as the operator writes it, and what tools make of it.

The operator decides on each scene here and now, so no status is older than the code. `STANDINGS`
says which word each GitOps tool must have for it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal, NamedTuple

from benchrun import api, names
from benchrun.api import Reason
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.archive.contents import ARCHIVED
from benchrun.decide import (
    Answer,
    Judging,
    Query,
    RefusedObject,
    condition_table,
    decide,
)
from benchrun.decide.sweep.sweep_state import NotCreated
from benchrun.names import API_VERSION, KIND
from benchrun.observe import Run, Termination
from benchrun_client.contract import ModelFiles
from unit.decide import queues
from unit.decide.scenes import (
    CONTEXT,
    DEPLOYMENT,
    JOB,
    PLAN,
    SERVER_DIED,
    SERVICE,
    SERVICE_ENDPOINT,
    TWO_STAGES,
    Scene,
    instant,
)
from unit.measure.records import requests
from unit.plan.specs import OWNER
from unit.sweep import sweeps

Json = dict[str, Any]
Standing = Literal["unseen", "going on", "suspended", "good", "missed", "bad"]


class Words(NamedTuple):
    """What each tool calls it."""

    kstatus: str
    flux: str
    """By the expressions on the page, which want objectives met and no regression."""
    argo: str


STANDINGS: Mapping[Standing, Words] = {
    "unseen": Words("InProgress", "InProgress", "Progressing"),
    "going on": Words("InProgress", "InProgress", "Progressing"),
    "suspended": Words("InProgress", "InProgress", "Suspended"),
    "good": Words("Current", "Current", "Healthy"),
    "missed": Words("Current", "Failed", "Healthy"),
    "bad": Words("Failed", "Failed", "Degraded"),
}


@dataclass(frozen=True)
class Recorded:
    """A run or sweep as it lies in the cluster."""

    name: str
    standing: Standing
    body: Json

    @property
    def status(self) -> Json:
        found: Json = self.body["status"]
        return found

    @property
    def reasons(self) -> set[str]:
        """Return the reasons of all conditions."""
        return {each["reason"] for each in self.status.get("conditions", ())}

    @property
    def reason(self) -> str:
        """Return why it is in its phase, as the catalogue of faults has it."""
        (found,) = (
            each["reason"]
            for each in self.status["conditions"]
            if each["type"] == "Failed"
        )
        return str(found)


def _body(kind: str, spec: Json, status: Json, generation: int) -> Json:
    metadata = {
        "namespace": OWNER.namespace,
        "name": OWNER.name,
        "uid": OWNER.uid,
        "generation": generation,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def _run(name: str, standing: Standing, scene: Scene, **then: Any) -> Recorded:
    """Record a scene once all is answered; `then` are fields of the status that hold beside it."""
    status = scene.log_read().ended(then.get("baseline")).status
    return Recorded(
        name,
        standing,
        _body(KIND, dict(scene.spec), api.as_json(status), scene.generation),
    )


def _sweep(name: str, standing: Standing, *seen: Any, **more: Any) -> Recorded:
    """Record a sweep: `seen` are its spec and its runs."""
    status = sweeps.decided(*seen, **more).status
    spec = seen[0] if seen and seen[0] is not None else sweeps.sweep_body()
    return Recorded(name, standing, _body(SWEEP_KIND, spec, api.as_json(status), 1))


# ---- runs that go on
# ------------------------------------------------------------------------------------------------

LOADING = Scene().server_loading()
PENDING = Scene().server_pending()
MEASURING = Scene().measuring()
MEASURED = MEASURING.arrived(0, 1)
NO_NODE_FITS = (
    "0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector."
)
NO_ROOM_NOW = "0/3 nodes are available: 3 Insufficient nvidia.com/gpu."
QUOTA = 'deployments.apps "x" is forbidden: exceeded quota: gpus, requested: 8, used: 8, limited: 8'
DENIED = 'admission webhook "policy" denied the request: no latest tag'
POD_SECURITY = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes'


def _refused(message: str, scene: Scene | None = None, **how: Any) -> Scene:
    """Return a scene with a server that the API server does not take."""
    kind, role = DEPLOYMENT
    refused = RefusedObject(
        kind, "br-qwen-server", role, message, **({"curable": True} | how)
    )
    before = scene or Scene().client_ready().settled()
    return before.knowing(refused_object=refused)


def _left_out() -> Recorded:
    scene = Scene()
    facts = scene.facts()
    status = decide(replace(facts, run=replace(facts.run, left_out=True))).status
    body = _body(KIND, dict(scene.spec), api.as_json(status), 1)
    return Recorded("no room in memory", "going on", body)


FILLING = (
    Scene()
    .with_spec(
        model={"name": "org/tiny", "source": {"hub": {"cacheClaim": "models"}}}
    )
    .client_created()
    .reports(model=ModelFiles(state="Downloading"))
    .settled()
)
NO_POD = Scene().having(PLAN, SERVICE).having(JOB, created_at=instant(0)).settled()
NO_PODS = PENDING.without(*DEPLOYMENT)


def _unmade(words: str) -> Scene:
    """Return a scene with a Deployment whose pods are refused."""
    return (
        Scene()
        .client_ready()
        .settled()
        .having(DEPLOYMENT, failure=f"FailedCreate: {words}")
        .at(20)
    )


def _unseen(kind: str, spec: Json) -> Recorded:
    """Record an object that no operator has seen: the CRD gives it this status."""
    body = _body(kind, spec, {"observedGeneration": -1}, 1)
    return Recorded(f"unseen {kind}", "unseen", body)


def _edited(recorded: Recorded) -> Recorded:
    """Record it again after an edit that no operator has seen yet."""
    body = {
        **recorded.body,
        "metadata": {**recorded.body["metadata"], "generation": 2},
    }
    return Recorded(f"{recorded.name}, edited", "unseen", body)


def _archived(
    recorded: Recorded, status: str = "True", reason: str = Reason.WRITTEN
) -> Recorded:
    """Record it again after the archive has marked it."""
    mark = {
        "type": ARCHIVED,
        "status": status,
        "reason": reason,
        "message": "in s3://archive",
    }
    conditions = [*recorded.status["conditions"], mark]
    body = {
        **recorded.body,
        "status": {**recorded.status, "conditions": conditions},
    }
    name = f"{recorded.name}, archived: {reason}"
    return Recorded(name, recorded.standing, body)


def _going_on() -> list[Recorded]:
    waits: Mapping[str, Scene] = {
        "begins": Scene(),
        "client starts": Scene().client_created(),
        "model is downloaded": FILLING,
        "no pod of the client": NO_POD.at(10),
        "endpoint without pods": Scene(spec=SERVICE_ENDPOINT).client_ready(),
        "server waits for a node": PENDING,
        "no node fits yet": PENDING.pod("server", unschedulable=NO_NODE_FITS),
        "no room now": PENDING.pod("server", unschedulable=NO_ROOM_NOW),
        "scheduling gates": PENDING.pod("server", gated="example.com/queue"),
        "node refused the pod": PENDING.pod(
            "server", phase="Failed", pod_reason="UnexpectedAdmissionError"
        ),
        "quota": _refused(QUOTA),
        "refused": _refused(DENIED),
        "not installed": _refused("no such kind", is_kind_missing=True),
        "pods refused": _unmade(POD_SECURITY),
        "server loads": LOADING,
        "registry does not answer": LOADING.pod(
            "server",
            phase="Pending",
            waiting_reason="ErrImagePull",
            waiting_message="dial tcp: i/o timeout",
        ),
        "Secret is missing": LOADING.pod(
            "server",
            phase="Pending",
            waiting_reason="CreateContainerConfigError",
            waiting_message='secret "absent" not found',
        ),
        "waits for a quota": queues.told(queues.WAITING.settled(), queues.NO_ROOM),
        "may not use a queue": replace(queues.WAITING, context=CONTEXT),
        "lost its quota": queues.told(queues.measuring(), queues.PREEMPTED),
        "warms up": Scene().server_healthy(),
        "measures": MEASURING,
    }
    recorded = [_run(name, "going on", scene) for name, scene in waits.items()]
    status = MEASURED.decide().status
    collecting = _body(KIND, dict(MEASURED.spec), api.as_json(status), 1)
    return [
        _unseen(KIND, TWO_STAGES),
        *recorded,
        _left_out(),
        Recorded("is judged", "going on", collecting),
        _run("suspended", "suspended", Scene().with_spec(suspend=True)),
    ]


# ---- runs that have ended
# ------------------------------------------------------------------------------------------------

MET = [{"metric": "TTFT", "percentile": "50", "maxMilliseconds": 1000}]
MISSED = [{"metric": "TTFT", "percentile": "99", "maxMilliseconds": 1}]
HUNDRED: Json = {
    "start_us": range(0, 20_000_000, 200_000),
    "ttft_us": [20_000] * 100,
    "e2el_us": [120_000] * 100,
    "output_tokens": [11] * 100,
}
OFTEN = MEASURING.arrived(0, 1, requests=requests(**HUNDRED))
SUSPECT = {"severities": [{"code": "TooFewSamples", "severity": "Suspect"}]}
OOM = Termination(exit_code=137, reason="OOMKilled", message="")
DEADLINES = {
    "pendingDeadlineSeconds": 600,
    "startupDeadlineSeconds": 300,
    "runDeadlineSeconds": 1000,
}


def _died(words: str, *, code: int = 1) -> Scene:
    """Return a scene with a server that ended while it loaded, and left these words."""
    return LOADING.pod("server", terminated=Termination(code, "Error", words))


def _client_waits(reason: str, message: str = "") -> Scene:
    return (
        Scene()
        .client_created()
        .pod("client", waiting_reason=reason, waiting_message=message)
    )


def _late(scene: Scene) -> Scene:
    return scene.with_spec(**DEADLINES).at(5000)


def _lasts(scene: Scene) -> Scene:
    """Return the scene an hour after the operator first saw it, without deadlines."""
    unbounded = scene.with_spec(**dict.fromkeys(DEADLINES, 0)).settled()
    return unbounded.at(scene.seconds + 3600)


def _client_failed(reason: str) -> Scene:
    return MEASURING.fails(reason, "why")


def _failed() -> Mapping[str, Scene]:
    return {
        "unknown flag": LOADING.pod("server", terminated=SERVER_DIED),
        "bad value": _died("ValueError: max_num_seqs must be at least 1"),
        "model is missing": _died(
            "OSError: absent is not a local folder and is not a valid model identifier listed on "
            "'https://huggingface.co/models'"
        ),
        "model is gated": _died("OSError: You are trying to access a gated repo."),
        "compile cache": _died(
            "PermissionError: [Errno 13] Permission denied: '/compile-cache/4f/triton'"
        ),
        "GPU memory": _died("torch.OutOfMemoryError: CUDA out of memory."),
        "KV cache": _died(
            "ValueError: To serve at least one request with the models's max seq len (40960), "
            "4.38 GiB KV cache is needed, which is larger than the available KV cache memory"
        ),
        "host memory": LOADING.pod("server", terminated=OOM),
        "crash loop": LOADING.pod(
            "server",
            restarts=2,
            waiting_reason="CrashLoopBackOff",
            last_terminated=Termination(1, "Error", "Address already in use"),
        ),
        "image is missing": LOADING.pod(
            "server", waiting_reason="ImagePullBackOff", waiting_message="not found"
        ),
        "image is root's": LOADING.pod(
            "server",
            waiting_reason="CreateContainerConfigError",
            waiting_message="container has runAsNonRoot and image will run as root",
        ),
        "evicted": LOADING.pod("server", phase="Failed", pod_reason="Evicted"),
        "restarted": MEASURING.pod(
            "server", restarts=1, last_terminated=SERVER_DIED
        ),
        "server deleted": MEASURING.without(*DEPLOYMENT),
        "client killed": MEASURING.without(*JOB).at(200),
        "client fails": MEASURING.pod(
            "client", phase="Failed", terminated=Termination(3, "Error", "what?")
        ),
        "client's own word": _client_failed("DatasetNotFound"),
        "shard is lost": _client_failed(Reason.SHARD_LOST),
        "other contract": MEASURING.client(mismatch="contract 1, not 2"),
        "no record": MEASURING.pod("client", phase="Succeeded", ready=False),
        "no answer": MEASURING.arrived(
            0, 1, requests=requests(ok=(0, 0), output_tokens=(0, 0))
        ),
        "name is taken": Scene().knowing(conflict="Job br-qwen-client"),
        "object is invalid": _refused("spec.x: Invalid value", curable=False),
        "never admitted": _late(_refused(DENIED)),
        "refused for long": _lasts(_refused(DENIED)),
        "pods refused for long": _lasts(_unmade(POD_SECURITY)),
        "no node fits": _lasts(PENDING.pod("server", unschedulable=NO_NODE_FITS)),
        "no node for the server": _late(PENDING),
        "server does not get ready": _late(LOADING),
        "does not end": _late(MEASURING),
        "spec is refused": Scene().with_spec(repeats=0),
        "cancelled": MEASURING.with_spec(cancel=True),
        "cancelled early": Scene().with_spec(cancel=True),
        "invalid": MEASURING.arrived(0).arrived(1, requests=requests(ok=(1, 0))),
    }


def _internal_error() -> Recorded:
    """Record what the reconciler itself writes where no pass succeeds."""
    rows = api.ended_early("run", Reason.INTERNAL_ERROR, "see the log")
    status = condition_table.standing(
        MEASURING.decide().status,
        rows,
        "Failed",
        "see the log",
        of=MEASURING.facts().run,
        now=instant(500),
    )
    body = _body(KIND, dict(MEASURING.spec), api.as_json(status), 1)
    return Recorded("operator fails", "bad", body)


def _not_judged() -> Scene:
    stored = MEASURED.at(300)
    answers: dict[Query[Any], Answer[Any]] = {
        query: Answer(None, "the judge was killed")
        for query in (*stored.decide().lookups, Judging(ended_early=False))
    }
    return stored.with_answers(answers)


def _unstored() -> Scene:
    kind = "ConfigMap"
    last = MEASURING.stored(0).arrived(1).at(300)
    refused = RefusedObject(kind, "x", names.ROLE_STAGE, QUOTA, curable=True)
    return last.knowing(refused_object=refused).settled().at(900)


BEFORE = MEASURING.with_spec(repeats=2).arrived(0, 1, 2, 3)
BASELINE = {"name": "before", "maxRegressionPercent": "5", "metrics": ["MeanTTFT"]}


def _compared(
    name: str, standing: Standing, *, then: float, **gate: Any
) -> Recorded:
    """Record a run beside a baseline whose mean TTFT was so many times its own."""
    before = api.as_json(BEFORE.ended().status)
    for row in before["results"]:
        for figures in (row["metrics"], row["steady"]):
            figures["mean_ttft_ms"] *= then
    spec = dict(BEFORE.spec)
    baseline = Run(OWNER.namespace, "before", "uid", 1, spec=spec, status=before)
    gated = Scene().with_spec(baseline=BASELINE | gate, repeats=2).measuring()
    return _run(name, standing, gated.arrived(0, 1, 2, 3), baseline=baseline)


def _ended() -> list[Recorded]:
    valid = _run("measured", "good", MEASURED)
    return [
        *(_run(name, "bad", scene) for name, scene in _failed().items()),
        _internal_error(),
        _run("not judged", "bad", _not_judged()),
        valid,
        _archived(valid),
        _archived(valid, "False", Reason.NOT_ARCHIVABLE),
        _edited(valid),
        _run("a record is lost", "good", _unstored()),
        _run("suspect", "good", OFTEN.with_spec(validity=SUSPECT)),
        _run("objectives met", "good", OFTEN.with_spec(objectives=MET)),
        _run("objectives open", "good", MEASURED.with_spec(objectives=MET)),
        _run("objectives missed", "missed", OFTEN.with_spec(objectives=MISSED)),
        _compared("not regressed", "good", then=1, oneServerIsEnough=True),
        _compared("undecided", "good", then=1),
        _compared("regressed", "missed", then=0.5),
        _run(
            "baseline is missing",
            "good",
            BEFORE.with_spec(baseline=BASELINE),
        ),
    ]


# ---- sweeps
# ------------------------------------------------------------------------------------------------


def _sweeps() -> list[Recorded]:
    runs = [sweeps.a_run(f"seqs-v{n}-r1", status=sweeps.ended()) for n in (1, 2)]
    lost = [
        sweeps.a_run(f"seqs-v{n}-r1", status=sweeps.failed("ImagePull"))
        for n in (1, 2)
    ]
    refused = NotCreated("seqs-v1-r1", "is refused", curable=True)
    ending = sweeps.sweep_body(sweeps.THREE, maxFailed=0, maxParallel=2)
    one_goes_on = [lost[0], sweeps.a_run("seqs-v2-r1")]
    ended_now = sweeps.decided(ending, one_goes_on).status
    both_over = [
        lost[0],
        sweeps.a_run("seqs-v2-r1", status=sweeps.failed("Cancelled")),
    ]
    return [
        _unseen(SWEEP_KIND, sweeps.sweep_body()),
        _sweep("sweep begins", "going on"),
        _sweep("sweep goes on", "going on", None, runs[:1]),
        _sweep("sweep is refused", "going on", not_created=refused),
        _sweep(
            "sweep meets a quota",
            "going on",
            not_created=replace(refused, quota=True),
        ),
        _sweep("sweep is ending", "going on", ending, one_goes_on),
        _sweep("suspended sweep", "suspended", sweeps.sweep_body(suspend=True)),
        _sweep("sweep measured", "good", None, runs),
        _sweep("a variant failed", "bad", None, [runs[0], lost[1]]),
        _sweep("all failed", "bad", None, lost),
        _sweep("too many failed", "bad", ending, both_over, status=ended_now),
        _sweep(
            "budget is spent",
            "bad",
            sweeps.sweep_body(gpuSecondsBudget=100),
            runs[:1],
        ),
        _sweep(
            "run is invalid", "bad", not_created=replace(refused, curable=False)
        ),
        _sweep("sweep cancelled", "bad", sweeps.sweep_body(cancel=True)),
        _sweep("sweep's spec is refused", "bad", sweeps.sweep_body(replications=0)),
    ]


@cache
def recordings() -> tuple[Recorded, ...]:
    """Return every status, each decided once in a process."""
    return (*_going_on(), *_ended(), *_sweeps())
