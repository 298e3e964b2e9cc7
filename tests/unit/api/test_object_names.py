"""Names and labels of everything a run owns: written down once more, since what they were called stays in clusters."""

from __future__ import annotations

import pytest
from benchrun.api import names
from benchrun.api.base import API_VERSION
from benchrun.api.casing import json_name
from benchrun.api.gpus import is_gpu


def test_children_are_called_after_run_role_and_attempt() -> None:
    assert names.child_name("qwen", "client") == "br-qwen-client-a1"
    assert names.child_name("qwen", "client", attempt=2) == "br-qwen-client-a2"
    assert names.child_name("qwen", names.ROLE_PREFILL) == "br-qwen-prefill-a1"
    assert names.child_name("qwen", "server", attempt=2) == "br-qwen-server-a2"
    assert names.log_name("qwen") == "br-qwen-log-a1"
    assert names.log_name("qwen", attempt=2) == "br-qwen-log-a2"


@pytest.mark.parametrize(("number", "text"), [(0, "000"), (7, "007"), (255, "255"), (1000, "1000")])
def test_stages_and_chunks_sort_by_their_number(number: int, text: str) -> None:
    assert names.stage_name("qwen", number) == f"br-qwen-stage-{text}-a1"
    assert names.timeline_name("qwen", number) == f"br-qwen-timeline-{text}-a1"
    assert names.stage_name("qwen", number, attempt=3) == f"br-qwen-stage-{text}-a3"
    assert names.timeline_name("qwen", number, attempt=3) == f"br-qwen-timeline-{text}-a3"


def test_a_plan_is_another_for_another_run_of_the_same_name() -> None:
    first, second = (names.plan_name("qwen", uid) for uid in ("uid-1", "uid-2"))
    assert first == "br-qwen-plan-a1-4a49acf8"
    assert first != second
    assert names.plan_name("qwen", "uid-1") == first
    assert names.plan_name("qwen", "uid-1", attempt=2) == first.replace("-a1-", "-a2-")


def test_groups_of_a_namesake_that_is_on_its_way_out_are_called_otherwise() -> None:
    assert names.group_name("qwen", "uid-1") == "br-qwen-4a49a"
    assert names.group_name("qwen", "uid-2") != "br-qwen-4a49a"


def test_stages_and_cells_are_called_after_their_load() -> None:
    assert names.cell_id("chat", "rate", "inf") == "chat/rate=inf"
    assert names.stage_id("chat", "concurrency", "64", 2) == "chat/concurrency=64/r2"


def test_labels_say_whose_a_child_is_and_what() -> None:
    assert names.labels(run="qwen", uid="u", role="server") == {
        "benchrun.dev/run": "qwen",
        "benchrun.dev/run-uid": "u",
        "benchrun.dev/role": "server",
    }


def test_what_is_written_beside_them() -> None:
    assert {value for name, value in vars(names).items() if name.startswith(("ANNOTATION_", "LABEL_", "FIELD_"))} == {
        "benchrun.dev/operator",
        "benchrun.dev/run",
        "benchrun.dev/run-uid",
        "benchrun.dev/role",
        "benchrun.dev/sequence",
        "benchrun.dev/sweep",
        "benchrun.dev/record-digest",
        "benchrun.dev/stored-bytes",
        "benchrun.dev/ends-search",
        "benchrun.dev/applied-hash",
        "benchrun.dev/variant",
        "leaderworkerset.sigs.k8s.io/worker-index",
        "batch.kubernetes.io/job-completion-index",
    }
    assert API_VERSION == "benchrun.dev/v1alpha1"


@pytest.mark.parametrize(
    ("python", "wire"),
    [
        ("name", "name"),
        ("max_concurrency", "maxConcurrency"),
        ("ttl_seconds_after_finished", "ttlSecondsAfterFinished"),
        ("ignore_eos", "ignoreEOS"),
        ("share_gpt", "shareGPT"),
        ("p99_ttft", "p99TTFT"),
        ("throughput_per_gpu", "throughputPerGPU"),
        ("mean_tpot_ms", "meanTPOTMs"),
    ],
)
def test_a_field_on_the_wire(python: str, wire: str) -> None:
    assert json_name(python) == wire


@pytest.mark.parametrize(
    ("resource", "gpu"),
    [
        ("nvidia.com/gpu", True),
        ("amd.com/gpu", True),
        ("nvidia.com/mig-1g.10gb", True),
        ("nvidia.com/mig-3g.40gb.shared", True),
        ("gpu.intel.com/i915", True),
        ("gpu.intel.com/xe", True),
        ("requests.nvidia.com.gpu", True),
        ("nvidia.com/gpumem", False),
        ("nvidia.com/gpu.shared", False),
        ("vendor.com/gpu-memory", False),
        ("cpu", False),
        ("memory", False),
        ("google.com/tpu", False),
        ("", False),
    ],
)
def test_what_counts_as_a_gpu(resource: str, gpu: bool) -> None:
    assert is_gpu(resource) is gpu
