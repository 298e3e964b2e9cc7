"""The NetworkPolicies of a run: who may connect to its servers and to its client, and nobody else."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from benchrun.api import names
from benchrun.plan.client_manifests import client_network_policy
from benchrun.plan.metadata import Manifest, Owner
from benchrun.plan.roles import Role
from benchrun.plan.server_manifests import network_policy
from unit.plan.specs import OWNER, UID

Json = dict[str, Any]
OF_THE_RUN = {"benchrun.dev/run": "qwen", "benchrun.dev/run-uid": UID}
CLIENT = {"podSelector": {"matchLabels": {**OF_THE_RUN, "benchrun.dev/role": "client"}}}
SERVERS = {
    "podSelector": {
        "matchLabels": OF_THE_RUN,
        "matchExpressions": [
            {"key": "benchrun.dev/role", "operator": "In", "values": ["server", "prefill", "decode", "proxy"]}
        ],
    }
}
OPERATOR = {
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "bench-system"}},
    "podSelector": {
        "matchLabels": {"app.kubernetes.io/part-of": "benchrun", "app.kubernetes.io/component": "operator"}
    },
}
PROMETHEUS = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}


def policy_of(role: str, *rules: Json) -> Json:
    """The whole object but for what `metadata` says of every child."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "spec": {
            "podSelector": {"matchLabels": {**OF_THE_RUN, "benchrun.dev/role": role}},
            "policyTypes": ["Ingress"],
            "ingress": list(rules),
        },
    }


def without_metadata(manifest: Manifest) -> Json:
    meta = manifest["metadata"]
    (owner,) = meta["ownerReferences"]
    assert (owner["uid"], owner["controller"], meta["namespace"]) == (UID, True, "lab")
    return {key: value for key, value in manifest.items() if key != "metadata"}


def port(number: int) -> list[Json]:
    return [{"port": number, "protocol": "TCP"}]


def made(role: str = "server", *, operator_namespace: str = "bench-system", extra_peers: tuple[Json, ...] = ()) -> Json:
    policy = network_policy(
        OWNER, Role(role, 1, {}, hold_seconds=60), operator_namespace=operator_namespace, extra_peers=extra_peers
    )
    assert policy["metadata"]["labels"][names.LABEL_ROLE] == role
    return without_metadata(policy)


@pytest.mark.parametrize("role", names.SERVING_ROLES)
def test_servers_are_for_the_client_the_operator_and_each_other(role: str) -> None:
    assert made(role) == policy_of(role, {"from": [CLIENT, OPERATOR], "ports": port(8000)}, {"from": [SERVERS]})


def test_further_peers_reach_the_servers_port() -> None:
    rule, _ = made(extra_peers=(PROMETHEUS,))["spec"]["ingress"]
    assert rule == {"from": [CLIENT, OPERATOR, PROMETHEUS], "ports": port(8000)}


def test_an_operator_outside_the_cluster_is_no_peer() -> None:
    rule, _ = made(operator_namespace="")["spec"]["ingress"]
    assert rule["from"] == [CLIENT]


def test_the_clients_records_are_for_the_operator_and_its_gate_for_its_own_pods() -> None:
    policy = client_network_policy(OWNER, operator_namespace="bench-system")
    records, gate = {"from": [OPERATOR], "ports": port(8090)}, {"from": [CLIENT], "ports": port(8091)}
    assert without_metadata(policy) == policy_of("client", records, gate)


def test_a_rule_without_peers_would_let_everybody_in() -> None:
    (gate,) = client_network_policy(OWNER, operator_namespace="")["spec"]["ingress"]
    assert gate["ports"] == port(8091)


def test_no_peer_is_known_by_labels_that_anybody_may_set_in_a_namespace_of_their_own() -> None:
    for policy in (made(), client_network_policy(OWNER, operator_namespace="bench-system")):
        for peer in (peer for rule in policy["spec"]["ingress"] for peer in rule["from"]):
            assert peer.get("namespaceSelector") != {}


def test_two_runs_of_one_name_do_not_let_each_other_in() -> None:
    namesake = Owner(OWNER.namespace, OWNER.name, "0" * 36)
    theirs = client_network_policy(namesake, operator_namespace="bench-system")["spec"]
    assert theirs["podSelector"]["matchLabels"].items() & OF_THE_RUN.items() == {("benchrun.dev/run", "qwen")}


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_policies_fit_the_schema_of_their_kind(version: str) -> None:
    role = Role("server", 1, {}, hold_seconds=60)
    kubernetes_validate.validate(
        network_policy(OWNER, role, operator_namespace="bench-system", extra_peers=[PROMETHEUS]), version, strict=True
    )
    kubernetes_validate.validate(client_network_policy(OWNER, operator_namespace="bench-system"), version, strict=True)
