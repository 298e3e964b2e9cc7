"""Pods that a Kubernetes 1.36 node could not run, as its API server gave them, each with what is
said of it."""

import json
from pathlib import Path

import pytest
from benchrun.observe import diagnose_server, pod_of
from benchrun_client.engines import ENGINES

VLLM = ENGINES["VLLM"]

PODS = {
    body["metadata"]["name"]: body
    for body in json.loads(
        (Path(__file__).parent / "pods-1.36.json").read_text(encoding="utf-8")
    )
}
EXPECTED = {
    "affinity-and-gpu": ("Unschedulable", True, "nodeSelector"),
    "badname": ("ImagePull", True, "must be lowercase"),
    "gpu9": ("Unschedulable", True, "1 Insufficient nvidia.com/gpu"),
    "never": ("ImagePull", True, "pull policy of Never"),
    "nocmd": ("CrashLoop", True, 'exec: "/none"'),
    "noimage": ("ImagePull", True, "localhost/none/none:1"),
    "nopvc": ("Unschedulable", False, "when the claim exists"),
    "nores": ("Unschedulable", True, "1 Insufficient amd.com/gpu"),
    "noroot": ("ContainerConfig", True, "securityContext"),
    "nosecret": ("ContainerConfig", False, 'secret "hf" not found'),
    "oom": ("OutOfMemory", True, "memory limit"),
    "selector": (
        "Unschedulable",
        True,
        "didn't match Pod's node affinity/selector",
    ),
    "usage": ("UsageError", True, "unrecognized arguments: --disable-log-requests"),
}


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_each_real_pod_has_its_diagnosis(name: str) -> None:
    reason, terminal, message = EXPECTED[name]
    found = diagnose_server([pod_of(PODS[name])], None, VLLM)
    assert found is not None
    assert (found.reason, found.terminal) == (reason, terminal)
    assert message in found.message


def test_every_stored_pod_of_a_server_is_expected() -> None:
    assert {name for name in PODS if not name.startswith("broken")} == set(EXPECTED)
