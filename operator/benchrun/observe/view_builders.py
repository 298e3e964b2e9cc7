"""Convert raw objects, as the watches deliver them, to the small views that decisions read.

Total functions: whatever is missing, of another type or too long becomes None, empty or cut;
nothing raises.
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from benchrun_client.contract import Envelope
from pydantic import ValidationError

from benchrun import names
from benchrun.api import as_many_as_fit, is_gpu
from benchrun.api.sweep import KIND as SWEEP_KIND
from benchrun.child_kinds import WORKLOAD
from benchrun.observe import untrusted_json as raw
from benchrun.observe.noted_defaults import noted_defaults
from benchrun.observe.quotas import quota_of
from benchrun.observe.views import (
    Child,
    Controller,
    Pod,
    Run,
    Sweep,
    Termination,
    View,
    controller_of,
    sweep_that_made,
)

MAX_ARGS = 140
MAX_ARGS_CHARS = 4000  # most characters of arguments, as many as a status shows
# most values in a spec; a sweep of 32 long variants has some 6,000
MAX_VALUES = 20_000
NO_SPEC = f"spec: it is empty, or it has more than {MAX_VALUES:,} values in all; shorten it"
MAX_IMAGE_CHARS = 1024
_ENDED = ("Complete", "Failed")
_BULKY = ("results", "findings", "servers", "logTail", "variants", "best", "front")
# the fields kept of an ended spec
_OF_THE_ENDED = (
    "cancel",
    "ttlSecondsAfterFinished",
)


def main_container(role: str) -> str:
    """Return the name of the container that does the work in a pod of this role."""
    ours = {
        names.ROLE_CLIENT: names.CLIENT_CONTAINER,
        names.ROLE_PROXY: names.PROXY_CONTAINER,
    }
    return ours.get(role, names.SERVER_CONTAINER)


def is_finished(status: raw.Object) -> bool:
    """Return whether a run or a sweep has ended, by its status."""
    for condition in raw.mappings(status.get("conditions")):
        if condition.get("status") == "True" and condition.get("type") in _ENDED:
            return True
    return False


def view_of(kind: str, body: raw.Object) -> View:
    """Return the view of an object of any watched kind.

    The view of an ended run or sweep has only the fields that are still read: its results stay in
    the cluster, not in memory.
    """
    if kind == "Pod":
        return pod_of(body)
    if kind not in (names.KIND, SWEEP_KIND):
        return child_of(kind, body)
    read = labelled_run_of if kind == names.KIND else labelled_sweep_of
    declared: Run | Sweep = read(body)
    if not is_finished(declared.status):
        return declared
    return replace(
        declared,
        spec={
            name: declared.spec[name]
            for name in _OF_THE_ENDED
            if name in declared.spec
        },
        status={
            name: value
            for name, value in declared.status.items()
            if name not in _BULKY
        },
        labels=(),
    )


def run_of(body: raw.Object) -> Run:
    """Return the view of a BenchmarkRun, with its whole spec and status.

    A spec with more than `MAX_VALUES` values counts as empty.
    """
    sweep = sweep_that_made(raw.mapping(body.get("metadata")))
    return Run(**_declared(body), sweep_uid=None if sweep is None else sweep.uid)


def labelled_run_of(body: raw.Object) -> Run:
    """Return the view of a BenchmarkRun with the user's labels."""
    return replace(run_of(body), labels=labels_of(body))


def labelled_sweep_of(body: raw.Object) -> Sweep:
    """Return the view of a BenchmarkSweep with the user's labels."""
    return replace(sweep_of(body), labels=labels_of(body))


def sweep_of(body: raw.Object) -> Sweep:
    """Return the view of a BenchmarkSweep, with its whole spec and status.

    A spec with more than `MAX_VALUES` values counts as empty.
    """
    return Sweep(**_declared(body))


def _declared(body: raw.Object) -> dict[str, Any]:
    metadata = raw.mapping(body.get("metadata"))
    spec = raw.mapping(body.get("spec"))
    return {
        "namespace": raw.text(metadata.get("namespace")),
        "name": raw.text(metadata.get("name")),
        "uid": raw.text(metadata.get("uid")),
        "generation": raw.number(metadata.get("generation")),
        "spec": {} if raw.holds_more_than(MAX_VALUES, spec) else dict(spec),
        "status": dict(raw.mapping(body.get("status"))),
        "created_at": raw.instant(metadata.get("creationTimestamp")),
        "deleting": "deletionTimestamp" in metadata,
        "version": raw.text(metadata.get("resourceVersion")),
    }


