"""`spec.server`, `spec.offline` and `spec.endpoint`: the vLLM to start, with its API server or without, or the one that exists."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from benchrun.api.base import DnsLabel, Key, ObjectName, SpecModel, Text
from benchrun.api.disaggregated import Disaggregated, RoleServers
from benchrun.api.model_source import SecretKeyRef
from benchrun.api.names import ROLE_DECODE, ROLE_PREFILL
from benchrun.api.pods import Args, Env, PodOverrides, Resources
from benchrun.api.rules import Rule, exactly_one

DEVELOPMENT_MODE = "VLLM_SERVER_DEV_MODE"
"""vLLM's variable that opens /reset_prefix_cache, and with it endpoints that run code and show variables."""


class Started(SpecModel):
    """Pods of vLLM that a run starts, measures and removes."""

    image: Text = Field(
        description="Image of the vLLM server; its entry point is `vllm serve`. Pin it by tag or digest."
    )
    args: Args = Field(
        default_factory=list,
        description="Flags of `vllm serve`, verbatim. Model, served name and port are added by the operator.",
    )
    env: Env = Field(default_factory=list, description="Environment variables of vLLM.")
    resources: Resources = Field(default_factory=Resources, description="What vLLM's container gets, GPUs among it.")
    pod: PodOverrides = Field(default_factory=PodOverrides, description="The pod of vLLM.")
    shared_memory: Annotated[str, Field(max_length=16, pattern=r"^[0-9]+(Mi|Gi)$")] = Field(
        default="2Gi",
        description="Size of /dev/shm; tensor parallelism needs several GiB. Counts against the memory limit.",
    )

    def args_of(self, role: str) -> list[str]:
        """Flags that the spec gives to vLLM in this role."""
        del role
        return self.args


class Server(Started):
    """The vLLM server this run starts, measures and removes. Disaggregated, it is servers that prefill and servers that decode."""

    rules = (
        Rule(
            cel="!has(self.disaggregated) || (self.replicas == 1 && "
            "(!has(self.resources) || ((!has(self.resources.limits) || size(self.resources.limits) == 0) && "
            "(!has(self.resources.requests) || size(self.resources.requests) == 0))))",
            holds=lambda server: server.disaggregated is None or (server.replicas == 1 and not _asks(server.resources)),
            message="disaggregated has servers of two roles: give replicas and resources under disaggregated.prefill "
            "and disaggregated.decode instead",
            path=".disaggregated",
        ),
        Rule(
            cel="!has(self.disaggregated) || self.nodesPerReplica == 1",
            holds=lambda server: server.disaggregated is None or server.nodes_per_replica == 1,
            message="disaggregated has servers of one node each: leave nodesPerReplica at 1",
            path=".nodesPerReplica",
        ),
    )
    replicas: Annotated[int, Field(ge=1, le=16)] = Field(
        default=1,
        description="Servers of this kind, each in a pod of its own with all its resources; requests take turns over them.",
    )
    nodes_per_replica: Annotated[int, Field(ge=1, le=16)] = Field(
        default=1,
        description="Pods that make up each server, together one vLLM; resources are those of each pod. More than one needs "
        "LeaderWorkerSet in the cluster, and parallel sizes in args whose product they share evenly.",
    )
    disaggregated: Disaggregated | None = Field(
        default=None,
        description="Servers that prefill and servers that decode, behind a proxy. Image, args, env, pod and sharedMemory of "
        "the server hold for both.",
    )

    def args_of(self, role: str) -> list[str]:
        """Those of the server, then those of the role."""
        return [*self.args, *self._of(role).args]

    def resources_of(self, role: str) -> Resources:
        """What each vLLM of this role gets."""
        return self._of(role).resources

    def replicas_of(self, role: str) -> int:
        """How many there are of this role."""
        return self._of(role).replicas

    def _of(self, role: str) -> RoleServers:
        if self.disaggregated is not None:
            return {ROLE_PREFILL: self.disaggregated.prefill, ROLE_DECODE: self.disaggregated.decode}[role]
        return RoleServers(replicas=self.replicas, resources=self.resources)


class Offline(Started):
    """vLLM's engine without its API server: each load is one call, as in `vllm bench throughput` and `vllm bench latency`."""

    image: Text = Field(
        description="Image with vLLM. Its Python runs the engine; the client's code is copied into the pod beside it."
    )
    args: Args = Field(
        default_factory=list,
        description="Flags of vLLM's engine, verbatim: those of `vllm bench throughput`. The operator adds the model.",
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


def _asks(resources: Resources) -> bool:
    return bool(resources.limits or resources.requests)
