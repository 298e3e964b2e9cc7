"""Runs in a queue of the real Kueue: they wait, are given a quota and nodes, lose it, and go.

Kueue is built from its Go module and installed by its own chart (minutes, the first time), and taken
away afterwards. Pods are played."""

import asyncio
import json
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from benchrun import names
from benchrun.api import BenchmarkRunSpec
from benchrun.child_kinds import KINDS
from benchrun.plan import Owner
from benchrun.plan.queued_workload import workload_manifest
from kit.kubectl import Namespace, Object, command
from kit.played import PlayedCluster, PlayedRun, played_cluster
from kit.runs import condition, simulated_run
from runs_kit.client import PlayedClient
from runs_kit.metrics_page import Server
from runs_kit.operator_process import NAME
from unit.plan.objects import objects

ROOT = Path(__file__).parents[2]
KUEUE = "kueue.x-k8s.io/v1beta1"
QUEUE = "gpus"
POOL = {"benchrun.example/pool": "queued"}
TOLERATION = {"key": "benchrun.example/queued", "operator": "Exists"}
QUOTA = {"cpu": "64", "memory": "256Gi", "nvidia.com/gpu": "1"}

pytestmark = pytest.mark.timeout(400)


@pytest.fixture(scope="module")
def kueue() -> Iterator[None]:
    """Kueue is installed."""
    command(sys.executable, str(ROOT / "devcluster"), "kueue", timeout_seconds=2400)
    yield
    where = ("--namespace=kueue-system", "--ignore-not-found", "--wait")
    command("helm", "uninstall", "kueue", *where, timeout_seconds=300)


@dataclass(frozen=True)
class Queued:
    """A namespace with an operator and a queue, whose quota is one GPU."""

    played: PlayedCluster
    cluster_queue: str

    async def apply(self, name: str, **spec: Any) -> PlayedRun:
        """Create a run that waits in the queue."""
        labels = {names.LABEL_QUEUE: QUEUE}
        return await self.played.apply(name, labels, **spec)

    def queue(self, run: PlayedRun) -> Object:
        """What the run's status says of its queue."""
        found: Object = self.played.status(run).get("queue", {})
        return found

    def reason(self, run: PlayedRun) -> str | None:
        return condition(self.played.body(run), "Ready").get("reason")

    def workloads(self, run: PlayedRun) -> list[str]:
        """The names of the run's Workloads."""
        listed = Namespace(self.played.namespace).list(
            "workloads.kueue.x-k8s.io", selector=f"benchrun.dev/run-uid={run.uid}"
        )
        return [each["metadata"]["name"] for each in listed]

    async def leaves(self, run: PlayedRun) -> None:
        """Wait until the run has no Workload any more."""
        ends_at = time.monotonic() + 60
        while await asyncio.to_thread(self.workloads, run):
            assert time.monotonic() < ends_at, "its Workload is still there"

    def stop(self, policy: str) -> None:
        """Set what the queue does with who is in it."""
        patch = json.dumps({"spec": {"stopPolicy": policy}})
        what = ("clusterqueue.kueue.x-k8s.io", self.cluster_queue)
        command("kubectl", "patch", *what, "--type=merge", f"--patch={patch}")


@pytest.fixture
async def queued(
    definition: str, kueue: None, tmp_path: Path
) -> AsyncIterator[Queued]:
    """A queue, and an operator that may use it."""
    settings = {"BENCHRUN_KUEUE": "true"}
    async with (
        played_cluster(tmp_path, settings=settings) as played,
        _queue(played.namespace) as cluster_queue,
    ):
        yield Queued(played, cluster_queue)


@asynccontextmanager
async def _queue(namespace: str) -> AsyncIterator[str]:
    name = f"queued-{uuid.uuid4().hex[:8]}"
    resources = [
        {"name": what, "nominalQuota": many} for what, many in QUOTA.items()
    ]
    group = {
        "coveredResources": [*QUOTA],
        "flavors": [{"name": name, "resources": resources}],
    }
    made = [
        _of_kueue(
            "ResourceFlavor", name, nodeLabels=POOL, tolerations=[TOLERATION]
        ),
        _of_kueue(
            "ClusterQueue", name, namespaceSelector={}, resourceGroups=[group]
        ),
        _of_kueue("LocalQueue", QUEUE, namespace=namespace, clusterQueue=name),
        *_rights(name, namespace),
    ]
    text = "\n---\n".join(json.dumps(each) for each in made)
    command("kubectl", "apply", "--filename=-", stdin=text)
    try:
        yield name
    finally:
        command("kubectl", "delete", "--filename=-", "--wait=false", stdin=text)