def labels_of(body: raw.Object) -> tuple[tuple[str, str], ...]:
    """Return the labels that users set, sorted by name, at most `MAX_LABELS`.

    The label of a queue is never left out: without it the run would start without a quota.
    """
    labels = raw.mapping(raw.mapping(body.get("metadata")).get("labels"))
    own = sorted(
        (name for name in labels if not name.startswith(f"{names.GROUP}/")),
        key=lambda name: (name != names.LABEL_QUEUE, name),
    )
    kept = sorted(own[:MAX_LABELS])
    return tuple((name, raw.text(labels[name])) for name in kept)


MAX_LABELS = 32


def child_of(kind: str, body: raw.Object) -> Child:
    """Return the view of a Deployment, LeaderWorkerSet, Job, Service or ConfigMap.

    Only a BenchmarkRun that controls the object counts as its owner. A record, a timeline chunk or
    a result document must also have the name that this run would have given it. Other objects
    need no such check, since they are looked up by name.
    """
    metadata = raw.mapping(body.get("metadata"))
    labels = raw.mapping(metadata.get("labels"))
    annotations = raw.mapping(metadata.get("annotations"))
    sequence = raw.number(labels.get(names.LABEL_SEQUENCE), default=-1)
    name = raw.text(metadata.get("name"))
    role = raw.text(labels.get(names.LABEL_ROLE))
    owner = controller_of(metadata, names.KIND)
    digest = raw.text(annotations.get(names.ANNOTATION_RESULT_DIGEST)) or None
    is_believed = owner is not None and _is_named_by(
        owner, name, role, sequence, digest
    )
    return Child(
        kind=kind,
        name=name,
        uid=raw.text(metadata.get("uid")),
        role=role,
        owner_uid=owner.uid if owner is not None and is_believed else None,
        deleting="deletionTimestamp" in metadata,
        sequence=sequence if sequence >= 0 else None,
        envelope=_envelope(annotations.get(names.ANNOTATION_ENVELOPE), sequence),
        result_digest=digest,
        plan_digest=raw.text(annotations.get(names.ANNOTATION_PLAN_DIGEST)) or None,
        token_digest=raw.text(annotations.get(names.ANNOTATION_TOKEN_DIGEST))
        or None,
        defaults=noted_defaults(
            annotations, namespace=raw.text(metadata.get("namespace"))
        )
        if role in _NOTING_ROLES
        else None,
        stored_bytes=raw.number(annotations.get(names.ANNOTATION_BYTES)),
        created_at=raw.instant(metadata.get("creationTimestamp")),
        failure=_failure(kind, raw.mapping(body.get("status"))),
        quota=quota_of(body) if kind == WORKLOAD else None,
    )


_NOTING_ROLES = (names.ROLE_PLAN, names.ROLE_CLIENT, names.ROLE_QUEUE)
MAX_ENVELOPE_CHARS = 2048  # More than the JSON of the longest envelope has.


def _envelope(annotation: object, sequence: int) -> Envelope | None:
    """Return the envelope of a stage's record; None if it is invalid or has another sequence."""
    try:
        envelope = Envelope.model_validate_json(
            raw.text(annotation, MAX_ENVELOPE_CHARS)
        )
    except ValidationError:
        return None
    return envelope if envelope.sequence == sequence else None


def _is_named_by(
    run: Controller, name: str, role: str, sequence: int, digest: str | None
) -> bool:
    """Return whether the run would give a child of this role this name.

    Without this check, a user who may create ConfigMaps could forge records of the run.
    """
    if role == names.ROLE_STAGE:
        return sequence >= 0 and name == names.stage_name(
            run.name, run.uid, sequence
        )
    if role == names.ROLE_TIMELINE:
        return names.timeline_chunk(run.name, run.uid, name) is not None
    if role == names.ROLE_RESULT:
        return digest is not None and name == names.result_name(
            run.name, run.uid, digest
        )
    return True


