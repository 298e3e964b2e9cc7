"""Server roles: what a run starts. One, `server`, with vLLM's API server or without; or `prefill`, `decode` and `proxy`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchrun import names
from benchrun.api import DEVELOPMENT_MODE, BenchmarkRunSpec, Disaggregated, KVTransfer, Model, Server
from benchrun.plan import pods
from benchrun.plan.pods import MAX_HOLD_SECONDS, Owner, hold_seconds
from benchrun.plan.vllm_pod import (
    SERVER_CONTAINER,
    SERVER_PORT,
    engine_args,
    node_args,
    node_env,
    server_args,
    vllm_pod,
    without_api_server,
)

PROXY_CONTAINER = "proxy"
PROXY_USER = 65532
PROXY_REQUESTS = {"cpu": "500m", "memory": "256Mi"}
PROXY_MODULE = "benchrun_client.proxy"
_KV_ROLES = {names.ROLE_PREFILL: "kv_producer", names.ROLE_DECODE: "kv_consumer"}
_OWN_ADDRESS = "VLLM_NIXL_SIDE_CHANNEL_HOST"
"""Where NIXL tells the other side to find it; its own default is localhost, which is another pod's own."""


def kv_transfer_config(transfer: KVTransfer, role: str) -> str:
    """vLLM's --kv-transfer-config of a role, as JSON."""
    kv_role = "kv_both" if transfer.roles == "Both" else _KV_ROLES[role]
    fields: dict[str, Any] = {"kv_connector": transfer.connector, "kv_role": kv_role}
    if transfer.extra_config is not None:
        fields["kv_connector_extra_config"] = transfer.extra_config
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def role_args(model: Model, server: Server, transfer: KVTransfer, role: str) -> list[str]:
    """Arguments of `vllm serve` in this role; the user's own flags have the last word."""
    path, *ours = server_args(model, server.args_of(role))
    return [path, f"--kv-transfer-config={kv_transfer_config(transfer, role)}", *ours]


