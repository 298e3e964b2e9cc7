"""A server that can't start is told apart and told fast: its own reason, its own words, what to change."""

from __future__ import annotations

import time

import pytest
from kit.kubectl import Namespace
from kit.runs import children_selector, condition, finished, simulated_run

FAILURES = [
    pytest.param("oom-gpu", "OutOfGPUMemory", id="out-of-gpu-memory"),
    pytest.param("kv-cache-too-small", "KVCacheTooSmall", id="kv-cache-too-small"),
    pytest.param("gated-model", "ModelGated", id="gated-model"),
    pytest.param("model-not-found", "ModelNotFound", id="model-not-found"),
    pytest.param("crash", "CrashLoop", id="crash-loop"),
]


@pytest.mark.timeout(200)
@pytest.mark.parametrize(("fault", "reason"), FAILURES)
def test_a_server_that_cannot_start_ends_the_run_with_its_own_reason(
    namespace: Namespace, fault: str, reason: str
) -> None:
    namespace.apply(simulated_run("broken", args=(f"--sim-fail-start={fault}",)))
    began = time.monotonic()
    run = finished(namespace, "broken", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == reason, run["status"]["message"]
    assert condition(run, "Ready")["status"] == "False"
    assert condition(run, "Stalled")["status"] == "True"
    assert "Traceback" not in run["status"]["message"]
    assert time.monotonic() - began < 120
    namespace.wait_gone("pods", selector=f"{children_selector(run)},benchrun.dev/role=server", timeout_seconds=30)


@pytest.mark.timeout(200)
def test_an_image_that_cannot_be_pulled_ends_the_run(namespace: Namespace) -> None:
    namespace.apply(simulated_run("image", server={"image": "registry.invalid/no/such:image"}))
    run = finished(namespace, "image", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "ImagePull"
    assert "registry.invalid/no/such:image" in run["status"]["message"]


@pytest.mark.timeout(200)
def test_no_gpu_to_be_had_waits_with_the_reason_until_its_deadline(namespace: Namespace) -> None:
    server = {"resources": {"limits": {"nvidia.com/gpu": 64}}}
    namespace.apply(simulated_run("greedy", server=server, pendingDeadlineSeconds=15))
    run = finished(namespace, "greedy", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "PendingDeadlineExceeded"
    assert "nvidia.com/gpu" in run["status"]["message"]


@pytest.mark.timeout(200)
def test_a_node_selector_nothing_matches_ends_the_run_after_its_grace(namespace: Namespace) -> None:
    namespace.apply(simulated_run("nowhere", server={"pod": {"nodeSelector": {"gpu": "no-such-card"}}}))
    run = finished(namespace, "nowhere", timeout_seconds=150)
    assert condition(run, "Failed")["reason"] == "Unschedulable"


@pytest.mark.timeout(200)
def test_a_server_that_loads_too_long_meets_its_startup_deadline(namespace: Namespace) -> None:
    namespace.apply(simulated_run("slow", args=("--sim-load-seconds=600",), startupDeadlineSeconds=45))
    run = finished(namespace, "slow", timeout_seconds=180)
    assert condition(run, "Failed")["reason"] == "StartupDeadlineExceeded"
    assert "startupDeadlineSeconds" in run["status"]["message"]


@pytest.mark.timeout(200)
def test_a_run_that_measures_too_long_meets_its_deadline_and_keeps_what_it_measured(namespace: Namespace) -> None:
    workload = {
        "name": "chat",
        "dataset": {"random": {"inputTokens": 64, "outputTokens": 20}},
        "load": {"concurrencies": [1]},
        "requests": 10,
    }
    args = ("--sim-tpot-ms=50",)
    namespace.apply(simulated_run("late", args=args, workloads=[workload], repeats=20, runDeadlineSeconds=25))
    run = finished(namespace, "late", timeout_seconds=180)
    assert condition(run, "Failed")["reason"] == "RunDeadlineExceeded"
    assert run["status"]["results"][0]["repeats"] >= 1
    assert run["status"]["verdict"] == "Invalid"


@pytest.mark.timeout(300)
def test_a_server_that_dies_mid_stage_voids_the_run(namespace: Namespace) -> None:
    namespace.apply(simulated_run("mortal", args=("--sim-die-after-requests=13",), repeats=4))
    run = finished(namespace, "mortal", timeout_seconds=200)
    assert condition(run, "Failed")["reason"] == "ServerRestarted", run["status"]["message"]
    assert run["status"]["verdict"] == "Invalid"
    assert run["status"]["logTail"]
