"""Test pods, which show whether images can be pulled and what a pod's network reaches."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from benchrun_client.engines import ENGINES

from benchrun import names
from benchrun.doctor.asking import (
    ApiAnswer,
    ApiQuery,
    CheckLine,
    not_checked,
    ok,
    problem,
    warning,
)
from benchrun.doctor.dry_runs import refused
from benchrun.doctor.target import PlannedPod, RunTarget
from benchrun.observe import (
    Pod,
    diagnose_client,
    diagnose_server,
    pod_of,
    untrusted_json as raw,
)

LABEL = f"{names.GROUP}/doctor"
"""Label of the test pods. A run's pods never have it."""
DEADLINE_SECONDS = 600
"""Seconds after which Kubernetes ends a test pod that nobody deleted."""
LONGEST_WAIT_SECONDS = 540
_LOOK_SECONDS = 10
_SERVICE = "kubernetes.default.svc"  # A DNS name in every cluster.
_WHAT = {
    "dns": (
        "name service",
        "Let the pods reach the cluster's DNS (port 53, UDP and TCP).",
    ),
    "hub": (
        "model hub",
        "Let the pods reach it or a mirror (HF_ENDPOINT in the client's image, spec.server.env), "
        "or use a model in a claim. After 401 or 403: set spec.model.source.hub.tokenSecretRef.",
    ),
    "api": (
        "path to the API server",
        "The pods of a run do not need it, but what blocks it may block other connections, too.",
    ),
}
_NEEDED = ("dns", "hub")


def client_probe(target: RunTarget, script: str, name: str) -> dict[str, Any]:
    """Build a test pod like the client's, with a script in place of the client.

    It has the image, Secrets, claims, account and placement of the client's pod, but not the plan,
    because no run exists.
    """
    model = target.spec.model
    revision = quote(model.revision or "main", safe="")
    from_hub = target.is_given and model.source.hub is not None
    file = f"{quote(model.name)}/resolve/{revision}/config.json" if from_hub else ""
    words = ["python3", "-c", script, _SERVICE, file, str(_LOOK_SECONDS)]
    return _probe(target.pods[0], {"command": words, "args": []}, target, name)


def server_probe(pod: PlannedPod, target: RunTarget, name: str) -> dict[str, Any]:
    """Build a test pod like a server's, without devices, that ends at once."""
    program = {"command": ["/bin/sh", "-c", "exit 0"], "args": []}
    return _probe(pod, program, target, name)


