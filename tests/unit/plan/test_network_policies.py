"""The NetworkPolicies of a run: who may connect to its servers and to its client, and nobody
else."""

from typing import Any

import kubernetes_validate
import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Owner
from benchrun.plan.network_policies import network_policy_manifests
from unit.plan.specs import OWNER, UID, Json, endpoint_body, spec

OF_THE_RUN = {"benchrun.dev/run": "qwen", "benchrun.dev/run-uid": UID}
CLIENT = {
    "podSelector": {"matchLabels": {**OF_THE_RUN, "benchrun.dev/role": "client"}}
}
SERVERS = {
    "podSelector": {"matchLabels": {**OF_THE_RUN, "benchrun.dev/role": "server"}}
}
OPERATOR = {
    "namespaceSelector": {
        "matchLabels": {"kubernetes.io/metadata.name": "bench-system"}
    },
    "podSelector": {
        "matchLabels": {
            "app.kubernetes.io/part-of": "benchrun",
            "app.kubernetes.io/component": "operator",
        }
    },
}
PROMETHEUS = {
    "namespaceSelector": {
        "matchLabels": {"kubernetes.io/metadata.name": "monitoring"}
    }
}
URL = BenchmarkRunSpec.model_validate(endpoint_body({"url": "http://llm"}))
SPLIT = spec(
    server={
        "image": "v",
        "disaggregated": {
            "prefill": {},
            "decode": {},
            "kvTransfer": {"connector": "N"},
        },
    }
)
TWO_NODES = spec(server={"image": "v", "nodesPerReplica": 2})


def roles(*values: str) -> Json:
    """The run's pods of these roles."""
    expression = {
        "key": "benchrun.dev/role",
        "operator": "In",
        "values": list(values),
    }
    return {"matchLabels": OF_THE_RUN, "matchExpressions": [expression]}


def port(number: int) -> list[Json]:
    return [{"port": number, "protocol": "TCP"}]


def made(
    run_spec: BenchmarkRunSpec | None = None,
    *,
    operator_namespace: str = "bench-system",
    **changes: Any,
) -> list[Json]:
    """The specs of the policies; their names differ."""
    policies = network_policy_manifests(
        OWNER, run_spec or spec(), operator_namespace=operator_namespace, **changes
    )
    assert len({policy["metadata"]["name"] for policy in policies}) == len(policies)
    for policy in policies:
        (owner,) = policy["metadata"]["ownerReferences"]
        assert (
            owner["uid"],
            owner["controller"],
            policy["metadata"]["namespace"],
        ) == (
            UID,
            True,
            "lab",
        )
        assert policy["spec"].pop("policyTypes") == ["Ingress"]
    return [policy["spec"] for policy in policies]


RECORDS = {"from": [OPERATOR], "ports": port(8090)}
GATE = {"from": [CLIENT], "ports": port(8091)}
TO_SERVERS = {"from": [CLIENT, OPERATOR], "ports": port(8000)}


def test_servers_are_for_the_client_and_the_operator_and_records_for_the_operator_only() -> (
    None
):
    assert made() == [
        {
            "podSelector": roles("client", "server"),
            "ingress": [TO_SERVERS, RECORDS, GATE],
        }
    ]


def test_against_an_endpoint_there_is_only_the_client() -> None:
    assert made(URL) == [
        {"podSelector": CLIENT["podSelector"], "ingress": [RECORDS, GATE]}
    ]


@pytest.mark.parametrize(
    ("run_spec", "serving"),
    [
        pytest.param(
            SPLIT,
            ("prefill", "decode", "proxy"),
            id="roles that hand over the KV cache",
        ),
        pytest.param(TWO_NODES, ("server",), id="a server of two pods"),
        pytest.param(
            spec(server={"image": "v", "replicas": 2}),
            ("server",),
            id="two servers",
        ),
    ],
)
def test_pods_that_serve_reach_each_other_but_not_the_clients_records(
    run_spec: BenchmarkRunSpec, serving: tuple[str, ...]
) -> None:
    servers = roles(*serving) if len(serving) > 1 else SERVERS["podSelector"]
    of_all, between = made(run_spec)
    assert of_all == {
        "podSelector": roles("client", *serving),
        "ingress": [TO_SERVERS, RECORDS, GATE],
    }
    assert between == {
        "podSelector": servers,
        "ingress": [{"from": [{"podSelector": servers}]}],
    }


def test_where_only_servers_are_fenced_their_policy_is_one() -> None:
    assert made(servers_only=True) == [
        {"podSelector": SERVERS["podSelector"], "ingress": [TO_SERVERS]}
    ]
    assert made(TWO_NODES, servers_only=True) == [
        {
            "podSelector": SERVERS["podSelector"],
            "ingress": [TO_SERVERS, {"from": [SERVERS]}],
        }
    ]


def test_further_peers_reach_the_servers_port_alone() -> None:
    (policy,) = made(extra_peers=[PROMETHEUS])
    assert policy["ingress"] == [
        {**TO_SERVERS, "from": [CLIENT, OPERATOR, PROMETHEUS]},
        RECORDS,
        GATE,
    ]


def test_an_operator_outside_the_cluster_is_not_a_network_peer() -> None:
    (policy,) = made(operator_namespace="")
    assert policy["ingress"] == [{"from": [CLIENT], "ports": port(8000)}, GATE]


def test_no_peer_is_known_by_labels_that_anybody_may_set_in_a_namespace_of_their_own() -> (
    None
):
    peers = [
        peer
        for policy in made(SPLIT)
        for rule in policy["ingress"]
        for peer in rule["from"]
    ]
    assert not [peer for peer in peers if peer.get("namespaceSelector") == {}]


def test_two_runs_of_one_name_do_not_let_each_other_in() -> None:
    namesake = Owner(OWNER.namespace, OWNER.name, "0" * 36)
    (theirs,) = network_policy_manifests(
        namesake, spec(), operator_namespace="bench-system"
    )
    selected = theirs["spec"]["podSelector"]["matchLabels"]
    assert selected.items() & OF_THE_RUN.items() == {("benchrun.dev/run", "qwen")}


@pytest.mark.parametrize("version", ["1.29", kubernetes_validate.latest_version()])
def test_policies_fit_the_schema_of_their_kind(version: str) -> None:
    for policy in network_policy_manifests(
        OWNER, SPLIT, operator_namespace="bench-system", extra_peers=[PROMETHEUS]
    ):
        kubernetes_validate.validate(policy, version, strict=True)
