"""`spec.server`, `spec.offline` and `spec.endpoint`: the vLLM to start, with its API server or without, or the one that exists."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import DnsLabel, Key, KubernetesObject, ObjectName, SpecModel, Text
from benchrun.api.model_source import SecretKeyRef
from benchrun.api.rules import ATOMIC, Rule, Unique, exactly_one

DEVELOPMENT_MODE = "VLLM_SERVER_DEV_MODE"
"""vLLM's variable that opens /reset_prefix_cache, and with it endpoints that run code and show variables."""
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
    Rule(
        cel=f"self.all(source, source in {list(_SOURCES)})",
        holds=lambda value: set(value) <= set(_SOURCES),
        message=f"must be one of {', '.join(_SOURCES)}",
    ),
]
"""Kubernetes' EnvVarSource, without `optional`: a benchmark with a setting missing is another benchmark."""


class EnvVar(SpecModel):
    """An environment variable; secrets by reference only."""

    rules = (exactly_one("value", "value_from"),)
    name: Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")] = Field(
        description="Name of the variable."
    )
    value: Annotated[str, Field(max_length=4096)] | None = Field(default=None, description="Its value. Never a secret.")
    value_from: EnvSource | None = Field(
        default=None,
        description="Where its value comes from, for example secretKeyRef: {name: s, key: k}; also configMapKeyRef, "
        "fieldRef and resourceFieldRef.",
    )


Env = Annotated[list[EnvVar], Field(max_length=64), Unique("name")]


class Resources(SpecModel):
    """In Kubernetes' own terms of requests and limits."""

    limits: Quantities = Field(
        default_factory=dict, description="Limits by resource name, for example nvidia.com/gpu: 1."
    )
    requests: Quantities = Field(default_factory=dict, description="Requests by resource name.")


class PodOverrides(SpecModel):
    """How the pod is placed and what it mounts. Whoever may set this may do what a creator of pods may."""

    node_selector: StringMap | None = Field(default=None, description="Labels a node must have.")
    tolerations: ObjectList | None = Field(default=None, description="Kubernetes tolerations.")
    affinity: KubernetesObject | None = Field(default=None, description="Kubernetes affinity.")
    volumes: ObjectList | None = Field(default=None, description="Further Kubernetes volumes.")
    volume_mounts: ObjectList | None = Field(default=None, description="Mounts of these volumes in the main container.")
    runtime_class_name: ObjectName | None = Field(default=None, description="RuntimeClass of the pod.")
    priority_class_name: ObjectName | None = Field(default=None, description="PriorityClass of the pod.")
    scheduler_name: ObjectName | None = Field(default=None, description="Scheduler that places the pod.")
    service_account_name: ObjectName | None = Field(
        default=None, description="ServiceAccount of the pod; no token is mounted."
    )
    security_context: KubernetesObject | None = Field(
        default=None,
        description="Kubernetes PodSecurityContext in place of the default, which is non-root with seccomp RuntimeDefault.",
    )
    image_pull_secrets: Annotated[list[ObjectName], Field(max_length=8), Unique()] | None = Field(
        default=None, description="Names of Secrets for pulling the image."
    )


class Started(SpecModel):
    """Pods of vLLM that a run starts, measures and removes."""

    image: Text = Field(
        description="Image of the vLLM server; its entry point is `vllm serve`. Pin it by tag or digest."
    )
    args: Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=128, json_schema_extra=ATOMIC)] = (
        Field(
            default_factory=list,
            description="Flags of `vllm serve`, verbatim. Model, served name and port are added by the operator.",
        )
    )
    env: Env = Field(default_factory=list, description="Environment variables of vLLM.")
    resources: Resources = Field(default_factory=Resources, description="What vLLM's container gets, GPUs among it.")
    pod: PodOverrides = Field(default_factory=PodOverrides, description="The pod of vLLM.")
    shared_memory: Annotated[str, Field(max_length=16, pattern=r"^[0-9]+(Mi|Gi)$")] = Field(
        default="2Gi",
        description="Size of /dev/shm; tensor parallelism needs several GiB. Counts against the memory limit.",
    )


class Server(Started):
    """The vLLM server this run starts, measures and removes."""

    replicas: Annotated[int, Field(ge=1, le=16)] = Field(
        default=1,
        description="Servers of this kind, each in a pod of its own with all its resources; requests take turns over them.",
    )


class Offline(Started):
    """vLLM's engine without its API server: each load is one call, as in `vllm bench throughput` and `vllm bench latency`."""

    image: Text = Field(
        description="Image with vLLM. Its Python runs the engine; the client's code is copied into the pod beside it."
    )
    args: Annotated[list[Annotated[str, Field(max_length=4096)]], Field(max_length=128, json_schema_extra=ATOMIC)] = (
        Field(
            default_factory=list,
            description="Flags of vLLM's engine, verbatim: those of `vllm bench throughput`. The operator adds the model.",
        )
    )


class ServiceRef(SpecModel):
    """A Service in the run's namespace."""

    name: DnsLabel = Field(description="Name of the Service.")
    port: Annotated[int, Field(ge=1, le=65535)] = Field(default=8000, description="Port of the Service.")


class ConfigMapKeyRef(SpecModel):
    """A key of a ConfigMap in the run's namespace."""

    name: ObjectName = Field(description="Name of the ConfigMap.")
    key: Key = Field(default="ca.crt", description="Key within the ConfigMap.")


class Endpoint(SpecModel):
    """It is measured and otherwise left alone. Exactly one of `serviceRef` and `url`."""

    rules = (exactly_one("service_ref", "url"),)
    service_ref: ServiceRef | None = Field(
        default=None, description="Service of the server; its pods are scraped for running, waiting and KV cache."
    )
    url: Annotated[str, Field(max_length=1024, pattern=r"^https?://[^/?#@\s]+(/[^?#\s]*)?$")] | None = Field(
        default=None, description="Base URL of the server, without /v1. Only the client pod ever connects to it."
    )
    api_key_secret_ref: SecretKeyRef | None = Field(default=None, description="API key for the server.")
    ca_config_map_ref: ConfigMapKeyRef | None = Field(
        default=None, description="Certificate of the CA that signed the server's."
    )
    allow_cache_reset: bool = Field(
        default=False,
        description="Allow cachePolicy Reset to empty the prefix cache of this server, for whoever else uses it too.",
    )