def _of_kueue(
    kind: str, name: str, *, namespace: str | None = None, **spec: Any
) -> Object:
    where = {} if namespace is None else {"namespace": namespace}
    about = {"name": name, **where}
    return {"apiVersion": KUEUE, "kind": kind, "metadata": about, "spec": spec}


def _rights(name: str, namespace: str) -> list[Object]:
    """What the chart grants for Kueue and nothing else, for the operator of a namespace."""
    rendered = command(
        "helm",
        "template",
        str(ROOT / "charts" / "benchrun"),
        "--set=kueue.enabled=true",
        "--set=image.repository=none.invalid/operator",
        "--set=clientImage.repository=none.invalid/client",
        "--show-only=templates/role.yaml",
    )
    rules = [
        rule
        for each in yaml.safe_load_all(rendered)
        if each["kind"] == "ClusterRole"
        for rule in each["rules"]
        if any("kueue" in group for group in rule["apiGroups"])
    ]
    assert rules
    rbac = "rbac.authorization.k8s.io"
    role = {"apiGroup": rbac, "kind": "ClusterRole", "name": name}
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": namespace}
    about = {"apiVersion": f"{rbac}/v1", "metadata": {"name": name}}
    return [
        {**about, "kind": "ClusterRole", "rules": rules},
        {
            **about,
            "kind": "ClusterRoleBinding",
            "roleRef": role,
            "subjects": [account],
        },
    ]


async def measured(run: PlayedRun) -> None:
    """Measure both stages of the run; the last record is held back."""
    now = time.monotonic()
    ends = [now + 0.5, now + 1.0]
    await run.client.measure(Server(), ends=ends, server_address=run.address)


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


async def test_the_second_run_waits_in_its_place_and_begins_when_the_first_has_freed(
    queued: Queued,
) -> None:
    played = queued.played
    first = await queued.apply("first")
    await played.both_start(first)
    (server,) = played.children(first, "Pod", "server")
    assert POOL.items() <= server["spec"]["nodeSelector"].items()
    assert TOLERATION in server["spec"]["tolerations"]
    second = await queued.apply("second")
    await played.until(
        lambda: queued.queue(second).get("place") == 0, what="it has a place"
    )
    assert queued.reason(second) == "WaitingForQuota"
    message = played.status(second)["message"]
    assert "insufficient unused quota" in message
    assert "nvidia.com/gpu" in message
    assert len(queued.workloads(second)) == 1
    for kind, role in (("Job", "client"), ("Deployment", "server")):
        assert played.children(second, kind, role) == []
    await played.patch("BenchmarkRun", "first", {"spec": {"cancel": True}})
    await played.released(first, seconds=30)
    await queued.leaves(first)
    await played.both_start(second)
    await measured(second)
    second.client.finish()
    status = await played.finished(second, seconds=60)
    assert status["phase"] == "Completed", status
    freed = played.status(first)["serverReleasedTime"]
    assert status["queue"]["admittedTime"] >= freed
    await queued.leaves(second)


async def test_an_eviction_frees_the_gpu_and_the_run_waits_again(
    queued: Queued,
) -> None:
    played = queued.played
    run = await queued.apply("evicted")
    await played.both_start(run)
    await measured(run)
    await played.gets(run, "ConfigMap", "stage")
    queued.stop("HoldAndDrain")
    await played.released(run, seconds=30)
    await played.until(
        lambda: queued.queue(run).get("attempt") == 2, what="it waits again"
    )
    assert queued.queue(run)["evictions"] == 1
    assert "ClusterQueueStopped" in queued.queue(run)["lastEviction"]
    assert not played.status(run).keys() & {"startTime", "serverReadyTime"}
    assert played.children(run, "ConfigMap", "stage") == []
    await played.until(
        lambda: queued.reason(run) == "WaitingForQuota", what="it says so"
    )
    assert played.children(run, "Job", "client") == []
    (only,) = queued.workloads(run)
    assert only.endswith("-queue-2")
    queued.stop("None")
    run.pages.stop()
    await run.client.stop()
    run.client = PlayedClient(run.address)
    await played.both_start(run)
    await measured(run)
    await played.gets(run, "ConfigMap", "stage")
    await played.patch("BenchmarkRun", "evicted", {"spec": {"cancel": True}})
    await played.finished(run, seconds=60)
    await queued.leaves(run)


async def test_an_eviction_ends_a_run_that_is_not_to_wait_again(
    queued: Queued,
) -> None:
    played = queued.played
    run = await queued.apply("once", whenEvicted="End")
    await played.both_start(run)
    queued.stop("HoldAndDrain")
    await played.finished(run, seconds=60)
    failed = condition(played.body(run), "Failed")
    assert (failed["status"], failed["reason"]) == ("True", "QuotaLost")
    assert not played.has_server(run)
    await queued.leaves(run)