def _probe(
    pod: PlannedPod, program: dict[str, Any], target: RunTarget, name: str
) -> dict[str, Any]:
    own = {each["metadata"]["name"] for each in target.objects}
    gone = {
        each["name"]
        for each in pod.spec["volumes"]
        if each.get("configMap", {}).get("name") in own
    }
    main = pod.spec["containers"][0]
    container = {
        key: value
        for key, value in main.items()
        if key not in ("ports", "readinessProbe", "resources")
    }
    mounts = [each for each in main["volumeMounts"] if each["name"] not in gone]
    small = {
        "requests": {"cpu": "250m", "memory": "128Mi"},
        "limits": {"cpu": "1", "memory": "256Mi"},
    }
    spec = {
        key: value for key, value in pod.spec.items() if key != "initContainers"
    } | {
        "containers": [
            {**container, **program, "volumeMounts": mounts, "resources": small}
        ],
        "volumes": [v for v in pod.spec["volumes"] if v["name"] not in gone],
        "restartPolicy": "Never",
        "activeDeadlineSeconds": DEADLINE_SECONDS,
        "terminationGracePeriodSeconds": 1,
    }
    given = pod.manifest["metadata"]
    labels = {LABEL: pod.role, names.LABEL_ROLE: pod.role}
    metadata = {
        "name": name,
        "labels": {**_of_others(given["labels"]), **labels},
        "annotations": _of_others(given.get("annotations", {})),
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _of_others(given: dict[str, str]) -> dict[str, str]:
    """Return the labels or annotations that are not benchrun's own.

    Policies and meshes select pods by them. With benchrun's own, the pod would belong to a run.
    """
    own = f"{names.GROUP}/"
    return {key: value for key, value in given.items() if not key.startswith(own)}


def creation(manifest: dict[str, Any], namespace: str) -> ApiQuery:
    """Build the request that creates a test pod: doctor's only request that changes something."""
    path = f"/api/v1/namespaces/{namespace}/pods"
    return ApiQuery(path, json.dumps(manifest))


def may_be_there(answer: ApiAnswer) -> bool:
    """Return whether the pod may exist, after the answer to its creation.

    An error that the API server did not name may be a lost connection, after the pod was created.
    """
    return answer.trouble not in ("Forbidden", "NotFound")


def left_behind(name: str, namespace: str, words: str) -> CheckLine:
    """Build the warning about a test pod that could not be deleted."""
    return warning(
        "started",
        subject=f"pod {name}",
        sentence=f"was not deleted: {words}",
        remedy=f"kubectl delete pod {name} --namespace {namespace}; it ends by itself after "
        f"{DEADLINE_SECONDS} s.",
    )


def has_ended(body: raw.Object) -> bool:
    """Return whether the pod has ended or can't start."""
    return _is_over(pod_of(body)) or _trouble(body) is not None


def _is_over(view: Pod) -> bool:
    """Return whether the main container has ended. A sidecar may still run."""
    return view.phase in ("Succeeded", "Failed") or view.terminated is not None


def _trouble(body: raw.Object) -> str | None:
    """Return why the pod can't start, in the words of a run's status; None if it may start."""
    view = pod_of(body)
    if _is_over(view):
        return None
    # Any engine will do: only the log of a server that has ended depends on it.
    engine = next(iter(ENGINES.values()))
    diagnose = (
        diagnose_client if view.role == names.ROLE_CLIENT else diagnose_server
    )
    found = diagnose([view], None, engine)
    return found.message if found is not None and found.terminal else None


def created(answer: ApiAnswer, pod: PlannedPod) -> CheckLine | None:
    """Build the line on a test pod that could not be created; None if it was created."""
    if not answer.trouble:
        return None
    line = refused("started", f"started {pod.subject}", answer, pod.place)
    if line.state != "NotChecked":
        return line
    return replace(
        line, remedy="Ask for the right to create pods, or leave out --pods."
    )


def results(
    body: raw.Object, lines: Sequence[str], pod: PlannedPod
) -> Iterator[CheckLine]:
    """Yield the results of a test pod.

    `body` is the pod as it was last seen, and `lines` is what it printed.
    """
    subject = f"started {pod.subject}"
    if (why := _trouble(body)) is not None:
        message, _, remedy = why.rpartition(". ")
        yield problem(
            "started", subject=subject, sentence=message or why, remedy=remedy
        )
        return
    view = pod_of(body)
    if not _is_over(view):
        waits = view.unschedulable or view.waiting_reason or view.phase or "unknown"
        yield not_checked(
            "started",
            subject=subject,
            sentence=f"did not start in time ({waits})",
            remedy="Give it longer with --timeout, or see kubectl describe nodes.",
        )
        return
    ending = view.ending
    if ending.exit_code != 0 if ending is not None else view.phase == "Failed":
        code = "" if ending is None else f" with exit code {ending.exit_code}"
        words = view.pod_reason or (ending.reason if ending is not None else "")
        yield problem(
            "started",
            subject=subject,
            sentence=f"ended{code} ({words or 'no reason given'})",
            remedy="Is its image for the nodes' platform, and does it have a shell and Python?",
        )
        return
    yield ok(
        "started",
        subject=subject,
        sentence=f"its image was pulled, and it ran on {view.node or 'a node'}",
    )
    yield from _tried(lines)


def _tried(lines: Sequence[str]) -> Iterator[CheckLine]:
    """Yield a result for each line that the script printed, skipping other lines."""
    for line in lines:
        found = raw.mapping(raw.parsed(line.encode()))
        name = raw.text(found.get("name"))
        if name not in _WHAT:
            continue
        what, remedy = _WHAT[name]
        words = raw.text(found.get("words"), 300)
        if found.get("fine") is True:
            yield ok(name, subject=what, sentence=words)
        else:
            make = problem if name in _NEEDED else warning
            yield make(name, subject=what, sentence=words, remedy=remedy)
