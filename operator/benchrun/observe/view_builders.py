"""Raw objects, as the watches deliver them, made into the small views that decisions read.

Total functions: whatever is missing, of another type or too long becomes None, empty or cut; nothing raises.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from benchrun_client.engines import ENGINE

from benchrun import names
from benchrun.api import is_gpu
from benchrun.api.sweep.spec import KIND as SWEEP_KIND
from benchrun.observe import untrusted_json as raw
from benchrun.observe.views import Child, Pod, Run, Sweep, Termination, View

MAX_ARGS = 140
MAX_ARG_CHARS = 4096
MAX_IMAGE_CHARS = 1024
_BULKY = ("results", "findings", "servers", "logTail", "variants", "best", "front")


def main_container(role: str) -> str:
    """The container that does the work in a pod of this role."""
    return {names.ROLE_CLIENT: "client", names.ROLE_PROXY: "proxy"}.get(role, ENGINE.container)


def is_finished(status: raw.Object) -> bool:
    """Whether the status of a run or a sweep says that it has ended."""
    ended = ("Complete", "Failed")
    return any(c.get("type") in ended and c.get("status") == "True" for c in raw.mappings(status.get("conditions")))


def view_of(kind: str, body: raw.Object) -> View:
    """Whatever it is. Of what has ended only what is still looked at: its results stay in the cluster, not in our memory."""
    if kind == "Pod":
        return pod_of(body)
    if kind not in (names.KIND, SWEEP_KIND):
        return child_of(kind, body)
    declared = run_of(body) if kind == names.KIND else sweep_of(body)
    if not is_finished(declared.status):
        return declared
    return replace(declared, status={name: value for name, value in declared.status.items() if name not in _BULKY})


def run_of(body: raw.Object) -> Run:
    """A BenchmarkRun; its spec and status stay as they are."""
    owner = raw.controller(raw.mapping(body.get("metadata")))
    is_sweep = owner.get("kind") == SWEEP_KIND and raw.text(owner.get("apiVersion")).startswith(f"{names.GROUP}/")
    return Run(**_declared(body), sweep_uid=(raw.text(owner.get("uid")) or None) if is_sweep else None)


def sweep_of(body: raw.Object) -> Sweep:
    """A BenchmarkSweep; its spec and status stay as they are."""
    return Sweep(**_declared(body))


def _declared(body: raw.Object) -> dict[str, Any]:
    metadata = raw.mapping(body.get("metadata"))
    return {
        "namespace": raw.text(metadata.get("namespace")),
        "name": raw.text(metadata.get("name")),
        "uid": raw.text(metadata.get("uid")),
        "generation": raw.number(metadata.get("generation")),
        "spec": raw.shared(dict(raw.mapping(body.get("spec")))),
        "status": raw.shared(dict(raw.mapping(body.get("status")))),
        "created_at": raw.instant(metadata.get("creationTimestamp")),
        "deleting": "deletionTimestamp" in metadata,
        "version": raw.text(metadata.get("resourceVersion")),
    }


def child_of(kind: str, body: raw.Object) -> Child:
    """A Deployment, LeaderWorkerSet, Job, Service or ConfigMap. The owner counts only where it is a BenchmarkRun that controls it."""
    metadata = raw.mapping(body.get("metadata"))
    labels, annotations = raw.mapping(metadata.get("labels")), raw.mapping(metadata.get("annotations"))
    owner = raw.controller(metadata)
    is_run = owner.get("kind") == names.KIND and raw.text(owner.get("apiVersion")).startswith(f"{names.GROUP}/")
    sequence = raw.number(labels.get(names.LABEL_SEQUENCE), default=-1)
    return Child(
        kind=kind,
        name=raw.text(metadata.get("name")),
        uid=raw.text(metadata.get("uid")),
        role=raw.text(labels.get(names.LABEL_ROLE)),
        owner_uid=(raw.text(owner.get("uid")) or None) if is_run else None,
        deleting="deletionTimestamp" in metadata,
        applied_hash=raw.text(annotations.get(names.ANNOTATION_APPLIED)) or None,
        sequence=sequence if sequence >= 0 else None,
        record_digest=raw.text(annotations.get(names.ANNOTATION_DIGEST)) or None,
        stage_id=raw.text(annotations.get(names.ANNOTATION_STAGE)) or None,
        plan_digest=raw.text(annotations.get(names.ANNOTATION_PLAN_DIGEST)) or None,
        ends_search=raw.text(annotations.get(names.ANNOTATION_ENDS_SEARCH)) or None,
        stored_bytes=raw.number(annotations.get(names.ANNOTATION_BYTES)),
        created_at=raw.instant(metadata.get("creationTimestamp")),
        failure=_failure(kind, raw.mapping(body.get("status"))),
    )


def pod_of(body: raw.Object) -> Pod:
    """A pod. Its run-uid label is believed only where a ReplicaSet, StatefulSet or Job controls it; else `run_uid` is empty."""
    metadata, spec, status = (raw.mapping(body.get(key)) for key in ("metadata", "spec", "status"))
    labels = raw.mapping(metadata.get("labels"))
    role = raw.text(labels.get(names.LABEL_ROLE))
    container = _main_container(spec.get("containers"), role)
    reported = _main_container(status.get("containerStatuses"), role)
    state, last = raw.mapping(reported.get("state")), raw.mapping(reported.get("lastState"))
    waiting = _before_it(status) or raw.mapping(state.get("waiting"))
    scheduled = raw.condition(status, "PodScheduled")
    controlled = raw.text(raw.controller(metadata).get("kind")) in ("ReplicaSet", "StatefulSet", "Job")
    reason, message = _pod_reason(status)
    return Pod(
        name=raw.text(metadata.get("name")),
        uid=raw.text(metadata.get("uid")),
        role=role,
        run_uid=raw.text(labels.get(names.LABEL_RUN_UID)) if controlled else "",
        rank=raw.number(labels.get(names.LABEL_WORKER_INDEX) or labels.get(names.LABEL_COMPLETION_INDEX)),
        ip=raw.text(status.get("podIP")) or None,
        phase=raw.text(status.get("phase")),
        ready=raw.condition(status, "Ready").get("status") == "True",
        deleting="deletionTimestamp" in metadata,
        node=raw.text(spec.get("nodeName")) or None,
        scheduled_at=raw.instant(scheduled.get("lastTransitionTime")) if scheduled.get("status") == "True" else None,
        created_at=raw.instant(metadata.get("creationTimestamp")),
        started_at=_started_at(state),
        restarts=raw.number(reported.get("restartCount")),
        image=raw.text(container.get("image"), MAX_IMAGE_CHARS) or None,
        image_digest=raw.text(reported.get("imageID"), MAX_IMAGE_CHARS).removeprefix("docker-pullable://") or None,
        gpus=_gpus(container),
        args=_args(container.get("args")),
        unschedulable=_unschedulable(scheduled),
        waiting_reason=raw.text(waiting.get("reason")) or None,
        waiting_message=raw.text(waiting.get("message"), raw.MAX_MESSAGE_CHARS) or None,
        terminated=_termination(state.get("terminated")),
        last_terminated=_termination(last.get("terminated")),
        pod_reason=reason,
        pod_message=message,
    )


def _failure(kind: str, status: raw.Object) -> str | None:
    type_ = {"Deployment": "ReplicaFailure", "Job": "Failed"}.get(kind)
    found = raw.condition(status, type_) if type_ else {}
    if found.get("status") != "True":
        return None
    reason, message = (raw.text(found.get("reason")), raw.text(found.get("message"), raw.MAX_MESSAGE_CHARS))
    return f"{reason}: {message}" if message else reason or None


def _main_container(containers: object, role: str) -> raw.Object:
    """The container named for the role, or the first: a sidecar that was injected is never taken for it."""
    listed = list(raw.mappings(containers))
    name = main_container(role)
    return next((c for c in listed if c.get("name") == name), listed[0] if len(listed) == 1 else {})


def _before_it(status: raw.Object) -> raw.Object:
    """What an init container waits for: the main container only says that it waits for that."""
    states = (raw.mapping(each.get("state")) for each in raw.mappings(status.get("initContainerStatuses")))
    waiting = (raw.mapping(state.get("waiting")) for state in states)
    return next((each for each in waiting if each.get("reason") not in (None, "PodInitializing")), {})


def _pod_reason(status: raw.Object) -> tuple[str | None, str | None]:
    """Why the whole pod ended, or is about to: its own reason, or that of its DisruptionTarget condition."""
    disruption = raw.condition(status, "DisruptionTarget")
    told = status if status.get("reason") else disruption if disruption.get("status") == "True" else {}
    return raw.text(told.get("reason")) or None, raw.text(told.get("message"), raw.MAX_MESSAGE_CHARS) or None


def _started_at(state: raw.Object) -> datetime | None:
    started = raw.mapping(state.get("running")) or raw.mapping(state.get("terminated"))
    return raw.instant(started.get("startedAt"))


def _termination(value: object) -> Termination | None:
    ended = raw.mapping(value)
    if not ended:
        return None
    return Termination(
        exit_code=raw.number(ended.get("exitCode"), default=-1),
        reason=raw.text(ended.get("reason")),
        message=raw.end_of(ended.get("message")),
    )


def _unschedulable(scheduled: raw.Object) -> str | None:
    if scheduled.get("status") != "False" or scheduled.get("reason") != "Unschedulable":
        return None
    return raw.text(scheduled.get("message"), raw.MAX_MESSAGE_CHARS) or "the scheduler gave no reason"


def _gpus(container: raw.Object) -> int:
    """Whole devices of any vendor: `nvidia.com/gpu`, `amd.com/gpu`, `nvidia.com/mig-1g.10gb` ..."""
    limits = raw.mapping(raw.mapping(container.get("resources")).get("limits"))
    return sum(raw.number(amount) for name, amount in limits.items() if is_gpu(name))


def _args(value: object) -> tuple[str, ...]:
    if not isinstance(value, list):
        return ()
    return tuple(raw.text(arg, MAX_ARG_CHARS) for arg in value[:MAX_ARGS])


# The kubelet's events tell how long a pod waited for its image:
#
# Successfully pulled image "vllm/vllm-openai:v0.32.0" in 1m2.5s (1m3.25s including waiting). Image size: ...
# Container image "vllm/vllm-openai:v0.32.0" already present on machine

_PULLED = re.compile(
    r"Successfully pulled image .{1,1024} in ([0-9.a-zµ]{2,40})(?: \(([0-9.a-zµ]{2,40}) including waiting\))?"
)
_PRESENT = "already present on machine"
_PARTS = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,12})?)(h|ms|m|s|µs|us|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "us": 1e-6, "ns": 1e-9}


def image_pull_seconds(events: Iterable[raw.Object], *, container: str) -> float | None:
    """The wait for the container's image, that for other pulls included; 0 where the node had it. None: nothing tells."""
    own = [raw.text(e.get("message"), raw.MAX_MESSAGE_CHARS) for e in events if _is_about(e, container)]
    waits = [wait for message in own if (wait := _wait(message)) is not None]
    return max(waits, default=None)  # a container that was started again found its image there


def _is_about(event: raw.Object, container: str) -> bool:
    path = raw.text(raw.mapping(event.get("involvedObject")).get("fieldPath"))
    return event.get("reason") == "Pulled" and path == f"spec.containers{{{container}}}"


def _wait(message: str) -> float | None:
    if _PRESENT in message:
        return 0.0
    pulled = _PULLED.match(message)
    return _go_duration(pulled[2] or pulled[1]) if pulled is not None else None


def _go_duration(text: str) -> float | None:
    """Seconds of `1m2.5s`, as Go writes them."""
    parts = _PARTS.findall(text)
    if "".join(f"{number}{unit}" for number, unit in parts) != text:
        return None
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
