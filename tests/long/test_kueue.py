"""Runs in a queue of the real Kueue: they wait, are given a quota and nodes, lose it, and go.

Installs Kueue into the embedded cluster and lets the operator use it; afterwards both are as they
were."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from benchrun import names
from benchrun.api import BenchmarkRunSpec
from benchrun.child_kinds import KINDS
from benchrun.plan import Owner, workload_manifest
from e2e.conftest import install
from kit.installed import HELM_FLAGS
from kit.kubectl import RUN, Namespace, Object, command
from kit.runs import children_selector, condition, finished, phase, simulated_run
from unit.plan.objects import objects

ROOT = Path(__file__).parents[2]
WORKLOADS = "workloads.kueue.x-k8s.io"
POOL = {"benchrun.example/pool": "queued"}
TOLERATION = {"key": "benchrun.example/queued", "operator": "Exists"}
QUEUE = "gpus"
FREED_SECONDS = 60

pytestmark = pytest.mark.timeout(500)


@pytest.fixture(scope="module")
def kueue(operator: Namespace) -> Iterator[None]:
    """Kueue is installed, and the operator may use it."""
    command(sys.executable, str(ROOT / "devcluster"), "kueue", timeout_seconds=2400)
    flags = f"HELM_FLAGS={HELM_FLAGS} --set kueue.enabled=true"
    command("make", f"--directory={ROOT}", "install", flags, timeout_seconds=420)
    (node,) = json.loads(command("kubectl", "get", "nodes", "--output=json"))[
        "items"
    ]
    label, value = next(iter(POOL.items()))
    name = node["metadata"]["name"]
    command("kubectl", "label", "node", name, "--overwrite", f"{label}={value}")
    try:
        yield
    finally:
        install()
        command("kubectl", "label", "node", name, f"{label}-")
        where = ("--namespace=kueue-system", "--ignore-not-found", "--wait")
        command("helm", "uninstall", "kueue", *where)


@pytest.fixture
def queue(kueue: None, namespace: Namespace) -> Iterator[str]:
    """A ClusterQueue with a quota of one GPU, and a LocalQueue of it in the namespace."""
    name = namespace.name
    version = "kueue.x-k8s.io/v1beta1"
    quotas = {"cpu": "16", "memory": "64Gi", "nvidia.com/gpu": "1"}
    group = {
        "coveredResources": [*quotas],
        "flavors": [
            {
                "name": name,
                "resources": [
                    {"name": resource, "nominalQuota": amount}
                    for resource, amount in quotas.items()
                ],
            }
        ],
    }
    namespace.apply(
        {
            "apiVersion": version,
            "kind": "ResourceFlavor",
            "metadata": {"name": name},
            "spec": {"nodeLabels": POOL, "tolerations": [TOLERATION]},
        },
        {
            "apiVersion": version,
            "kind": "ClusterQueue",
            "metadata": {"name": name},
            "spec": {"namespaceSelector": {}, "resourceGroups": [group]},
        },
        {
            "apiVersion": version,
            "kind": "LocalQueue",
            "metadata": {"name": QUEUE, "namespace": name},
            "spec": {"clusterQueue": name},
        },
    )
    yield name
    namespace.delete("clusterqueue.kueue.x-k8s.io", name)
    namespace.delete("resourceflavor.kueue.x-k8s.io", name)


def queued_run(name: str, *, requests: int = 8, **spec: Any) -> dict[str, Any]:
    """A run of a simulated server that waits in the queue."""
    workload = {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 64}},
        "load": {"concurrencies": [2]},
        "requests": requests,
    }
    run = simulated_run(
        name, args=("--sim-tpot-ms=20",), workloads=[workload], **spec
    )
    run["metadata"]["labels"] = {names.LABEL_QUEUE: QUEUE}
    return run


def is_measured(run: Object) -> bool:
    return phase(run) == "Running" and "startTime" in run["status"]


def measuring(namespace: Namespace, name: str) -> Object:
    """A queued run that is measured for as long as it is left alone."""
    namespace.apply(queued_run(name, requests=5000))
    return namespace.wait_for(
        RUN, name, is_measured, timeout_seconds=200, what="measured"
    )


def servers(namespace: Namespace, run: Object) -> list[Object]:
    selector = f"{children_selector(run)},benchrun.dev/role=server"
    return namespace.list("pods", selector=selector)


def waits(run: Object) -> bool:
    return condition(run, "Ready").get("reason") == "WaitingForQuota"


def test_kueue_knows_every_field_of_the_workload(
    kueue: None, namespace: Namespace
) -> None:
    owner = Owner(namespace.name, "strict", "uid-1")
    spec = BenchmarkRunSpec.model_validate(simulated_run("strict")["spec"])
    makers = [m for m in objects(owner, spec) if KINDS[m["kind"]].has_pods]
    made = workload_manifest(owner, queue=QUEUE, attempt=1, makers=makers, noted={})
    del made["metadata"]["ownerReferences"]
    strict = ("--dry-run=server", "--validate=strict", "--filename=-")
    namespace.kubectl("create", *strict, stdin=json.dumps(made))


def test_the_second_run_waits_in_its_place_and_begins_when_the_first_has_freed(
    namespace: Namespace, queue: str
) -> None:
    first = measuring(namespace, "first")
    (server,) = servers(namespace, first)
    assert POOL.items() <= server["spec"]["nodeSelector"].items()
    assert TOLERATION in server["spec"]["tolerations"]
    namespace.apply(queued_run("second"))
    second = namespace.wait_for(
        RUN,
        "second",
        lambda run: waits(run) and "place" in run["status"]["queue"],
        timeout_seconds=60,
        what="in its place",
    )
    assert second["status"]["queue"]["place"] == 0
    assert "insufficient unused quota" in second["status"]["message"]
    assert "nvidia.com/gpu" in second["status"]["message"]
    selector = children_selector(second)
    assert len(namespace.list(WORKLOADS, selector=selector)) == 1
    for kind in ("pods", "deployments", "jobs"):
        assert namespace.list(kind, selector=selector) == []
    namespace.patch(RUN, "first", {"spec": {"cancel": True}})
    ended = finished(namespace, "second", timeout_seconds=240)
    assert condition(ended, "Complete")["status"] == "True", ended["status"]
    freed = namespace.get(RUN, "first")["status"]["serverReleasedTime"]
    assert ended["status"]["queue"]["admittedTime"] >= freed
    for run in (first, second):
        namespace.wait_gone(
            WORKLOADS,
            selector=children_selector(run),
            timeout_seconds=FREED_SECONDS,
        )


def test_an_eviction_frees_the_gpu_and_the_run_waits_again(
    namespace: Namespace, queue: str
) -> None:
    run = measuring(namespace, "evicted")
    cluster_queue = ("clusterqueue.kueue.x-k8s.io", queue)
    namespace.patch(*cluster_queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
    selector = f"{children_selector(run)},benchrun.dev/role=server"
    namespace.wait_gone("pods", selector=selector, timeout_seconds=FREED_SECONDS)
    again = namespace.wait_for(
        RUN,
        "evicted",
        lambda it: waits(it) and it["status"]["queue"]["attempt"] == 2,
        timeout_seconds=90,
        what="waiting again",
    )
    status = again["status"]
    assert status["queue"]["evictions"] == 1
    assert "ClusterQueueStopped" in status["queue"]["lastEviction"]
    assert not status.keys() & {"startTime", "serverReadyTime", "servers"}
    assert servers(namespace, again) == []
    assert len(namespace.list(WORKLOADS, selector=children_selector(run))) == 1
    namespace.patch(*cluster_queue, {"spec": {"stopPolicy": "None"}})
    namespace.wait_for(
        RUN, "evicted", is_measured, timeout_seconds=200, what="measured again"
    )
    namespace.patch(RUN, "evicted", {"spec": {"cancel": True}})
    finished(namespace, "evicted", timeout_seconds=60)
    namespace.wait_gone(
        WORKLOADS, selector=children_selector(run), timeout_seconds=FREED_SECONDS
    )


def test_an_eviction_ends_a_run_that_is_not_to_wait_again(
    namespace: Namespace, queue: str
) -> None:
    namespace.apply(queued_run("once", requests=5000, whenEvicted="End"))
    namespace.wait_for(
        RUN, "once", is_measured, timeout_seconds=200, what="measured"
    )
    patch = {"spec": {"stopPolicy": "HoldAndDrain"}}
    namespace.patch("clusterqueue.kueue.x-k8s.io", queue, patch)
    run = finished(namespace, "once", timeout_seconds=90)
    assert condition(run, "Failed")["reason"] == "QuotaLost", run["status"]
    namespace.wait_gone(
        f"{WORKLOADS},pods",
        selector=children_selector(run),
        timeout_seconds=FREED_SECONDS,
    )
