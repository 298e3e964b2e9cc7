"""Cancel and delete free the GPU at once, whether or not an operator is there to see it."""

from __future__ import annotations

import pytest
from kit.kubectl import RUN, Namespace, Object
from kit.runs import children_selector, condition, finished, phase, simulated_run

LONG = {
    "name": "chat",
    "dataset": {"random": {"inputTokens": 64, "outputTokens": 64}},
    "load": {"concurrencies": [2]},
    "requests": 5000,
}


def _measuring(namespace: Namespace, name: str) -> Object:
    namespace.apply(simulated_run(name, args=("--sim-tpot-ms=20",), workloads=[LONG]))
    return namespace.wait_for(RUN, name, lambda r: phase(r) == "Running", timeout_seconds=200, what="running")


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
def test_deleting_a_run_leaves_no_pod_even_while_the_operator_is_down(
    operator: Namespace, namespace: Namespace
) -> None:
    run = _measuring(namespace, "deleted")
    operator.kubectl("scale", "deployment", "--selector=app.kubernetes.io/name=benchrun", "--replicas=0")
    try:
        operator.wait_gone("pods", selector="app.kubernetes.io/name=benchrun", timeout_seconds=60)
        namespace.delete(RUN, "deleted")
        namespace.wait_gone("pods", selector=children_selector(run), timeout_seconds=30)
    finally:
        operator.kubectl("scale", "deployment", "--selector=app.kubernetes.io/name=benchrun", "--replicas=1")
        operator.kubectl(
            "rollout", "status", "deployment", "--selector=app.kubernetes.io/name=benchrun", "--timeout=120s"
        )