def role_pod(
    model: Model, server: Server, transfer: KVTransfer, role: str, own_env: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    """Pod of a vLLM that prefills, or decodes."""
    address = {"name": _OWN_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    says_where = any(variable.name == _OWN_ADDRESS for variable in server.env)
    env = own_env if says_where else (*own_env, address)
    args = role_args(model, server, transfer, role)
    return vllm_pod(model, server, args=args, own_env=env, resources=server.resources_of(role))


def role_url(owner: Owner, role: str) -> str:
    """Where the servers of a role are found."""
    return f"http://{names.child_name(owner.name, owner.uid, role)}.{owner.namespace}.svc:{SERVER_PORT}"


def proxy_pod(
    owner: Owner, server: Server, split: Disaggregated, *, client_image: str, pull_policy: str
) -> dict[str, Any]:
    """Pod of the proxy: ours lies in the client's image, another's has an entry point of its own."""
    proxy = split.proxy
    where = [
        {"name": "PREFILL_URL", "value": role_url(owner, names.ROLE_PREFILL)},
        {"name": "DECODE_URL", "value": role_url(owner, names.ROLE_DECODE)},
    ]
    ours = ["--prefill=$(PREFILL_URL)", "--decode=$(DECODE_URL)", f"--port={SERVER_PORT}"]
    ours += [f"--prefill-replicas={split.prefill.replicas}", f"--decode-replicas={split.decode.replicas}"]
    program: dict[str, Any] = {"command": ["python3", "-m", PROXY_MODULE], "args": [*ours, *proxy.args]}
    container = {
        "name": PROXY_CONTAINER,
        "image": proxy.image or client_image,
        "imagePullPolicy": pull_policy if proxy.image is None else "IfNotPresent",
        **(program if proxy.image is None else {"args": proxy.args}),
        "env": where,
        "ports": [{"name": "http", "containerPort": SERVER_PORT}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 2, "timeoutSeconds": 5},
        "resources": pods.resources(proxy.resources, requests=PROXY_REQUESTS),
        "securityContext": {**pods.CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    secrets = {"imagePullSecrets": [{"name": name} for name in server.pod.image_pull_secrets or []]}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": pods.pod_security(PROXY_USER, None),
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        **(secrets if server.pod.image_pull_secrets else {}),
    }


@dataclass(frozen=True, slots=True)
class Role:
    """Pods of one kind that serve."""

    name: str
    replicas: int
    pod_spec: dict[str, Any]
    """Of each pod; of servers over several nodes that of the leader."""
    hold_seconds: int
    """How long its pods may hold their nodes, with an operator or without."""
    nodes: int = 1
    """Pods that make up each server."""


def role_replicas(spec: BenchmarkRunSpec) -> Mapping[str, int]:
    """How many servers of each role there are to be; nothing against an endpoint."""
    if spec.offline is not None:
        return {names.ROLE_SERVER: 1}
    if spec.server is None:
        return {}
    if spec.server.disaggregated is None:
        return {names.ROLE_SERVER: spec.server.replicas}
    vllm = {role: spec.server.replicas_of(role) for role in (names.ROLE_PREFILL, names.ROLE_DECODE)}
    return {**vllm, names.ROLE_PROXY: 1}


def nodes(spec: BenchmarkRunSpec) -> int:
    """How many pods make up each server."""
    return spec.server.nodes_per_replica if spec.server is not None else 1


def answering_servers(spec: BenchmarkRunSpec) -> int:
    """Servers that write answers; 0 against an endpoint."""
    return sum(count for role, count in role_replicas(spec).items() if role in names.ANSWERING_ROLES)


def front_role(spec: BenchmarkRunSpec) -> str:
    """The role that requests are sent to."""
    return names.ROLE_PROXY if names.ROLE_PROXY in role_replicas(spec) else names.ROLE_SERVER


def main_container(role: str) -> str:
    """The container of a serving role that its log is read from."""
    return PROXY_CONTAINER if role == names.ROLE_PROXY else SERVER_CONTAINER


def roles(
    owner: Owner,
    spec: BenchmarkRunSpec,
    *,
    client_image: str,
    pull_policy: str,
    max_hold_seconds: int = MAX_HOLD_SECONDS,
) -> tuple[Role, ...]:
    """The roles to start; none against an endpoint. An engine without API server takes its port's code from the client's image,
    and so does the proxy."""
    hold = hold_seconds(spec, max_hold_seconds)
    if spec.offline is not None:
        pod = without_api_server(spec.model, spec.offline, client_image=client_image, pull_policy=pull_policy)
        return (Role(names.ROLE_SERVER, 1, pod, hold),)
    if spec.server is None:
        return ()
    own = ({"name": DEVELOPMENT_MODE, "value": "1"},) if spec.measurement.cache_policy == "Reset" else ()
    split = spec.server.disaggregated
    if split is None:
        env = (*own, *node_env(nodes(spec), spec.server.env))
        pod = vllm_pod(spec.model, spec.server, args=started_args(spec), own_env=env)
        return (Role(names.ROLE_SERVER, spec.server.replicas, pod, hold, nodes(spec)),)
    proxy = proxy_pod(owner, spec.server, split, client_image=client_image, pull_policy=pull_policy)
    vllm = [
        Role(role, servers.replicas, role_pod(spec.model, spec.server, split.kv_transfer, role, own), hold)
        for role, servers in ((names.ROLE_PREFILL, split.prefill), (names.ROLE_DECODE, split.decode))
    ]
    return (*vllm, Role(names.ROLE_PROXY, 1, proxy, hold))


def in_development_mode(spec: BenchmarkRunSpec) -> bool:
    """Whether the servers open vLLM's development endpoints, for us or because the user wants it: never without a fence."""
    if spec.server is None:
        return False
    by_user = any(v.name == DEVELOPMENT_MODE and v.value != "0" for v in spec.server.env)
    return by_user or spec.measurement.cache_policy == "Reset"


def started_args(spec: BenchmarkRunSpec, role: str = names.ROLE_SERVER) -> list[str]:
    """Those of the vLLM that the run starts in this role; none against an endpoint."""
    if spec.offline is not None:
        return engine_args(spec.model, spec.offline)
    if spec.server is None:
        return []
    if spec.server.disaggregated is None:
        return server_args(spec.model, [*node_args(nodes(spec)), *spec.server.args])
    return role_args(spec.model, spec.server, spec.server.disaggregated.kv_transfer, role)


def answering_args(spec: BenchmarkRunSpec) -> list[str]:
    """Those of the servers that write answers."""
    split = spec.server is not None and spec.server.disaggregated is not None
    return started_args(spec, names.ROLE_DECODE if split else names.ROLE_SERVER)
