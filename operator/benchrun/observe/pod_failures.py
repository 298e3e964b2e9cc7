"""Why a server can't serve and why a client can't measure.

Each check looks at a pod's evidence, is pure, and returns None unless it is sure.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from benchrun_client.contract import Failure
from benchrun_client.engines import Engine
from pydantic import ValidationError

from benchrun.api import Reason
from benchrun.names import COMPILED_DIRECTORY, ROLE_CLIENT, ROLE_PROXY
from benchrun.observe.last_words import bounded, errors, last_words
from benchrun.observe.refusals import Means, Place, Refusal, refusal_of
from benchrun.observe.views import Child, Diagnosis, Patience, Pod

_SMALL = (ROLE_CLIENT, ROLE_PROXY)  # roles that hold no weights


@dataclass(frozen=True, slots=True)
class Evidence:
    """A pod that may have failed, and how its main container ended."""

    pod: Pod
    engine: Engine  # The engine of the run.
    # End of the container's log: the fetched tail where there is one, else its termination message.
    log: str
    words: str  # The error in the log, without the traceback.
    errors: tuple[str, ...]  # The whole error, and the errors that caused it.

    @property
    def exit_code(self) -> int | None:
        return None if self.pod.ending is None else self.pod.ending.exit_code

    @property
    def endings(self) -> int:
        """Return how often the container has ended.

        Each restart follows an ending. If the container does not run now, it has ended once more.
        """
        runs_now = self.pod.terminated is None and self.pod.waiting_reason is None
        return (
            0
            if self.pod.ending is None
            else self.pod.restarts + (0 if runs_now else 1)
        )

    @property
    def place(self) -> Place:
        """Return where in the spec this pod is described."""
        return Place(self.pod.role)

    @property
    def pod_words(self) -> str:
        """Return Kubernetes' reason and message for the end of the pod as a whole."""
        return bounded(
            ": ".join(filter(None, (self.pod.pod_reason, self.pod.pod_message)))
        )

    @property
    def is_cause_hidden(self) -> bool:
        """Return whether the error only refers to an earlier one, which `log` does not reach."""
        return self.engine.points_up(self.words)


Check = Callable[[Evidence], Diagnosis | None]


def evidence_of(pod: Pod, engine: Engine, log_tail: str | None) -> Evidence:
    """Return the evidence of a pod's failure, from its termination message or its log.

    The fetched log may already belong to the container's next start. So it counts only if the
    termination message is empty or points further up in the log.
    """
    message = pod.ending.message if pod.ending is not None else ""
    by_message = _evidence(pod, engine, message)
    if (
        pod.ending is None
        or not log_tail
        or (message and not by_message.is_cause_hidden)
    ):
        return by_message
    return _evidence(pod, engine, log_tail)


def _evidence(pod: Pod, engine: Engine, log: str) -> Evidence:
    words = last_words(log, engine)
    return Evidence(
        pod=pod, engine=engine, log=log, words=words, errors=errors(log, engine)
    )


def first_diagnosis(
    found: Iterable[Evidence], checks: Iterable[Check]
) -> Diagnosis | None:
    """Return the first terminal diagnosis of any pod, else the first one that is not terminal."""
    ordered = list(checks)
    each = (
        next(filter(None, (check(evidence) for check in ordered)), None)
        for evidence in found
    )
    return min(
        filter(None, each),
        key=lambda diagnosis: not diagnosis.terminal,
        default=None,
    )


def diagnosis_of(
    pods: Iterable[Pod],
    engine: Engine,
    checks: Iterable[Check],
    *,
    log_tail: str | None = None,
) -> Diagnosis | None:
    """Diagnose the pods by `checks`, but pods that are being deleted only by `evicted`.

    The containers of a pod that is being deleted end because of the deletion.
    """
    listed = list(pods)
    staying = (
        evidence_of(pod, engine, log_tail) for pod in listed if not pod.deleting
    )
    leaving = (evidence_of(pod, engine, None) for pod in listed if pod.deleting)
    found = first_diagnosis(staying, checks)
    return (
        found
        if found is not None and found.terminal
        else first_diagnosis(leaving, (evicted,)) or found
    )


