"""`spec.server.disaggregated`: prefill and decode on servers of their own, with the KV cache handed over in between."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from benchrun.api.base import KubernetesObject, SpecModel, Text
from benchrun.api.pods import Args, Resources


class RoleServers(SpecModel):
    """Servers of one role. The rest they share: it stands in `server`."""

    replicas: Annotated[int, Field(ge=1, le=16)] = Field(
        default=1, description="Servers of this role, each in a pod of its own."
    )
    args: Args = Field(
        default_factory=list,
        description="Flags of `vllm serve` for this role, behind those of `server.args`; of a flag given twice, vLLM takes "
        "the last.",
    )
    resources: Resources = Field(default_factory=Resources, description="What each server of this role gets.")


class Proxy(SpecModel):
    """What the client talks to: it has a prompt prefilled by one server and hands the request to another, which decodes."""

    image: Text | None = Field(
        default=None,
        description="Image of another proxy, which serves on port 8000. The variables PREFILL_URL and DECODE_URL tell it "
        "where the servers are. Left out: benchrun's own.",
    )
    args: Args = Field(
        default_factory=list,
        description="Arguments of the proxy, verbatim; $(PREFILL_URL) and $(DECODE_URL) are filled in.",
    )
    resources: Resources = Field(
        default_factory=Resources, description="What the proxy gets; 500m of CPU and 256Mi if nothing is asked for."
    )


class KVTransfer(SpecModel):
    """How the KV cache comes from one to the other: vLLM's --kv-transfer-config, written for both roles. What is not here can be
    given whole as --kv-transfer-config in the args of each role, which then takes the place of ours."""

    connector: Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[A-Za-z][A-Za-z0-9_]*$")] = Field(
        description="vLLM's name of the connector, for example NixlConnector."
    )
    roles: Literal["Both", "ProducerConsumer"] = Field(
        default="Both",
        description="What vLLM is told as kv_role. Both: kv_both everywhere, as NixlConnector wants it. ProducerConsumer: "
        "kv_producer where prompts are prefilled and kv_consumer where answers are decoded.",
    )
    extra_config: KubernetesObject | None = Field(
        default=None,
        description="Settings of the connector itself (kv_connector_extra_config), by its own names, for example "
        "{shared_storage_path: /kv}.",
    )
    buffer_device: Literal["CUDA", "CPU"] | None = Field(
        default=None,
        description="Where the connector keeps what it sends (kv_buffer_device); vLLM's default if left out.",
    )
    load_failure_policy: Literal["Fail", "Recompute"] | None = Field(
        default=None,
        description="What becomes of a request whose KV cache does not arrive (kv_load_failure_policy); vLLM's default if left "
        "out.",
    )
    module_path: Annotated[str, Field(max_length=253)] | None = Field(
        default=None, description="Python module of a connector that vLLM does not bring (kv_connector_module_path)."
    )


class Disaggregated(SpecModel):
    """Prefill here, decode there."""

    prefill: RoleServers = Field(
        default_factory=RoleServers, description="Servers that compute the KV cache of prompts."
    )
    decode: RoleServers = Field(
        default_factory=RoleServers, description="Servers that fetch that KV cache and write the answers."
    )
    proxy: Proxy = Field(default_factory=Proxy, description="What requests go to.")
    kv_transfer: KVTransfer = Field(description="How the KV cache is handed over.")
