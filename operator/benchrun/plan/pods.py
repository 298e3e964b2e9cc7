"""What every pod of a run has in common: it stays where it is, holds no token, and gives up its privileges."""

from __future__ import annotations

from typing import Any

from benchrun.api.pods import EnvVar, PodOverrides, Resources

STAY = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Autoscalers that move a pod would void the measurement."""

CONTAINER_SECURITY: dict[str, Any] = {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}


def pod_security(user: int, override: dict[str, Any] | None) -> dict[str, Any]:
    """Restricted pod security for that user, unless the spec says otherwise."""
    if override is not None:
        return override
    return {
        "runAsNonRoot": True,
        "runAsUser": user,
        "runAsGroup": user,
        "fsGroup": user,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def placement(pod: PodOverrides) -> dict[str, Any]:
    """Fields of a pod spec that only say where and how it runs."""
    fields = {
        "nodeSelector": pod.node_selector,
        "tolerations": pod.tolerations,
        "affinity": pod.affinity,
        "runtimeClassName": pod.runtime_class_name,
        "priorityClassName": pod.priority_class_name,
        "schedulerName": pod.scheduler_name,
        "serviceAccountName": pod.service_account_name,
        "imagePullSecrets": [{"name": n} for n in pod.image_pull_secrets or []] or None,
    }
    return {name: value for name, value in fields.items() if value is not None}


def resources(given: Resources, *, requests: dict[str, str] | None = None) -> dict[str, Any]:
    """Container resources; `requests` are defaults for what the spec leaves out of both lists."""
    defaults = {k: v for k, v in (requests or {}).items() if k not in given.limits}
    merged = {"limits": given.limits, "requests": {**defaults, **given.requests}}
    return {name: amounts for name, amounts in merged.items() if amounts}


def environment(defaults: dict[str, str], *given: tuple[dict[str, Any], ...]) -> list[dict[str, Any]]:
    """Variables by name; later lists win over earlier ones, all win over the defaults."""
    merged: dict[str, dict[str, Any]] = {name: {"name": name, "value": value} for name, value in defaults.items()}
    for variables in given:
        merged |= {v["name"]: v for v in variables}
    return list(merged.values())


def env_vars(env: list[EnvVar]) -> tuple[dict[str, Any], ...]:
    """The spec's variables as Kubernetes writes them."""
    return tuple(
        {"name": v.name, "valueFrom": v.value_from} if v.value_from is not None else {"name": v.name, "value": v.value}
        for v in env
    )
