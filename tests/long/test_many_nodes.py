"""Servers over several nodes with the real LeaderWorkerSet: found when it comes, measured as one,
freed as one.

Installs LeaderWorkerSet into the embedded cluster, and takes it away once, to see what a run says
without it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.plan import Owner
from kit.kubectl import RUN, Namespace, Object, command
from kit.processes import kill_container
from kit.runs import (
    VLLM_IMAGE,
    children_selector,
    condition,
    finished,
    merged,
    phase,
    simulated_run,
)
from unit.plan.objects import objects, of_kind

ROOT = Path(__file__).parents[2]
GROUPS = "leaderworkersets.leaderworkerset.x-k8s.io"
RANK = "leaderworkerset.sigs.k8s.io/worker-index"
LONGEST_NAME = "n" * 40
GONE_SECONDS = 45

pytestmark = pytest.mark.timeout(400)


def install() -> None:
    """LeaderWorkerSet into the cluster that is up."""
    command(sys.executable, str(ROOT / "devcluster"), "lws", timeout_seconds=1500)


def take_away() -> None:
    """LeaderWorkerSet and its kind."""
    command(
        "helm",
        "uninstall",
        "lws",
        "--namespace=lws-system",
        "--ignore-not-found",
        "--wait",
    )
    command("kubectl", "wait", "crd", GROUPS, "--for=delete", "--timeout=60s")


@pytest.fixture(scope="module")
def lws() -> None:
    """LeaderWorkerSet is installed."""
    install()


def over_nodes(
    name: str, *, server: Object | None = None, **spec: Any
) -> dict[str, Any]:
    """A run of simulated servers over two nodes each, a GPU on each of them; `server` is laid over
    that."""
    two = {
        "nodesPerReplica": 2,
        "args": ["--max-model-len=4096", "--tensor-parallel-size=2"],
    }
    return simulated_run(name, server=merged(two, server or {}), **spec)


def servers(namespace: Namespace, run: Object) -> list[Object]:
    """The run's server pods."""
    return namespace.list(
        "pods", selector=f"{children_selector(run)},benchrun.dev/role=server"
    )


def freed(namespace: Namespace, run: Object) -> None:
    """Until nothing of the server is left, whoever made it."""
    namespace.wait_gone(
        "pods",
        selector=f"{children_selector(run)},benchrun.dev/role=server",
        timeout_seconds=GONE_SECONDS,
    )
    namespace.wait_gone(
        f"{GROUPS},services",
        selector=children_selector(run),
        timeout_seconds=GONE_SECONDS,
    )
    assert namespace.list("statefulsets") == []


def test_the_plan_has_no_field_that_leader_worker_set_does_not_know(
    namespace: Namespace, lws: None
) -> None:
    body = over_nodes("strict", measurement={"cachePolicy": "Reset"})["spec"]
    planned = objects(
        Owner(namespace.name, "strict", "uid-1"),
        BenchmarkRunSpec.model_validate(body),
    )
    group = of_kind(planned, "LeaderWorkerSet")
    del group["metadata"]["ownerReferences"]
    namespace.kubectl(
        "create",
        "--dry-run=server",
        "--validate=strict",
        "--filename=-",
        stdin=json.dumps(group),
    )


def test_a_run_waits_for_leader_worker_set_and_is_measured_when_it_is_there(
    namespace: Namespace, lws: None
) -> None:
    take_away()
    try:
        namespace.apply(over_nodes(LONGEST_NAME, server={"replicas": 2}))
        waiting = namespace.wait_for(
            RUN,
            LONGEST_NAME,
            lambda run: condition(run, "Ready").get("reason") == "NotInstalled",
            timeout_seconds=120,
            what="waiting for LeaderWorkerSet",
        )
        assert "Install LeaderWorkerSet" in waiting["status"]["message"]
        assert servers(namespace, waiting) == []
    finally:
        install()
    run = finished(namespace, LONGEST_NAME, timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    (told,) = run["status"]["servers"]
    assert (told["replicas"], told["gpus"], told["restarts"]) == (2, 4, 0)
    assert run["status"]["results"][0]["metrics"]["completed"] == 8
    freed(namespace, run)


def measuring(namespace: Namespace, name: str) -> Object:
    """A run that is measured for as long as it is left alone."""
    workload = {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 64}},
        "load": {"concurrencies": [2]},
        "requests": 5000,
    }
    slow = {
        "args": [
            "--max-model-len=4096",
            "--tensor-parallel-size=2",
            "--sim-tpot-ms=20",
        ]
    }
    namespace.apply(over_nodes(name, server=slow, workloads=[workload]))

    def is_measured(run: Object) -> bool:
        return phase(run) == "Running" and "startTime" in run["status"]

    return namespace.wait_for(
        RUN, name, is_measured, timeout_seconds=200, what="measured"
    )