def pod_of(body: raw.Object) -> Pod:
    """Return the view of a pod.

    `run_uid` is taken from the label only if the pod's controller has the name of the object that
    makes this run's pods of this role; else it is empty.
    """
    metadata, spec, status = (
        raw.mapping(body.get(key)) for key in ("metadata", "spec", "status")
    )
    labels = raw.mapping(metadata.get("labels"))
    role = raw.text(labels.get(names.LABEL_ROLE))
    container = _main_container(spec.get("containers"), role)
    reported = _main_container(status.get("containerStatuses"), role)
    state = raw.mapping(reported.get("state"))
    last = raw.mapping(reported.get("lastState"))
    waiting = _waiting(status, state)
    scheduled = raw.condition(status, "PodScheduled")
    scheduled_at = (
        raw.instant(scheduled.get("lastTransitionTime"))
        if scheduled.get("status") == "True"
        else None
    )
    scheduling = scheduled.get("status"), scheduled.get("reason")
    gates = (
        raw.text(gate.get("name"))
        for gate in raw.mappings(spec.get("schedulingGates"))
    )
    why = raw.text(scheduled.get("message"), raw.MAX_MESSAGE_CHARS)
    started = raw.mapping(state.get("running")) or raw.mapping(
        state.get("terminated")
    )
    limits = raw.mapping(raw.mapping(container.get("resources")).get("limits"))
    args = container.get("args")
    texts = (
        [raw.text(arg, MAX_ARGS_CHARS) for arg in args[:MAX_ARGS]]
        if isinstance(args, list)
        else []
    )
    ending = _pod_ending(status)
    return Pod(
        name=raw.text(metadata.get("name")),
        uid=raw.text(metadata.get("uid")),
        role=role,
        run_uid=raw.text(labels.get(names.LABEL_RUN_UID))
        if _is_made_for_a_run(metadata, labels, role)
        else "",
        rank=raw.number(
            labels.get(names.LABEL_WORKER_INDEX)
            or labels.get(names.LABEL_COMPLETION_INDEX)
        ),
        ip=raw.address(status.get("podIP")),
        phase=raw.text(status.get("phase")),
        ready=raw.condition(status, "Ready").get("status") == "True",
        deleting="deletionTimestamp" in metadata,
        node=raw.text(spec.get("nodeName")) or None,
        scheduled_at=scheduled_at,
        created_at=raw.instant(metadata.get("creationTimestamp")),
        started_at=_by_the_scheduler(
            raw.instant(started.get("startedAt")),
            raw.instant(status.get("startTime")),
            scheduled_at,
        ),
        restarts=raw.number(reported.get("restartCount")),
        image=raw.text(container.get("image"), MAX_IMAGE_CHARS) or None,
        image_digest=raw.text(
            reported.get("imageID"), MAX_IMAGE_CHARS
        ).removeprefix("docker-pullable://")
        or None,
        # Whole devices of any vendor: nvidia.com/gpu, amd.com/gpu, nvidia.com/mig-1g.10gb ...
        gpus=sum(
            raw.number(amount)
            for resource, amount in limits.items()
            if is_gpu(resource)
        ),
        args=tuple(as_many_as_fit(texts, len, MAX_ARGS_CHARS)),
        unschedulable=(why or "the scheduler gave no reason")
        if scheduling in (("False", "Unschedulable"), ("False", "SchedulerError"))
        else None,
        gated=", ".join(as_many_as_fit(gates, len, raw.MAX_NAME_CHARS))
        or "not named"
        if scheduling == ("False", "SchedulingGated")
        else None,
        waiting_reason=raw.text(waiting.get("reason")) or None,
        waiting_message=raw.text(waiting.get("message"), raw.MAX_MESSAGE_CHARS)
        or None,
        terminated=_termination(state.get("terminated")),
        last_terminated=_termination(last.get("terminated")),
        pod_reason=raw.text(ending.get("reason")) or None,
        pod_message=raw.text(ending.get("message"), raw.MAX_MESSAGE_CHARS) or None,
    )


def _waiting(status: raw.Object, main_state: raw.Object) -> raw.Object:
    """Return what the pod's containers wait for; empty if they do not wait.

    An init container comes first: while it waits, the main container has only PodInitializing.
    """
    of_init = (
        raw.mapping(each.get("state"))
        for each in raw.mappings(status.get("initContainerStatuses"))
    )
    waits = [raw.mapping(each.get("waiting")) for each in (*of_init, main_state)]
    named = (
        each
        for each in waits
        if each.get("reason") not in (None, "PodInitializing")
    )
    return next(named, waits[-1])


def _pod_ending(status: raw.Object) -> raw.Object:
    """Return what says why the pod as a whole ended, or is about to; empty if nothing does."""
    if status.get("reason"):
        return status
    disruption = raw.condition(status, "DisruptionTarget")
    return disruption if disruption.get("status") == "True" else {}


