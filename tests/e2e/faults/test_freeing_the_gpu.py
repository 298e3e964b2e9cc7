"""Cancel and delete free the GPU at once, whether or not an operator is there to see it."""

import time
from contextlib import nullcontext

import pytest
from kit.installed import taken_away
from kit.kubectl import RUN, Namespace, Object
from kit.runs import children_selector, condition, finished, phase, simulated_run

LONG = {
    "name": "chat",
    "dataset": {"random": {"inputTokens": 64, "outputTokens": 64}},
    "load": {"concurrencies": [2]},
    "requests": 5000,
}


def _measuring(namespace: Namespace, name: str) -> Object:
    namespace.apply(
        simulated_run(name, args=("--sim-tpot-ms=20",), workloads=[LONG])
    )
    return namespace.wait_for(
        RUN,
        name,
        lambda r: phase(r) == "Running",
        timeout_seconds=200,
        what="running",
    )


@pytest.mark.timeout(400)
def test_cancel_mid_stage_releases_server_then_client(namespace: Namespace) -> None:
    run = _measuring(namespace, "cancelled")
    namespace.patch(RUN, "cancelled", {"spec": {"cancel": True}})
    run = finished(namespace, "cancelled", timeout_seconds=30)
    assert phase(run) == "Cancelled"
    assert condition(run, "Failed")["reason"] == "Cancelled"
    assert condition(run, "Stalled")["status"] == "True"
    namespace.wait_gone("pods", selector=children_selector(run), timeout_seconds=30)


@pytest.mark.timeout(400)
@pytest.mark.parametrize("operator_is", ["up", "down"])
def test_deleting_a_run_leaves_no_pod_within_half_a_minute(
    namespace: Namespace, operator_is: str
) -> None:
    run = _measuring(namespace, "deleted")
    pods = namespace.list("pods", selector=children_selector(run))
    assert {pod["metadata"]["labels"]["benchrun.dev/role"] for pod in pods} == {
        "client",
        "server",
    }
    with taken_away() if operator_is == "down" else nullcontext():
        began = time.monotonic()
        namespace.delete(RUN, "deleted")
        namespace.wait_gone(
            "pods", selector=children_selector(run), timeout_seconds=30
        )
        assert time.monotonic() - began < 30
    everything_else = "deployments,jobs,services,configmaps"
    namespace.wait_gone(
        everything_else, selector=children_selector(run), timeout_seconds=30
    )