@pytest.mark.parametrize("way", ["SIGKILL", "delete"])
def test_a_worker_that_is_lost_ends_the_run_and_frees_the_whole_server(
    namespace: Namespace, lws: None, way: str
) -> None:
    run = measuring(namespace, "lost")
    ranks = {
        pod["metadata"]["labels"][RANK]: pod for pod in servers(namespace, run)
    }
    assert set(ranks) == {"0", "1"}
    if way == "delete":
        namespace.delete("pod", ranks["1"]["metadata"]["name"])
    else:
        kill_container(namespace, selector=f"{children_selector(run)},{RANK}=1")
    run = finished(namespace, "lost", timeout_seconds=60)
    assert condition(run, "Failed")["reason"] == "ServerRestarted", run["status"]
    freed(namespace, run)


def test_the_leader_alone_answers(namespace: Namespace, lws: None) -> None:
    run = measuring(namespace, "answering")
    pods = {
        pod["metadata"]["labels"][RANK]: pod["status"]["podIP"]
        for pod in servers(namespace, run)
    }
    (service,) = namespace.list("services", selector=children_selector(run))
    slices = namespace.list(
        "endpointslices",
        selector=f"kubernetes.io/service-name={service['metadata']['name']}",
    )
    assert [
        address
        for s in slices
        for e in s["endpoints"]
        for address in e["addresses"]
    ] == [pods["0"]]
    namespace.patch(RUN, "answering", {"spec": {"cancel": True}})
    freed(namespace, finished(namespace, "answering", timeout_seconds=30))


@pytest.mark.timeout(700)
def test_real_vllm_shares_a_model_between_two_pods(
    namespace: Namespace, lws: None
) -> None:
    """Tensor parallelism over two pods without Ray. Neither could answer alone: each holds half of
    every layer."""
    server = {
        "image": VLLM_IMAGE,
        "args": [
            "--max-model-len=4096",
            "--tensor-parallel-size=2",
            "--max-num-seqs=8",
            "--enforce-eager",
        ],
        "env": [
            # Left to itself each pod binds its threads to the same core, and waits for the other
            # there.
            {"name": "VLLM_CPU_OMP_THREADS_BIND", "value": "nobind"},
            {"name": "OMP_NUM_THREADS", "value": "1"},
            # Embeddings that are divided are compiled even in eager mode; the image has no C++
            # compiler.
            {"name": "TORCH_COMPILE_DISABLE", "value": "1"},
        ],
        "resources": {"requests": {"cpu": "200m", "memory": "1Gi"}},
    }
    workload = {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 16}},
        "load": {"concurrencies": [2]},
        "requests": 200,
    }
    namespace.apply(over_nodes("real", server=server, workloads=[workload]))
    run = namespace.wait_for(
        RUN,
        "real",
        lambda it: "startTime" in it.get("status", {}),
        timeout_seconds=500,
        what="measured",
    )
    ranks = {
        pod["metadata"]["labels"][RANK]: pod["metadata"]["name"]
        for pod in servers(namespace, run)
    }
    assert set(ranks) == {"0", "1"}
    for rank, pod in ranks.items():
        assert f"world_size=2 rank={rank} " in namespace.kubectl("logs", pod)
    run = finished(namespace, "real", timeout_seconds=200)
    assert condition(run, "Complete")["status"] == "True", run["status"]
    (told,) = run["status"]["servers"]
    assert (told["replicas"], told["gpus"]) == (1, 2)
    assert run["status"]["results"][0]["metrics"]["completed"] == 200
    freed(namespace, run)
