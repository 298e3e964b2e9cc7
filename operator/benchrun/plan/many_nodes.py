"""Pods of a server over several nodes: a leader with the API server, and workers without.

vLLM runs over nodes by its own processes, without Ray: every pod is started with the same arguments, knows its rank and the
leader's address, and all but the leader are headless. LeaderWorkerSet tells each pod its place.
"""

from __future__ import annotations

from typing import Any

from benchrun.api.pods import Env

_OWN_ADDRESS = "VLLM_HOST_IP"
"""Where vLLM tells the other nodes to find it; its own guess is the address it would reach the internet from."""


def node_args(nodes: int) -> list[str]:
    """Arguments of every pod of a server. LeaderWorkerSet puts both variables into its containers."""
    if nodes == 1:
        return []
    return [f"--nnodes={nodes}", "--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)"]


def node_env(nodes: int, given: Env) -> tuple[dict[str, Any], ...]:
    """Variables of every pod of a server, but for what the user has set."""
    if nodes == 1 or any(variable.name == _OWN_ADDRESS for variable in given):
        return ()
    return ({"name": _OWN_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},)


def worker_pod(leader: dict[str, Any]) -> dict[str, Any]:
    """The pod of a worker: the leader's without an API server, and so with nothing to probe."""
    vllm, *others = leader["containers"]
    headless = {name: value for name, value in vllm.items() if name not in ("ports", "readinessProbe")}
    return {**leader, "containers": [{**headless, "args": [*vllm["args"], "--headless"]}, *others]}
