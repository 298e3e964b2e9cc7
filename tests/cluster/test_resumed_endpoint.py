"""A run against an endpoint that is suspended, and resumed by another operator: its plan stands, so
what it measures counts."""

import time

import pytest
from kit.kubectl import Object
from kit.played import PlayedCluster, PlayedRun
from runs_kit.metrics_page import Server

SERVICE = "front"
ADDRESS = "10.9.0.2"
PORT = 8000
OF_THE_CLUSTER = {
    "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"
}
STEP_SECONDS = 60.0


async def served(played: PlayedCluster) -> None:
    """A Service of somebody's, with one ready pod behind it. No network leads there."""
    ports = [{"name": "http", "port": PORT}]
    service = {"metadata": {"name": SERVICE}, "spec": {"ports": ports}}
    await played.api.ask(
        "POST", f"/api/v1/namespaces/{played.namespace}/services", service
    )
    labels = {"kubernetes.io/service-name": SERVICE, **OF_THE_CLUSTER}
    pod = {"kind": "Pod", "namespace": played.namespace, "name": "front-0"}
    ready = {
        "addresses": [ADDRESS],
        "conditions": {"ready": True},
        "targetRef": pod,
    }
    slices: Object = {
        "metadata": {"name": "front-1", "labels": labels},
        "addressType": "IPv4",
        "ports": ports,
        "endpoints": [ready],
    }
    path = f"/apis/discovery.k8s.io/v1/namespaces/{played.namespace}/endpointslices"
    await played.api.ask("POST", path, slices)


async def suspended(played: PlayedCluster, run: PlayedRun) -> None:
    """Its client is gone, its plan is not."""
    await played.patch("BenchmarkRun", run.name, {"spec": {"suspend": True}})
    await played.reaches(run, "Suspended")
    await played.until(
        lambda: (
            not (
                played.children(run, "Job", "client")
                or played.children(run, "Pod", "client")
            )
        ),
        what="its client is gone",
    )
    assert played.children(run, "ConfigMap", "plan")


@pytest.mark.timeout(300)
async def test_a_plan_stands_whoever_resumes_the_run(played: PlayedCluster) -> None:
    await served(played)
    where = {"serviceRef": {"name": SERVICE, "port": PORT}}
    run = await played.apply("resumed", server=None, endpoint=where)
    plan = await played.plan(run)
    await played.gets(run, "Pod", "client")
    await suspended(played, run)
    await played.operator.kill()
    await played.operator.start()
    await played.patch("BenchmarkRun", run.name, {"spec": {"suspend": False}})
    await played.client_starts(run)
    assert await played.plan(run) == plan
    now = time.monotonic()
    ends = [now + 0.5, now + 1.0]
    await run.client.measure(Server(), ends=ends, server_address=ADDRESS)
    run.client.finish()
    assert await run.client.told(seconds=STEP_SECONDS)
    await played.client_exits(run)
    status = await played.finished(run, seconds=STEP_SECONDS)
    assert (status["phase"], status["progress"]["stagesDone"]) == (
        "Completed",
        2,
    ), status
