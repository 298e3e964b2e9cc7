"""A server over several nodes: groups of pods of which one answers, told apart by what
LeaderWorkerSet gives them."""

from typing import Any

import pytest
from benchrun import names
from benchrun.api import BenchmarkRunSpec, Server
from benchrun.plan import Manifest, gpus, plan_of_client
from pydantic import ValidationError
from unit.client.plans import TOKEN_DIGEST
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, Json, spec

GIVEN = ["--tensor-parallel-size=8", "--pipeline-parallel-size=4"]


def server(**changes: Any) -> Json:
    return {
        "image": "v",
        "replicas": 2,
        "nodesPerReplica": 4,
        "args": GIVEN,
        **changes,
    }


def made(**changes: Any) -> list[Manifest]:
    return objects(OWNER, spec(server=server(**changes)))


def pods(manifests: list[Manifest]) -> tuple[Json, Json]:
    """The containers of leader and worker."""
    group = of_kind(manifests, "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"]
    (leader,), (worker,) = (
        group[f"{pod}Template"]["spec"]["containers"]
        for pod in ("leader", "worker")
    )
    return leader, worker


def test_replicas_are_groups_and_nodes_their_size() -> None:
    manifests = made()
    group = of_kind(manifests, "LeaderWorkerSet")["spec"]
    assert (group["replicas"], group["leaderWorkerTemplate"]["size"]) == (2, 4)
    assert "Deployment" not in {manifest["kind"] for manifest in manifests}


def test_a_server_of_one_node_is_a_deployment_that_knows_nothing_of_nodes() -> None:
    manifests = made(nodesPerReplica=1)
    (container,) = of_kind(manifests, "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    assert not [
        arg for arg in container["args"] if "node" in arg or "master" in arg
    ]
    assert "VLLM_HOST_IP" not in {variable["name"] for variable in container["env"]}
    assert (
        names.LABEL_WORKER_INDEX
        not in of_kind(manifests, "Service")["spec"]["selector"]
    )


def test_every_pod_knows_its_rank_and_the_leader_and_workers_serve_nobody() -> None:
    leader, worker = pods(made())
    place = [
        "--nnodes=4",
        "--node-rank=$(LWS_WORKER_INDEX)",
        "--master-addr=$(LWS_LEADER_ADDRESS)",
    ]
    assert leader["args"][-5:] == [*place, *GIVEN]
    assert worker["args"] == [*leader["args"], "--headless"]
    assert "readinessProbe" in leader
    assert not {"readinessProbe", "ports"} & set(worker)


def test_pods_differ_in_nothing_else() -> None:
    leader, worker = pods(made(resources={"limits": {"nvidia.com/gpu": 8}}))
    apart = {"args", "ports", "readinessProbe"}
    assert {k: v for k, v in leader.items() if k not in apart} == {
        k: v for k, v in worker.items() if k not in apart
    }


def test_a_pod_tells_the_others_its_own_address_unless_the_user_has_said_which() -> (
    None
):
    variables = {v["name"]: v for v in pods(made())[1]["env"]}
    assert variables["VLLM_HOST_IP"]["valueFrom"] == {
        "fieldRef": {"fieldPath": "status.podIP"}
    }
    given = pods(made(env=[{"name": "VLLM_HOST_IP", "value": "10.9.9.9"}]))[1][
        "env"
    ]
    assert [v["value"] for v in given if v["name"] == "VLLM_HOST_IP"] == [
        "10.9.9.9"
    ]


def test_a_failed_pod_is_left_to_be_looked_at() -> None:
    assert (
        of_kind(made(), "LeaderWorkerSet")["spec"]["leaderWorkerTemplate"][
            "restartPolicy"
        ]
        == "None"
    )


def test_the_client_is_sent_to_the_leaders_and_waits_for_as_many_servers_as_there_are_groups() -> (
    None
):
    assert (
        of_kind(made(), "Service")["spec"]["selector"][names.LABEL_WORKER_INDEX]
        == "0"
    )
    assert (
        plan_of_client(
            OWNER, spec(server=server()), token_digest=TOKEN_DIGEST
        ).target.servers
        == 2
    )


def test_no_service_of_ours_takes_the_name_of_the_one_that_leader_worker_set_makes() -> (
    None
):
    manifests = made()
    group = of_kind(manifests, "LeaderWorkerSet")["metadata"]["name"]
    assert group not in {
        m["metadata"]["name"] for m in manifests if m["kind"] == "Service"
    }


def test_servers_of_two_roles_are_of_one_node() -> None:
    split = {"kvTransfer": {"connector": "NixlConnector"}}
    with pytest.raises(ValidationError, match="nodesPerReplica"):
        Server.model_validate(
            {"image": "v", "nodesPerReplica": 2, "disaggregated": split}
        )
    assert (
        Server.model_validate(
            {"image": "v", "disaggregated": split}
        ).nodes_per_replica
        == 1
    )


def test_gpus_are_those_of_every_pod() -> None:
    assert (
        gpus(spec(server=server(resources={"limits": {"nvidia.com/gpu": 8}})))
        == 2 * 4 * 8
    )


@pytest.mark.parametrize("count", [0, 17])
def test_nodes_are_bounded(count: int) -> None:
    with pytest.raises(ValidationError):
        BenchmarkRunSpec.model_validate(
            {"server": {"image": "v", "nodesPerReplica": count}}
        )
