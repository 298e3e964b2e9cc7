"""Who may connect to the pods of a run: its NetworkPolicies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchrun_client.contract import GATE_PORT, RECORD_PORT
from benchrun_client.engines import ENGINE

from benchrun import names
from benchrun.api import BenchmarkRunSpec
from benchrun.plan.pods import Manifest, Owner, metadata, stamped
from benchrun.plan.roles import nodes, role_replicas

OPERATOR_LABELS = {"app.kubernetes.io/part-of": "benchrun", "app.kubernetes.io/component": "operator"}
"""What the chart gives the operator's pod, whatever the release is called."""


def network_policies(
    owner: Owner,
    spec: BenchmarkRunSpec,
    *,
    operator_namespace: str,
    extra_peers: Sequence[Manifest] = (),
    servers_only: bool = False,
) -> list[Manifest]:
    """One for all pods of the run, or for its servers only. Their port is for the run's client, for the operator, which scrapes, and
    for `extra_peers`; records are for the operator, and the gate for the run's own client pods. kubelet's probes come from the node,
    which NetworkPolicies let through.

    Pods that serve reach each other on every port: those of one server, and roles that hand over the KV cache, choose theirs.
    """
    operator, client = _operator_peers(operator_namespace), _own_pods(owner, names.ROLE_CLIENT)
    replicas = role_replicas(spec)
    servers = tuple(replicas)
    to_servers = [{"from": [client, *operator, *extra_peers], "ports": _tcp(ENGINE.port)}] if servers else []
    between = [{"from": [_own_pods(owner, *servers)]}] if sum(replicas.values()) * nodes(spec) > 1 else []
    if servers_only:
        return [_ingress_policy(owner, names.ROLE_SERVER, servers, [*to_servers, *between])]
    to_client = [{"from": operator, "ports": _tcp(RECORD_PORT)}, {"from": [client], "ports": _tcp(GATE_PORT)}]
    of_all = _ingress_policy(owner, names.ROLE_CLIENT, (names.ROLE_CLIENT, *servers), [*to_servers, *to_client])
    return [of_all, *([_ingress_policy(owner, names.ROLE_SERVER, servers, between)] if between else [])]


def _own_pods(owner: Owner, *roles: str) -> Manifest:
    """Pods of this run that have one of these roles. A peer without a namespace is one of the run's own namespace."""
    return {"podSelector": _selector(owner, roles)}


def _operator_peers(operator_namespace: str) -> list[Manifest]:
    """The operator's pods, selected by their namespace as well as by their labels: anybody can set labels in a namespace of their
    own. None without a namespace: an operator outside the cluster has no pod, and reads through the API server."""
    if not operator_namespace:
        return []
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": operator_namespace}}
    return [{"namespaceSelector": namespace, "podSelector": {"matchLabels": OPERATOR_LABELS}}]


def _ingress_policy(owner: Owner, role: str, roles: Sequence[str], rules: Sequence[Manifest]) -> Manifest:
    """Only what the rules say may connect to pods of these roles; what those connect to is not limited. A rule whose `from` is
    empty would let everybody in, so it is left out."""
    return stamped(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(owner, role=role),
            "spec": {
                "podSelector": _selector(owner, roles),
                "policyTypes": ["Ingress"],
                "ingress": [rule for rule in rules if rule["from"]],
            },
        }
    )


def _tcp(port: int) -> list[dict[str, Any]]:
    """This port alone."""
    return [{"port": port, "protocol": "TCP"}]


def _selector(owner: Owner, roles: Sequence[str]) -> Manifest:
    if len(roles) == 1:
        return {"matchLabels": names.labels(run=owner.name, uid=owner.uid, role=roles[0])}
    return {
        "matchLabels": {names.LABEL_RUN: owner.name, names.LABEL_RUN_UID: owner.uid},
        "matchExpressions": [{"key": names.LABEL_ROLE, "operator": "In", "values": list(roles)}],
    }