def diagnosed(
    reason: str, what: str, remedy: str, *, terminal: bool = True
) -> Diagnosis:
    """Build a diagnosis whose message says what happened and what to change."""
    return Diagnosis(reason, f"{what.rstrip('. ')}. {remedy}", terminal)


_ENOUGH_RESTARTS = 2
_CANNOT_START = ("RunContainerError", "StartError", "ContainerCannotRun")


def crash_loop(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a container that ended and restarts again and again, or can't be started.

    Two restarts, or the kubelet's back-off, are enough. If the log only points to a cause further
    up, the diagnosis is not terminal until that part of the log was read.
    """
    pod = evidence.pod
    looping = (
        pod.restarts >= _ENOUGH_RESTARTS or pod.waiting_reason == "CrashLoopBackOff"
    )
    stuck = pod.waiting_reason in _CANNOT_START
    if evidence.pod.ending is None or not (
        looping or stuck or evidence.is_cause_hidden
    ):
        return None
    words = (
        evidence.words
        or bounded(pod.waiting_message or "")
        or "the container's log is empty"
    )
    what = (
        f"The container ended with exit code {evidence.exit_code}, {pod.restarts} restarts so "
        f"far: {words}"
    )
    terminal = pod.restarts >= _ENOUGH_RESTARTS or (
        looping and not evidence.is_cause_hidden
    )
    return diagnosed(
        Reason.CRASH_LOOP,
        what,
        "See more of the container's log with benchrun logs.",
        terminal=terminal,
    )


def out_of_memory(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a container that the kernel ended at its memory limit."""
    if evidence.pod.ending is None or evidence.pod.ending.reason != "OOMKilled":
        return None
    weights = (
        ""
        if evidence.pod.role in _SMALL
        else "; a server needs about twice the size of its weights"
    )
    remedy = f"Raise the memory limit in {evidence.place.resources}{weights}."
    return diagnosed(
        Reason.OUT_OF_MEMORY, "The container was ended at its memory limit", remedy
    )


_TAKEN = (
    "Evicted",
    "Preempting",
    "PreemptionByScheduler",
    "DeletionByTaintManager",
    "EvictionByEvictionAPI",
    "DeletionByPodGC",
    "TerminationByKubelet",
    "NodeLost",
    "NodeShutdown",
    "Shutdown",
    "Terminated",
)


def evicted(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a pod that the node or the scheduler ended, or whose node is gone."""
    if evidence.pod.pod_reason not in _TAKEN:
        return None
    pod = evidence.place.pod
    resources = evidence.place.resources
    remedy = (
        f"Start a new run with requests equal to limits in {resources}, and a priority class in "
        f"{pod}."
    )
    return diagnosed(
        Reason.EVICTED, f"The pod was evicted ({evidence.pod_words})", remedy
    )


def refused_by_node(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a pod that the kubelet would not start although the scheduler assigned it.

    Another pod is made in its place. If none of the pod's containers has run, any reason of the
    kubelet counts, else only the reasons in `_NOT_ADMITTED`.
    """
    pod = evidence.pod
    never_ran = pod.ending is None and (pod.pod_reason or "") not in (
        *_TAKEN,
        _OUT_OF_TIME,
    )
    if pod.phase != "Failed" or not pod.pod_reason:
        return None
    if not never_ran and not pod.pod_reason.startswith(_NOT_ADMITTED):
        return None
    remedy = (
        "Another pod is tried; if this repeats, check the node's device plugin."
    )
    if not pod.pod_reason.startswith(_NOT_ADMITTED):
        remedy = (
            f"Another pod is tried; if this repeats, change {evidence.place.pod} as these words "
            "say, or choose other nodes with its nodeSelector."
        )
    return diagnosed(
        Reason.POD_REJECTED,
        f"The node refused the pod ({evidence.pod_words})",
        remedy,
        terminal=False,
    )


_NOT_ADMITTED = ("OutOf", "UnexpectedAdmissionError", "NodeAffinity")
# Reason of the pod's own deadline; its Job says more.
_OUT_OF_TIME = "DeadlineExceeded"


def rejected(words: str | None, role: str) -> Diagnosis | None:
    """Diagnose pods that the API server refused to create; return None without `words`.

    `words` is the message of the refusal, `role` the role of the pods.
    """
    if not words:
        return None
    found = refusal_of(words, Place(role))
    return diagnosed_refusal(
        found, f"The pod was not admitted: {found.words}", Reason.POD_REJECTED
    )


_PATIENCE = {Means.RETRY: Patience.RETRIED, Means.NAMESPACE: Patience.REFUSED}


def diagnosed_refusal(found: Refusal, what: str, reason: str) -> Diagnosis:
    """Build the diagnosis of a refusal, with `reason` unless a full quota is the cause."""
    message = f"{what.rstrip('. ')}. {found.remedy}"
    if found.means == Means.QUOTA:
        return Diagnosis(
            Reason.QUOTA_EXCEEDED, message, terminal=False, node_helps=False
        )
    is_ruling = found.means == Means.RULING
    patience = _PATIENCE.get(found.means, Patience.REFUSED)
    return Diagnosis(reason, message, is_ruling, patience, node_helps=False)


# With the back-off the kubelet has tried, failed, and waits: an error that one more try mends does
# not get so far.
_NOT_PULLED = ("InvalidImageName", "ErrImageNeverPull", "ImagePullBackOff")
_TRYING = (
    "ErrImagePull",
    "ImageInspectError",
    "RegistryUnavailable",
    "SignatureValidationFailed",
)
_WRONG_USER = (
    "container has runAsNonRoot and image will run as root",
    "image has non-numeric user",
)
_CONFIG = ("CreateContainerConfigError", "CreateContainerError")


def image_pull(evidence: Evidence) -> Diagnosis | None:
    """Diagnose an image that is not available.

    A first failed pull may be a passing trouble of the registry, so it is not terminal.
    """
    reason = evidence.pod.waiting_reason
    if reason not in (*_NOT_PULLED, *_TRYING):
        return None
    words = bounded(evidence.pod.waiting_message or reason)
    remedy = (
        f"Check {evidence.place.part}.image, and {evidence.place.pod}.imagePullSecrets if the "
        "registry is private."
    )
    what = f"The image {evidence.pod.image or ''} can't be pulled: {words}".replace(
        "  ", " "
    )
    return diagnosed(
        Reason.IMAGE_PULL, what, remedy, terminal=reason not in _TRYING
    )


def container_config(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a container that refers to something missing (a Secret, a ConfigMap).

    The missing object may still be created, so the run waits. An image with the wrong user is
    terminal.
    """
    if evidence.pod.waiting_reason not in _CONFIG:
        return None
    words = bounded(evidence.pod.waiting_message or evidence.pod.waiting_reason)
    if any(phrase in words for phrase in _WRONG_USER):
        remedy = (
            f"Set runAsUser in {evidence.place.pod}.securityContext, or use an image whose user is "
            "not root."
        )
        return diagnosed(
            Reason.CONTAINER_CONFIG, f"The container can't be made: {words}", remedy
        )
    remedy = (
        f"Create what is missing in the run's namespace, or correct {evidence.place.part} and "
        "spec.model."
    )
    return diagnosed(
        Reason.CONTAINER_CONFIG,
        f"The container can't be made: {words}",
        remedy,
        terminal=False,
    )


_USUAL = ("ContainerCreating", "PodInitializing", "CrashLoopBackOff")
"""Waiting reasons of a pod that starts normally, and the one that `crash_loop` diagnoses."""


def container_waits(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a container that waits for a reason which no other check knows.

    The kubelet's words are passed on, and the run waits.
    """
    reason = evidence.pod.waiting_reason
    if reason is None or reason in _USUAL:
        return None
    message = evidence.pod.waiting_message
    words = bounded(f"{reason}: {message}" if message else reason)
    remedy = (
        "The run continues when the node starts the container. If this message is "
        f"about {evidence.place.part} or {evidence.place.pod}, correct that field; "
        "otherwise look at the pod's events and its node."
    )
    return diagnosed(
        Reason.CONTAINER_CONFIG,
        f"The container is not started: {words}",
        remedy,
        terminal=False,
    )


# The scheduler reports how many nodes failed for which reason: "0/3 nodes are available: 1
# Insufficient nvidia.com/gpu, 2 node(s) didn't match Pod's node affinity/selector. preemption:
# ...". Only where every node fails for a reason that waiting does not mend is it structural. More
# of a resource than a node has reads like one that is in use; the two differ in what follows:
# preemption is "not helpful" on a node that could not take the pod if it were empty.

_HEAD = re.compile(
    r"^0/(?P<nodes>\d+) nodes are available: (?P<reasons>.*)", re.DOTALL
)
_TAIL = re.compile(r"\.? (no new claims to deallocate|preemption: ).*", re.DOTALL)
_NOT_EVEN_EMPTY = re.compile(
    r"preemption: 0/(?P<nodes>\d+) nodes are available: (?P=nodes) Preemption is not helpful for "
    r"scheduling\b"
)
_INSUFFICIENT = "Insufficient "
_REASON = re.compile(r"^(?P<nodes>\d+) (?P<why>.+)$", re.DOTALL)
_STRUCTURAL = (
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match scheduler-enforced node affinity",
    "node(s) didn't match the requested node name",
)
_TAINTED = "node(s) had untolerated taint"
_TAINT = re.compile(r"^node\(s\) had untolerated taint \{(?P<key>[^:}=]+)")
_PASSING_TAINTS = (
    "node.kubernetes.io/",
    "node.cloudprovider.kubernetes.io/",
    "node.cluster.x-k8s.io/",
    "ToBeDeleted",
)
"""Taints that the cluster sets on nodes that start, fail or go. From 1.34 the scheduler no longer
names the taint; the pod then keeps waiting."""


def gated(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a pod that the scheduler may not look at yet.

    A queue has set scheduling gates, and removes them later.
    """
    if (gates := evidence.pod.gated) is None or evidence.pod.node is not None:
        return None
    remedy = (
        "The run continues when these gates are removed. A queue (Kueue) removes them when "
        "it admits the pod."
    )
    what = f"The pod has scheduling gates: {bounded(gates)}"
    found = diagnosed(Reason.SCHEDULING_GATED, what, remedy, terminal=False)
    return replace(found, node_helps=False)


def unschedulable(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a pod for which the scheduler found no node."""
    if (
        message := evidence.pod.unschedulable
    ) is None or evidence.pod.node is not None:
        return None
    words = bounded(_TAIL.sub("", message))
    place = evidence.place
    if is_structural(message):
        fields = f"nodeSelector, affinity and tolerations in {place.pod}"
        mend = (
            f"Lower {place.resources}"
            if _INSUFFICIENT in words
            else f"Correct {fields}"
        )
        if _INSUFFICIENT in words and _asks_for_nodes(words):
            mend = f"Lower {place.resources}, or correct {fields}"
        what = f"No node can ever take the pod: {words}"
        found = diagnosed(
            Reason.UNSCHEDULABLE, what, f"{mend}, or add such a node."
        )
        return replace(found, patience=Patience.NODE)
    if any(part in words.lower() for part in _ABOUT_VOLUMES):
        data = (
            "the files of spec.workloads, "
            if evidence.pod.role == ROLE_CLIENT
            else ""
        )
        places = (
            f"{data}spec.model.source (pvc, hub.cacheClaim) and {place.pod}.volumes"
        )
        remedy = (
            "The run continues when the claim exists and is bound to a volume; check "
            f"{places}."
        )
    else:
        remedy = (
            "The run continues when a node has enough free resources; if no node is "
            f"large enough, lower {place.resources}."
        )
    found = diagnosed(
        Reason.UNSCHEDULABLE,
        f"No node can take the pod now: {words}",
        remedy,
        terminal=False,
    )
    return replace(found, node_helps="persistentvolumeclaim" not in words.lower())


_ABOUT_VOLUMES = (  # words of the scheduler's plugins for volumes
    "persistentvolume",
    "persistent volumes",
    "pvc(s)",
    "max volume count",
    "free storage",
    "available disk",
    "volume zone",
)


def _asks_for_nodes(words: str) -> bool:
    """Return whether the scheduler also rejects nodes for their labels, names or taints."""
    return _TAINTED in words or any(reason in words for reason in _STRUCTURAL)


def is_structural(message: str) -> bool:
    """Return whether no node will ever fit unless the spec changes or other nodes are added."""
    too_small = (found := _NOT_EVEN_EMPTY.search(message)) is not None

    def never_mends(why: str) -> bool:
        if (taint := _TAINT.match(why)) is not None:
            return not taint["key"].strip().startswith(_PASSING_TAINTS)
        return why.rstrip(". ") in _STRUCTURAL or (
            too_small and why.startswith(_INSUFFICIENT)
        )

    head = _HEAD.match(_TAIL.sub("", message))
    if head is None or (found is not None and found["nodes"] != head["nodes"]):
        return False
    reasons = [
        _REASON.match(part) for part in head["reasons"].rstrip(". ").split(", ")
    ]
    lasting = [
        int(reason["nodes"])
        for reason in reasons
        if reason is not None and never_mends(reason["why"])
    ]
    # A node that lacks two resources counts twice.
    nodes = int(head["nodes"])
    told = sum(lasting)
    return (
        len(lasting) == len(reasons)
        and 0 < nodes <= told
        and (too_small or nodes == told)
    )


def named_by_error(evidence: Evidence) -> Diagnosis | None:
    """Diagnose an ended container by the error that ended it, or by an error that led to it.

    Only these errors can name a cause. Other text in the log, such as a warning, a retry or the
    text of a request, does not count.
    """
    if evidence.pod.ending is None:
        return None
    causes = [
        c
        for c in evidence.engine.log_causes
        if c.exit_code in (None, evidence.exit_code)
    ]
    pairs = ((error, cause) for error in evidence.errors for cause in causes)
    named = next(
        (cause for error, cause in pairs if cause.is_named_in(error)), None
    )
    # The form of an error says less than the words of any error of the chain.
    formed = (
        cause
        for cause in causes
        if cause.error_begins is not None
        and evidence.words.startswith(cause.error_begins)
        and not evidence.is_cause_hidden
    )
    if (cause := named or next(formed, None)) is None:
        return None
    return diagnosed(
        cause.reason,
        f"{cause.what}: {evidence.words}",
        cause.remedy,
        terminal=evidence.endings >= cause.tries,
    )


_NOT_WRITTEN = (
    "permission denied",
    "read-only file system",
    "no space left on device",
    "disk quota exceeded",
    "input/output error",
    "stale file handle",
)
"""Words of the operating system, in lower case."""


def compile_cache(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a server that can't write to the claim that keeps what it compiles.

    Only an error that names a file on the claim counts; the error of a full claim may name none.
    """
    if evidence.pod.ending is None:
        return None
    folder = f"{COMPILED_DIRECTORY}/"
    words = next(
        (
            error
            for error in evidence.errors
            if folder in error
            and any(words in error.lower() for words in _NOT_WRITTEN)
        ),
        None,
    )
    if words is None:
        return None
    claim = f"{evidence.place.part}.compileCacheClaim"
    remedy = (
        f"Make the claim of {claim} (or of the chart's runs.compileCacheClaim) writable for the "
        f"server's user or group, with room on it; or set {claim} to an empty text: the server "
        "then compiles at each start."
    )
    return diagnosed(
        Reason.COMPILE_CACHE_FAILED,
        f"The compile cache can't be written: {bounded(words)}",
        remedy,
    )


SERVER_CHECKS: tuple[Check, ...] = (
    evicted,  # how the pod ended explains how its container did
    refused_by_node,
    out_of_memory,  # ended by the kernel, whatever the log has
    compile_cache,  # ahead of causes by the form of an error: it has the path
    named_by_error,
    image_pull,
    container_config,
    gated,
    unschedulable,
    crash_loop,  # near the end of the list: only knows that the container ends
    container_waits,
)


def diagnose_server(
    pods: Iterable[Pod],
    deployment: Child | None,
    engine: Engine,
    *,
    log_tail: str | None = None,
    wanted: int = 1,
    refused: str | None = None,
) -> Diagnosis | None:
    """Diagnose what is wrong with the server; return None if nothing is.

    `log_tail` is the end of the failed container's log, once it has been fetched. `refused` is why
    pods could not be created, according to events. It is ignored as outdated if all `wanted` pods
    exist.
    """
    listed = list(pods)
    found = diagnosis_of(listed, engine, SERVER_CHECKS, log_tail=log_tail)
    if found is not None or deployment is None:
        return found
    if sum(not pod.deleting for pod in listed) >= wanted:
        return None
    return rejected(deployment.failure or refused, deployment.role)


_BY_SIGNAL = (137, 143)  # 128 + SIGKILL, 128 + SIGTERM


def reported_failure(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a client by its termination message, a `Failure` as JSON.

    The diagnosis has the message's own reason and text. Return None without such a message.
    """
    if (ended := evidence.pod.terminated) is None or ended.exit_code == 0:
        return None
    try:
        failure = Failure.model_validate_json(ended.message.strip())
    except ValidationError:
        return None
    return Diagnosis(failure.reason, bounded(failure.message), True)


def exited(evidence: Evidence) -> Diagnosis | None:
    """Diagnose a client that ended without a report, killed or with an exit code of its own.

    The diagnosis is terminal, because a client is not restarted.
    """
    if (ended := evidence.pod.terminated) is None or ended.exit_code == 0:
        return None
    if ended.exit_code in _BY_SIGNAL:
        remedy = "The events of the client's pod and its node may show why."
        return diagnosed(
            Reason.CLIENT_GONE,
            f"The client was killed (exit code {ended.exit_code})",
            remedy,
        )
    what = (
        f"The client ended with exit code {ended.exit_code}: "
        f"{evidence.words or ended.reason or 'the log is empty'}"
    )
    remedy = "kubectl logs of the client pod has more."
    return diagnosed(Reason.CLIENT_FAILED, what, remedy)


CLIENT_CHECKS: tuple[Check, ...] = (
    reported_failure,
    evicted,  # ahead of the exit code that eviction causes
    refused_by_node,
    out_of_memory,
    exited,
    image_pull,
    container_config,
    gated,
    unschedulable,
    container_waits,
)


def diagnose_client(
    pods: Iterable[Pod],
    job: Child | None,
    engine: Engine,
    *,
    wanted: int = 1,
    refused: str | None = None,
) -> Diagnosis | None:
    """Diagnose what is wrong with the client; return None if nothing is.

    `refused` is why pods could not be created, according to events. It is ignored as outdated if
    all `wanted` pods exist.
    """
    listed = list(pods)
    if (
        found := diagnosis_of(listed, engine, CLIENT_CHECKS)
    ) is not None and found.terminal:
        return found
    staying = sum(not pod.deleting for pod in listed)
    found = job_failed(job, deleted=staying == 0) or found
    return found or (rejected(refused, ROLE_CLIENT) if staying < wanted else None)


def job_failed(job: Child | None, *, deleted: bool) -> Diagnosis | None:
    """Diagnose a Job that failed; return None if it did not.

    `deleted` says that its pod is gone or being deleted, which explains why the Job failed.
    """
    if job is None or job.failure is None:
        return None
    if job.failure.startswith("DeadlineExceeded"):
        remedy = "Raise spec.runDeadlineSeconds, or measure less."
        return diagnosed(
            Reason.RUN_DEADLINE, "The client's Job reached its deadline", remedy
        )
    if deleted:
        return Diagnosis(
            Reason.CLIENT_GONE,
            f"The client's pod was deleted: {bounded(job.failure)}",
            True,
        )
    return Diagnosis(
        Reason.CLIENT_FAILED,
        f"The client's Job failed: {bounded(job.failure)}",
        True,
    )


def find_pod_with_hidden_cause(pods: Sequence[Pod], engine: Engine) -> Pod | None:
    """Return a pod whose termination message only points further up in its log.

    That log is worth fetching. Return None if there is no such pod.
    """
    return next(
        (pod for pod in pods if evidence_of(pod, engine, None).is_cause_hidden),
        None,
    )
