"""A namespace in which the API server refuses much.

It has a LimitRange, quotas, Pod Security and a ValidatingAdmissionPolicy. Each refuses the pods of
one run alone.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from runs_kit.cluster import Cluster
from runs_kit.manifests import NO_SCHEDULER

from kit.kubectl import Object
from kit.polling import polling

ENFORCED_SECONDS = 60.0
SLOT = "benchrun.dev/slots"  # a resource that no other pod asks for
MOST_CPUS = 64
MOST_SLOTS = 2
DENIED_POD = "admission-policy"
DENIED_OBJECT = "object-denied"  # runs
POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


def class_of(namespace: str) -> str:
    """Return the PriorityClass whose pods must name a memory limit.

    The policy has its name as well.
    """
    return f"refuses-{namespace}"


@asynccontextmanager
async def refusing(api: Cluster, namespace: str) -> AsyncIterator[None]:
    """Make the API server refuse, as this module says, while the context is open."""
    name = class_of(namespace)
    try:
        await _enforce_pod_security(api, namespace)
        await api.ask("POST", CLASSES, {"metadata": {"name": name}, "value": 1})
        await api.ask("POST", POLICIES, _policy(name, namespace))
        binding = {"policyName": name, "validationActions": ["Deny"]}
        await api.ask(
            "POST", BINDINGS, {"metadata": {"name": name}, "spec": binding}
        )
        for plural, body in _bounds(of_class=name).items():
            await api.ask(
                "POST",
                f"/api/v1/namespaces/{namespace}/{plural.split('/')[0]}",
                body,
            )
        await _until_enforced(api, namespace)
        await api.ask(
            "POST", f"/api/v1/namespaces/{namespace}/pods", _pod(slots=MOST_SLOTS)
        )
        yield
    finally:
        for path in (BINDINGS, POLICIES, CLASSES):
            await api.ask("DELETE", f"{path}/{name}")


async def _enforce_pod_security(api: Cluster, namespace: str) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "baseline"}
    path = f"/api/v1/namespaces/{namespace}"
    await api.ask("PATCH", path, {"metadata": {"labels": labels}}, merge=True)


def _bounds(*, of_class: str) -> dict[str, Object]:
    limit = {"type": "Container", "max": {"cpu": str(MOST_CPUS)}}
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": [of_class]}
    of_slots: Object = {"hard": {f"requests.{SLOT}": str(MOST_SLOTS)}}
    of_memory: Object = {
        "hard": {"limits.memory": "1Ti"},
        "scopeSelector": {"matchExpressions": [scope]},
    }
    return {
        "limitranges": {"metadata": {"name": "cpus"}, "spec": {"limits": [limit]}},
        "resourcequotas/slots": {"metadata": {"name": "slots"}, "spec": of_slots},
        "resourcequotas/memory": {
            "metadata": {"name": "memory"},
            "spec": of_memory,
        },
    }


def _policy(name: str, namespace: str) -> Object:
    """Return the policy that denies the pods of one run and the Deployment of another."""
    runs = f"object.metadata.labels['benchrun.dev/run'] == '{DENIED_POD}'"
    is_pod = f"request.resource.resource == 'pods' && {runs}"
    is_object = "request.resource.resource == 'deployments'"
    is_object += f" && {runs.replace(DENIED_POD, DENIED_OBJECT)}"
    rules: list[Any] = [
        {
            "apiGroups": ["", "apps"],
            "apiVersions": ["v1"],
            "operations": ["CREATE"],
            "resources": ["pods", "deployments"],
        }
    ]
    spec = {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "resourceRules": rules,
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": namespace}
            },
            "objectSelector": {"matchLabels": {"benchrun.dev/role": "server"}},
        },
        "validations": [
            {
                "expression": f"!({is_pod}) && !({is_object})",
                "message": "servers are not allowed today",
            }
        ],
    }
    return {"metadata": {"name": name}, "spec": spec}


async def _until_enforced(api: Cluster, namespace: str) -> None:
    """Wait until the policy is enforced and the quotas are known.

    That is some seconds after their creation.
    """
    pods = f"/api/v1/namespaces/{namespace}/pods?dryRun=All"
    quotas = f"/api/v1/namespaces/{namespace}/resourcequotas"
    for _ in polling("policy and quotas are enforced", seconds=ENFORCED_SECONDS):
        listed = (await api.ask("GET", quotas))["items"]
        if not all(quota.get("status", {}).get("used") for quota in listed):
            continue
        try:
            await api.ask("POST", pods, _pod(run=DENIED_POD))
        except RuntimeError as refused:
            if "not allowed today" in str(refused):
                return


def _pod(*, slots: int = 0, run: str = "filler") -> Object:
    """Return a pod that nothing ever runs."""
    container = {
        "name": "none",
        "image": "none",
        "resources": {"limits": {SLOT: str(slots)}},
    }
    labels = {"benchrun.dev/run": run, "benchrun.dev/role": "server"}
    return {
        "metadata": {"name": f"pod-{run}", "labels": labels},
        "spec": {"schedulerName": NO_SCHEDULER, "containers": [container]},
    }
