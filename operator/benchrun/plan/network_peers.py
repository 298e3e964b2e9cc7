"""Who may connect to the pods of a run: the peers of a NetworkPolicy, its ports, and the policy itself."""

from __future__ import annotations

from typing import Any

from benchrun.api import names
from benchrun.plan.metadata import Manifest, Owner, metadata, stamped

OPERATOR_LABELS = {"app.kubernetes.io/part-of": "benchrun", "app.kubernetes.io/component": "operator"}
"""What the chart gives the operator's pod, whatever the release is called."""


def own_pods(owner: Owner, *roles: str) -> Manifest:
    """Pods of this run that have one of these roles. A peer without a namespace is one of the run's own namespace."""
    return {"podSelector": _selector(owner, *roles)}


def operator_peers(operator_namespace: str) -> list[Manifest]:
    """The operator's pods, told by their namespace as well as by their labels: anybody can set labels in a namespace of their
    own. None without a namespace: an operator outside the cluster is no pod, and reads through the API server."""
    if not operator_namespace:
        return []
    namespace = {"matchLabels": {"kubernetes.io/metadata.name": operator_namespace}}
    return [{"namespaceSelector": namespace, "podSelector": {"matchLabels": OPERATOR_LABELS}}]


def ingress_policy(owner: Owner, role: str, *rules: Manifest) -> Manifest:
    """Only what the rules say may connect to the role's pods; what those connect to is not limited. A rule whose `from` is
    empty would let everybody in, so it is left out."""
    return stamped(
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata(owner, name=names.child_name(owner.name, owner.uid, role), role=role),
            "spec": {
                "podSelector": _selector(owner, role),
                "policyTypes": ["Ingress"],
                "ingress": [rule for rule in rules if rule["from"]],
            },
        }
    )


def tcp(port: int) -> list[dict[str, Any]]:
    """This port alone."""
    return [{"port": port, "protocol": "TCP"}]


def _selector(owner: Owner, *roles: str) -> Manifest:
    if len(roles) == 1:
        return {"matchLabels": names.labels(run=owner.name, uid=owner.uid, role=roles[0])}
    own = {names.LABEL_RUN: owner.name, names.LABEL_RUN_UID: owner.uid}
    return {
        "matchLabels": own,
        "matchExpressions": [{"key": names.LABEL_ROLE, "operator": "In", "values": list(roles)}],
    }
