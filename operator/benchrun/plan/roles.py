"""Server roles: what a run starts. One, `server`, with vLLM's API server or without; or `prefill`, `decode` and the `proxy` that
requests go to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchrun.api import names
from benchrun.api.disaggregated import Disaggregated
from benchrun.api.server import DEVELOPMENT_MODE, Server
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.plan import disaggregated
from benchrun.plan.hold import MAX_HOLD_SECONDS, hold_seconds
from benchrun.plan.many_nodes import node_args, node_env
from benchrun.plan.metadata import Owner
from benchrun.plan.vllm_pod import SERVER_CONTAINER, server_args, vllm_pod
from benchrun.plan.without_api_server import engine_args, without_api_server


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
    return disaggregated.PROXY_CONTAINER if role == names.ROLE_PROXY else SERVER_CONTAINER


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
    proxy = disaggregated.proxy_pod(owner, spec.server, split, client_image=client_image, pull_policy=pull_policy)
    return (*_vllm_roles(spec, spec.server, split, own, hold), Role(names.ROLE_PROXY, 1, proxy, hold))


def _vllm_roles(
    spec: BenchmarkRunSpec, server: Server, split: Disaggregated, own_env: tuple[dict[str, Any], ...], hold: int
) -> tuple[Role, ...]:
    return tuple(
        Role(
            role,
            server.replicas_of(role),
            disaggregated.role_pod(spec.model, server, split.kv_transfer, role, own_env),
            hold,
        )
        for role in (names.ROLE_PREFILL, names.ROLE_DECODE)
    )


def in_development_mode(spec: BenchmarkRunSpec) -> bool:
    """Whether the servers open vLLM's development endpoints, for us or because the user wants it: never without a fence."""
    if spec.server is None:
        return False
    asked = any(v.name == DEVELOPMENT_MODE and v.value != "0" for v in spec.server.env)
    return asked or spec.measurement.cache_policy == "Reset"


def started_args(spec: BenchmarkRunSpec, role: str = names.ROLE_SERVER) -> list[str]:
    """Those of the vLLM that the run starts in this role; none against an endpoint."""
    if spec.offline is not None:
        return engine_args(spec.model, spec.offline)
    if spec.server is None:
        return []
    if spec.server.disaggregated is None:
        return server_args(spec.model, [*node_args(nodes(spec)), *spec.server.args])
    return disaggregated.role_args(spec.model, spec.server, spec.server.disaggregated.kv_transfer, role)


def answering_args(spec: BenchmarkRunSpec) -> list[str]:
    """Those of the servers that write answers."""
    split = spec.server is not None and spec.server.disaggregated is not None
    return started_args(spec, names.ROLE_DECODE if split else names.ROLE_SERVER)
