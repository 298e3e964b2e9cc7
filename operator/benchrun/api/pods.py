"""What a container of a run gets, and how its pod is placed: the same words for servers, roles and clients."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from benchrun.api.base import ATOMIC, KubernetesObject, ObjectName, Rule, SpecModel, Unique, exactly_one

Args = Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=128, json_schema_extra=ATOMIC)]
"""Command-line arguments, one an item."""
StringMap = Annotated[dict[str, Annotated[str, Field(max_length=253)]], Field(max_length=64)]
ObjectList = Annotated[list[KubernetesObject], Field(max_length=32, json_schema_extra=ATOMIC)]
Quantity = (
    Annotated[int, Field(ge=0)]
    | Annotated[str, Field(max_length=24, pattern=r"^[0-9]+(\.[0-9]+)?(m|k|[MGTPE]|[KMGTPE]i|e[0-9]{1,2})?$")]
)
"""A Kubernetes quantity: 1, "500m", "6Gi"."""
Quantities = Annotated[dict[str, Quantity], Field(max_length=32)]


_SOURCES = ("secretKeyRef", "configMapKeyRef", "fieldRef", "resourceFieldRef")
EnvSource = Annotated[
    dict[str, Annotated[dict[str, Annotated[str, Field(max_length=253)]], Field(max_length=4)]],
    Field(min_length=1, max_length=1),
    Rule(cel=f"self.all(source, source in {list(_SOURCES)})", message=f"must be one of {', '.join(_SOURCES)}"),
]
"""Kubernetes' EnvVarSource, without `optional`: a benchmark with a setting missing is another benchmark."""


class EnvVar(SpecModel):
    """An environment variable; secrets by reference only."""

    rules = (exactly_one("value", "value_from"),)
    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")]
    """Name of the variable."""
    value: Annotated[str, Field(max_length=4096)] | None = Field(None, description="Its value. Never a secret.")
    value_from: EnvSource | None = None
    """Where its value comes from, for example secretKeyRef: {name: s, key: k}; also configMapKeyRef, fieldRef and resourceFieldRef."""


Env = Annotated[list[EnvVar], Field(max_length=64), Unique("name")]


class Resources(SpecModel):
    """In Kubernetes' own terms of requests and limits."""

    limits: Quantities = Field(default_factory=dict, description="Limits by resource, for example nvidia.com/gpu: 1.")
    requests: Quantities = Field(default_factory=dict, description="Requests by resource name.")


def _without_token(volumes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Raises ValueError for a volume with a ServiceAccount token. A rule in the API server can't see into volumes."""
    for position, volume in enumerate(volumes):
        projected = volume.get("projected")
        sources = projected.get("sources") if isinstance(projected, dict) else None
        for each in sources if isinstance(sources, list) else []:
            if isinstance(each, dict) and "serviceAccountToken" in each:
                raise ValueError(
                    f"[{position}].projected: pods of a run get no ServiceAccount token; leave that source out"
                )
    return volumes


class PodOverrides(SpecModel):
    """How the pod is placed and what it mounts. Whoever may set this may do what a creator of pods may."""

    node_selector: StringMap | None = Field(None, description="Labels a node must have.")
    tolerations: ObjectList | None = Field(None, description="Kubernetes tolerations.")
    affinity: KubernetesObject | None = Field(None, description="Kubernetes affinity.")
    volumes: Annotated[ObjectList, AfterValidator(_without_token)] | None = Field(None, description="More volumes.")
    volume_mounts: ObjectList | None = Field(None, description="Mounts of these volumes in the main container.")
    runtime_class_name: ObjectName | None = Field(None, description="RuntimeClass of the pod.")
    priority_class_name: ObjectName | None = Field(None, description="PriorityClass of the pod.")
    scheduler_name: ObjectName | None = Field(None, description="Scheduler that places the pod.")
    service_account_name: ObjectName | None = Field(None, description="ServiceAccount of the pod; no token is mounted.")
    security_context: KubernetesObject | None = None
    """Kubernetes PodSecurityContext in place of the default, which is non-root with seccomp RuntimeDefault."""
    image_pull_secrets: Annotated[list[ObjectName], Field(max_length=8), Unique()] | None = None
    """Names of Secrets for pulling the image."""