def _by_the_scheduler(
    at: datetime | None, taken_at: datetime | None, scheduled_at: datetime | None
) -> datetime | None:
    """Convert an instant of the kubelet's clock to the clock of the scheduler.

    The kubelet's clock may be wrong, but the time since the kubelet took the pod (`taken_at`) is
    right. Return `scheduled_at` plus that time.
    """
    if at is None or taken_at is None or scheduled_at is None or at < taken_at:
        return at
    try:
        return scheduled_at + (at - taken_at)
    except OverflowError:
        return at


def _is_made_for_a_run(metadata: raw.Object, labels: raw.Object, role: str) -> bool:
    """Return whether the pod's controller is named after a child of the run in the pod's labels.

    The child is the one that this run creates for `role`.

    Without this check, a user who may create Jobs could make a client that gets the run's token.
    """
    run = raw.text(labels.get(names.LABEL_RUN))
    uid = raw.text(labels.get(names.LABEL_RUN_UID))
    owner = raw.controller(metadata)
    child = names.child_name(run, uid, role)
    if role == names.ROLE_CLIENT:
        return (owner.get("kind"), owner.get("name")) == ("Job", child)
    made_by = {"ReplicaSet": child, "StatefulSet": names.group_name(run, uid)}.get(
        raw.text(owner.get("kind"))
    )
    return made_by is not None and f"{raw.text(owner.get('name'))}-".startswith(
        f"{made_by}-"
    )


def _failure(kind: str, status: raw.Object) -> str | None:
    """Return why the object failed, by its own conditions; None if it did not.

    A Job that fails has the condition FailureTarget at once, but Failed only when its pods have
    ended. Pods on a lost node never end.
    """
    types = {
        "Deployment": ("ReplicaFailure",),
        "Job": ("Failed", "FailureTarget"),
    }.get(kind, ())
    conditions = (raw.condition(status, type_) for type_ in types)
    found = next(
        (each for each in conditions if each.get("status") == "True"), None
    )
    if found is None:
        return None
    reason = raw.text(found.get("reason"))
    message = raw.text(found.get("message"), raw.MAX_MESSAGE_CHARS)
    return f"{reason}: {message}" if message else reason or None


def _main_container(containers: object, role: str) -> raw.Object:
    """Return the container named for the role, else the only one there is, else an empty mapping.

    So an injected sidecar is never taken for the main container.
    """
    listed = list(raw.mappings(containers))
    name = main_container(role)
    return next(
        (c for c in listed if c.get("name") == name),
        listed[0] if len(listed) == 1 else {},
    )


def _termination(value: object) -> Termination | None:
    ended = raw.mapping(value)
    code = raw.number(ended.get("exitCode"), default=-1)
    reason = raw.text(ended.get("reason"))
    return (
        Termination(code, reason, message=raw.end_of(ended.get("message")))
        if ended
        else None
    )


# The kubelet's events show how long a pod waited for its image:
#
# Successfully pulled image "vllm/vllm-openai:v0.32.0" in 1m2.5s (1m3.25s including waiting). Image
# size: ... Container image "vllm/vllm-openai:v0.32.0" already present on machine

_PULLED = re.compile(
    r"Successfully pulled image .{1,1024} in ([0-9.a-zµ]{2,40})"
    r"(?: \(([0-9.a-zµ]{2,40}) including waiting\))?"
)
_PRESENT = "already present on machine"
_PARTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,12})?)(h|ms|m|s|µs|us|ns)")
_SECONDS = {
    "h": 3600.0,
    "m": 60.0,
    "s": 1.0,
    "ms": 1e-3,
    "µs": 1e-6,
    "us": 1e-6,
    "ns": 1e-9,
}


def image_pull_seconds(
    events: Iterable[raw.Object], *, container: str
) -> float | None:
    """Return how many seconds the container waited for its image, pulls of other images included.

    Return 0 if the node already had the image, and None if no event shows the wait.
    """
    waits = []
    for event in events:
        path = raw.text(raw.mapping(event.get("involvedObject")).get("fieldPath"))
        if (
            event.get("reason") == "Pulled"
            and path == f"spec.containers{{{container}}}"
        ):
            message = raw.text(event.get("message"), raw.MAX_MESSAGE_CHARS)
            pulled = _PULLED.match(message)
            waits.append(
                0.0
                if _PRESENT in message
                else _go_duration(pulled[2] or pulled[1])
                if pulled
                else None
            )
    # A container that was started again found its image there.
    return max((wait for wait in waits if wait is not None), default=None)


def _go_duration(text: str) -> float | None:
    """Parse a duration as Go writes it (`1m2.5s`) to seconds; None for other text."""
    parts = _PARTS.findall(text)
    if "".join(f"{number}{unit}" for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
