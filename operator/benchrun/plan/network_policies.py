"""Build the NetworkPolicies of a run, which say who may connect to its pods."""

from collections.abc import Sequence
from typing import Any

from benchrun_client.contract import GATE_PORT, READER_PORT, RECORD_PORT

from benchrun import names
from benchrun.api import BenchmarkRunSpec
from benchrun.plan.child_objects import Manifest, Owner, metadata
from benchrun.plan.server_manifests import nodes, role_replicas

OPERATOR_LABELS = {
    "app.kubernetes.io/part-of": "benchrun",
    "app.kubernetes.io/component": "operator",
}
"""Labels that the chart gives the operator's pod, whatever the name of the release."""


def network_policy_manifests(
    owner: Owner,
    spec: BenchmarkRunSpec,
    *,
    operator_namespace: str,
    extra_peers: Sequence[Manifest] = (),
    servers_only: bool = False,
) -> list[Manifest]:
    """Build the NetworkPolicies of all pods of the run, or of its servers only.

    Servers accept connections from the run's client, from the operator, which scrapes them, and
    from `extra_peers`. The client accepts the operator, which fetches records, and its own pods,
    which meet at the gate. Serving pods reach each other on every port, because pods of one server,
    and roles that hand over the KV cache, choose their ports themselves.
    """
    namespace = {
        "namespaceSelector": {
            "matchLabels": {"kubernetes.io/metadata.name": operator_namespace}
        }
    }
    # Without a namespace the operator reads through the API server.
    operator = (
        [{**namespace, "podSelector": {"matchLabels": OPERATOR_LABELS}}]
        if operator_namespace
        else []
    )
    replicas = role_replicas(spec)
    servers = tuple(replicas)
    # A peer without a namespace is one of the run's own namespace.
    client = {"podSelector": _selector(owner, [names.ROLE_CLIENT])}
    to_servers = (
        [
            {
                "from": [client, *operator, *extra_peers],
                "ports": _tcp(spec.engine.port),
            }
        ]
        if servers
        else []
    )
    if spec.measurement.profile is not None and servers:
        to_servers += [{"from": [client], "ports": _tcp(READER_PORT)}]
    between = (
        [{"from": [{"podSelector": _selector(owner, servers)}]}]
        if sum(replicas.values()) * nodes(spec) > 1
        else []
    )
    if servers_only:
        return [
            _ingress_policy(
                owner, names.ROLE_SERVER, servers, [*to_servers, *between]
            )
        ]
    to_client = [
        {"from": operator, "ports": _tcp(RECORD_PORT)},
        {"from": [client], "ports": _tcp(GATE_PORT)},
    ]
    of_all = _ingress_policy(
        owner,
        names.ROLE_CLIENT,
        (names.ROLE_CLIENT, *servers),
        [*to_servers, *to_client],
    )
    return [
        of_all,
        *(
            [_ingress_policy(owner, names.ROLE_SERVER, servers, between)]
            if between
            else []
        ),
    ]


def _ingress_policy(
    owner: Owner, role: str, roles: Sequence[str], rules: Sequence[Manifest]
) -> Manifest:
    """Build a policy that lets only peers of the rules connect to pods of these roles.

    Outgoing connections are not limited. A rule with an empty `from` would admit everybody, so it
    is left out.
    """
    ingress = [rule for rule in rules if rule["from"]]
    spec = {
        "podSelector": _selector(owner, roles),
        "policyTypes": ["Ingress"],
        "ingress": ingress,
    }
    meta = metadata(owner, role=role)
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": meta,
        "spec": spec,
    }


def _tcp(port: int) -> list[dict[str, Any]]:
    return [{"port": port, "protocol": "TCP"}]


def _selector(owner: Owner, roles: Sequence[str]) -> Manifest:
    if len(roles) == 1:
        return {
            "matchLabels": names.labels(
                run=owner.name, uid=owner.uid, role=roles[0]
            )
        }
    return {
        "matchLabels": {
            names.LABEL_RUN: owner.name,
            names.LABEL_RUN_UID: owner.uid,
        },
        "matchExpressions": [
            {"key": names.LABEL_ROLE, "operator": "In", "values": list(roles)}
        ],
    }
