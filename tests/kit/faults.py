"""The catalogue of faults: each is declared once, and its measurement is recorded once.

Tests record what they saw with `record`; `docs/faults.md` is made of these records. They are
written to `.reports/faults.json`, or where FAULTS_FILE says.
"""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

ROOT = Path(__file__).parents[2]
TOLD_SECONDS = 10.0
"""Longest time from the first sign of a fault to the status that names it."""
FREED_SECONDS = 5.0
"""Longest time from the end of the run to the release of its server."""
FAILED = "Failed"
COMPLETED = "Completed"
GONE = "Gone"  # in place of a phase, for a run that was deleted
EARLY_SECONDS = 10.0
"""How much earlier a deadline may begin than the first sign of a fault: it counts from the creation
of the pod."""
REFUSED_SECONDS = 4.0
"""Time until unusable answers of a client end its run: three of them in a row."""
Family = Literal["server", "client", "refusal", "control plane"]
Tried = Literal["played", "real"]


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, and what should become of a run to which it happens."""

    name: str  # name of the fault and of its run
    family: Family
    what: str
    reason: str  # reason with which the run ends, or waits
    phase: str = FAILED
    # another reason, if it depends on which of two signs is seen first
    or_reason: str = ""
    waits_as: str = ""  # reason meanwhile, if the run does not end at once
    # how long the run waits after the first sign of the fault
    waits_seconds: float = 0.0
    # how long after the first sign of the fault the run must end
    decided_seconds: float = 0.0
    tried: Tried = "played"  # pods whose status the test writes, or real ones
    told_within_seconds: float = TOLD_SECONDS
    freed_within_seconds: float = FREED_SECONDS

    @property
    def ends(self) -> bool:
        """Return whether the run ends by it, or is gone."""
        return self.phase in (FAILED, COMPLETED, GONE)

    @property
    def shows_after_seconds(self) -> float:
        """Return after how many seconds the fault shows.

        It shows at the deadline if nothing is told meanwhile.
        """
        return 0.0 if self.waits_as else self.waits_seconds

    @property
    def told_as(self) -> str:
        """Return the reason that the status names first."""
        return self.waits_as or self.reason


@dataclass(frozen=True, slots=True)
class Measured:
    """What became of the run."""

    phase: str
    reason: str
    # time from the first sign of the fault to the status
    told_seconds: float | None
    # time from the due end of the run; None: no server, or it is kept
    freed_seconds: float | None


FAULTS: tuple[Fault, ...] = (
    # ---- the server's pod
    Fault(
        "unknown-flag",
        "server",
        "A flag that vLLM does not know",
        "UsageError",
        tried="real",
    ),
    Fault("bad-value", "server", "A value that vLLM refuses", "InvalidArgument"),
    Fault(
        "model-not-found",
        "server",
        "The model is missing",
        "ModelNotFound",
        tried="real",
    ),
    Fault(
        "gated-model", "server", "The model is gated", "ModelGated", tried="real"
    ),
    Fault(
        "oom-gpu",
        "server",
        "Out of GPU memory at load",
        "OutOfGPUMemory",
        tried="real",
    ),
    Fault(
        "server-oom", "server", "Out of the host's memory at load", "OutOfMemory"
    ),
    Fault(
        "kv-cache-too-small",
        "server",
        "The KV cache is too small",
        "KVCacheTooSmall",
        tried="real",
    ),
    Fault("port-taken", "server", "The port is taken", "CrashLoop"),
    Fault(
        "crash", "server", "It crashes again and again", "CrashLoop", tried="real"
    ),
    Fault(
        "hangs-in-load",
        "server",
        "It hangs while it loads",
        "StartupDeadlineExceeded",
        waits_seconds=20,
    ),
    Fault(
        "first-request",
        "server",
        "It is healthy and dies on the first request",
        "ServerRestarted",
        or_reason="AllRequestsFailed",
        tried="real",
    ),
    Fault(
        "restarts", "server", "It restarts while it is measured", "ServerRestarted"
    ),
    Fault(
        "server-oom-late",
        "server",
        "Out of the host's memory while it is measured",
        "OutOfMemory",
    ),
    Fault("deleted-by-hand", "server", "Its Deployment is deleted", "ServerGone"),
    Fault("server-evicted", "server", "The pod is evicted", "Evicted"),
    Fault("server-preempted", "server", "The pod is preempted", "Evicted"),
    Fault("server-node-lost", "server", "The node is lost", "Evicted"),
    Fault(
        "node-refuses",
        "server",
        "The node refuses the pod, and another is made",
        "PodRejected",
        phase="WaitingForNode",
    ),
    Fault("image-missing", "server", "The image is missing", "ImagePull"),
    Fault(
        "image-late",
        "server",
        "The registry does not answer at once",
        "ImagePull",
        phase="Starting",
    ),
    Fault(
        "image-slow",
        "server",
        "The image is pulled for longer than the deadline",
        "StartupDeadlineExceeded",
        waits_seconds=20,
    ),
    Fault(
        "no-such-node",
        "server",
        "No node can ever take the pod",
        "Unschedulable",
        waits_as="Unschedulable",
        waits_seconds=15,
    ),
    Fault(
        "no-such-node-deadline",
        "server",
        "The same, with pendingDeadlineSeconds",
        "PendingDeadlineExceeded",
        waits_as="Unschedulable",
        waits_seconds=20,
    ),
    Fault(
        "no-room-now",
        "server",
        "No node has room now",
        "Unschedulable",
        phase="WaitingForNode",
    ),
    Fault(
        "gated",
        "server",
        "The pod has scheduling gates",
        "SchedulingGated",
        phase="Pending",
    ),
    Fault(
        "claim-missing",
        "server",
        "The claim of the model is missing",
        "PendingDeadlineExceeded",
        waits_as="Unschedulable",
        waits_seconds=20,
    ),
    Fault(
        "secret-missing",
        "server",
        "A Secret is missing",
        "StartupDeadlineExceeded",
        waits_as="ContainerConfig",
        waits_seconds=20,
    ),
    Fault(
        "runs-as-root", "server", "The image would run as root", "ContainerConfig"
    ),
    # ---- the client's pod
    Fault("client-oom", "client", "Out of memory while it measures", "OutOfMemory"),
    Fault("client-killed", "client", "Killed while it measures", "ClientGone"),
    Fault("client-evicted", "client", "The pod is evicted", "Evicted"),
    Fault("client-image-missing", "client", "The image is missing", "ImagePull"),
    Fault(
        "client-hangs-at-start",
        "client",
        "It is never ready",
        "StartupDeadlineExceeded",
        waits_seconds=20,
    ),
    Fault(
        "client-silent",
        "client",
        "It answers no more while it measures",
        "RunDeadlineExceeded",
        waits_seconds=20,
    ),
    Fault(
        "client-hangs",
        "client",
        "It answers, and its stage does not end",
        "RunDeadlineExceeded",
        waits_seconds=20,
    ),
    Fault(
        "client-no-record", "client", "It ends without a record", "RecordsMissing"
    ),
    Fault("client-node-lost", "client", "The node is lost", "Evicted"),
    Fault(
        "client-deleted-on-a-lost-node",
        "client",
        "The pod is deleted by hand, on a node that is lost",
        "ClientGone",
    ),
    Fault(
        "client-other-contract",
        "client",
        "It speaks another version of the contract",
        "ContractMismatch",
        decided_seconds=REFUSED_SECONDS,
    ),
    Fault(
        "client-of-another-run",
        "client",
        "Its records are of another run",
        "ContractMismatch",
        decided_seconds=REFUSED_SECONDS,
    ),
    Fault(
        "client-repeats",
        "client",
        "It hands out the record of a stage twice",
        "ContractMismatch",
        decided_seconds=REFUSED_SECONDS,
    ),
    Fault(
        "client-garbage",
        "client",
        "Its records are no records",
        "RecordsMissing",
    ),
    Fault(
        "client-bomb",
        "client",
        "Its records unfold to gigabytes",
        "RecordsMissing",
    ),
    # ---- what the API server says of pods and objects
    Fault(
        "limit-range",
        "refusal",
        "A LimitRange allows less",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "quota-too-small",
        "refusal",
        "A quota is smaller than the pod",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "quota-full",
        "refusal",
        "A quota has no room now",
        "QuotaExceeded",
        phase="Pending",
    ),
    Fault(
        "quota-wants-limits",
        "refusal",
        "A quota wants limits that the pod does not name",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "pod-security",
        "refusal",
        "Pod Security forbids the pod",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "admission-policy",
        "refusal",
        "A ValidatingAdmissionPolicy denies the pod",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "object-denied",
        "refusal",
        "A ValidatingAdmissionPolicy denies the Deployment",
        "ChildRefused",
        waits_as="ChildRefused",
        waits_seconds=60,
    ),
    Fault(
        "priority-class-missing",
        "refusal",
        "The PriorityClass is missing",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "runtime-class-missing",
        "refusal",
        "The RuntimeClass is missing",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "service-account-missing",
        "refusal",
        "The ServiceAccount is missing",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "client-account-missing",
        "refusal",
        "The client's ServiceAccount is missing",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "webhook-denies",
        "refusal",
        "A webhook denies the pod",
        "PodRejected",
        waits_as="PodRejected",
        waits_seconds=60,
    ),
    Fault(
        "webhook-away",
        "refusal",
        "A webhook is away for longer than pendingDeadlineSeconds",
        "PendingDeadlineExceeded",
        waits_as="PodRejected",
        waits_seconds=30,
    ),
    # ---- what the operator works with; meanwhile the server runs out of memory
    Fault(
        "killed-pending",
        "control plane",
        "The operator is killed: Pending",
        "OutOfMemory",
    ),
    Fault(
        "killed-starting",
        "control plane",
        "The operator is killed: Starting",
        "OutOfMemory",
    ),
    Fault(
        "killed-first-stage",
        "control plane",
        "The operator is killed: in the first stage",
        "OutOfMemory",
    ),
    Fault(
        "killed-later-stage",
        "control plane",
        "The operator is killed: in a later stage",
        "OutOfMemory",
    ),
    Fault(
        "killed-ending",
        "control plane",
        "The operator is killed: all is measured, the server is still there",
        "Measured",
        phase=COMPLETED,
    ),
    Fault(
        "killed-released",
        "control plane",
        "The operator is killed: the server is let go, the records are not stored",
        "Measured",
        phase=COMPLETED,
    ),
    Fault(
        "operator-stopped",
        "control plane",
        "The operator stands still for 90 s",
        "OutOfMemory",
    ),
    Fault(
        "two-operators",
        "control plane",
        "Two operators work at the same time",
        "OutOfMemory",
    ),
    Fault(
        "operator-clock-behind",
        "control plane",
        "The clock of the operator's node jumps back by 5 h",
        "OutOfMemory",
    ),
    Fault(
        "operator-clock-ahead",
        "control plane",
        "The clock of the operator's node jumps ahead by 30 days",
        "OutOfMemory",
    ),
    Fault(
        "server-clock-behind",
        "control plane",
        "The clock of the server's node is 5 h behind",
        "OutOfMemory",
    ),
    Fault(
        "server-clock-ahead",
        "control plane",
        "The clock of the server's node is 30 days ahead",
        "OutOfMemory",
    ),
    Fault(
        "api-away",
        "control plane",
        "The API server is away for 2 minutes",
        "OutOfMemory",
    ),
    Fault(
        "api-slow",
        "control plane",
        "The API server is slow: every answer takes a second longer",
        "OutOfMemory",
    ),
    Fault(
        "etcd-slow",
        "control plane",
        "etcd is slow: every write takes a second longer",
        "OutOfMemory",
    ),
    Fault(
        "api-conflicts",
        "control plane",
        "Every write but deletions is answered with 409 for 20 s",
        "OutOfMemory",
    ),
    Fault(
        "api-invalid",
        "control plane",
        "Every write but deletions is answered with 422 for 20 s",
        "OutOfMemory",
    ),
    Fault(
        "api-throttles",
        "control plane",
        "Every request is answered with 429 for 20 s",
        "OutOfMemory",
    ),
    Fault(
        "api-fails",
        "control plane",
        "Every request is answered with 500 for 20 s",
        "OutOfMemory",
    ),
    Fault(
        "api-unavailable",
        "control plane",
        "Every request is answered with 503 for 20 s",
        "OutOfMemory",
    ),
    Fault(
        "watch-expired",
        "control plane",
        "Every watch is answered with 410",
        "OutOfMemory",
    ),
    Fault(
        "right-removed",
        "control plane",
        "The operator has no rights for 20 s",
        "OutOfMemory",
    ),
    Fault(
        "right-removed-one",
        "control plane",
        "The operator may not read pods for 20 s",
        "OutOfMemory",
    ),
    Fault(
        "kind-unlistable",
        "control plane",
        "One kind (NetworkPolicies) can't be listed when the operator starts",
        "OutOfMemory",
    ),
    Fault(
        "watch-silent",
        "control plane",
        "Every watch falls silent, and its connection stays open",
        "OutOfMemory",
    ),
    Fault(
        "crd-older",
        "control plane",
        "The CRD is older: most fields of the status are dropped",
        "OutOfMemory",
    ),
    Fault(
        "crd-newer",
        "control plane",
        "The CRD is newer: the status has words and fields that the operator does not know",
        "OutOfMemory",
    ),
    Fault(
        "namespace-deleted",
        "control plane",
        "The namespace is deleted",
        "",
        phase=GONE,
        freed_within_seconds=15,  # once Kubernetes deletes what is in it
    ),
    Fault(
        "deleted-background",
        "control plane",
        "The run is deleted in the background",
        "",
        phase=GONE,
    ),
    Fault(
        "deleted-foreground",
        "control plane",
        "The run is deleted in the foreground",
        "",
        phase=GONE,
    ),
    Fault(
        "deleted-orphan",
        "control plane",
        "The run is deleted, and its objects are orphaned",
        "",
        phase=GONE,
    ),
)
BY_NAME = {fault.name: fault for fault in FAULTS}


def of(family: Family, *, tried: Tried = "played") -> tuple[Fault, ...]:
    """Return the faults of a family that are tried in this way."""
    return tuple(
        fault for fault in FAULTS if (fault.family, fault.tried) == (family, tried)
    )


def record(fault: Fault, measured: Measured) -> None:
    """Record a measurement in place of an earlier one of the same fault."""
    path = Path(os.environ.get("FAULTS_FILE", ROOT / ".reports" / "faults.json"))
    noted = json.loads(path.read_text()) if path.exists() else []
    rows = {row["name"]: row for row in noted} | {fault.name: _row(fault, measured)}
    path.parent.mkdir(parents=True, exist_ok=True)
    ordered = [rows[name] for name in BY_NAME if name in rows]
    path.write_text(json.dumps(ordered, indent=1) + "\n")


def _row(fault: Fault, measured: Measured) -> dict[str, Any]:
    seconds = {
        key: None if value is None else round(max(0.0, value), 1)
        for key, value in asdict(measured).items()
        if key.endswith("_seconds")
    }
    return {
        **asdict(fault),
        "phase": measured.phase,
        "reason": measured.reason,
        **seconds,
    }


def assert_as_declared(fault: Fault, measured: Measured) -> None:
    """Check that the run ended, or waits, as declared, and was told and released in time."""
    assert measured.phase == fault.phase
    assert measured.reason in (fault.reason, fault.or_reason or fault.reason)
    if measured.told_seconds is not None:
        assert measured.told_seconds <= fault.told_within_seconds
    if measured.freed_seconds is not None:
        # The other sign may be seen first.
        early = (
            EARLY_SECONDS
            if fault.or_reason
            else min(EARLY_SECONDS, fault.waits_seconds)
        )
        assert -early <= measured.freed_seconds <= fault.freed_within_seconds
