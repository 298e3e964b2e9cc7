"""Names and labels of everything a run owns: written down once more, since what they were called
stays in clusters."""

import pytest
from benchrun import names
from benchrun.api import is_gpu, json_name
from benchrun.names import API_VERSION

LONGEST = "r" * names.MAX_RUN_NAME
KEYS = (
    "operator",
    "run",
    "run-uid",
    "role",
    "sequence",
    "sweep",
    "envelope",
    "digest",
    "plan-digest",
    "token-digest",
    "defaults",
    "copied-labels",
    "defaults-mac",
    "timeline-through",
    "stored-bytes",
    "variant",
    "hold-seconds",
)


def named(run: str, uid: str) -> list[str]:
    """Of every object that a run can have."""
    roles = (*names.SERVING_ROLES, names.ROLE_CLIENT)
    return [
        *(names.child_name(run, uid, role) for role in roles),
        names.plan_name(run, uid),
        names.group_name(run, uid),
        names.stage_name(run, uid, 1000),
        names.timeline_name(run, uid, 1000),
        names.result_name(run, uid, "f" * 64),
    ]


def test_children_are_called_after_run_uid_and_role() -> None:
    assert (
        names.child_name("qwen", "uid-1", names.ROLE_CLIENT)
        == "br-qwen-4a49acf8-client"
    )
    assert (
        names.child_name("qwen", "uid-1", names.ROLE_PREFILL)
        == "br-qwen-4a49acf8-prefill"
    )
    assert names.plan_name("qwen", "uid-1") == "br-qwen-4a49acf8-plan"
    assert names.group_name("qwen", "uid-1") == "br-qwen-4a49a"


@pytest.mark.parametrize(
    ("number", "text"), [(0, "000"), (7, "007"), (255, "255"), (1000, "1000")]
)
def test_stages_and_chunks_sort_by_their_number(number: int, text: str) -> None:
    assert (
        names.stage_name("qwen", "uid-1", number)
        == f"br-qwen-4a49acf8-stage-{text}"
    )
    assert (
        names.timeline_name("qwen", "uid-1", number)
        == f"br-qwen-4a49acf8-chunk-{text}"
    )


def test_no_child_meets_one_of_a_deleted_run_of_that_name() -> None:
    assert not set(named("qwen", "uid-1")) & set(named("qwen", "uid-2"))


def test_objects_of_a_run_never_share_a_name() -> None:
    assert len(set(named("qwen", "uid-1"))) == len(named("qwen", "uid-1"))


def test_the_longest_run_leaves_room() -> None:
    assert max(len(name) for name in named(LONGEST, "uid-1")) == 63
    assert len(names.group_name(LONGEST, "uid-1")) == 49
    assert (
        len(names.child_name(LONGEST, "uid-1", names.ROLE_CLIENT)) + len("-99")
        <= 63
    ), "an indexed Job's host names"


def test_stages_and_load_points_are_called_after_their_load() -> None:
    assert names.load_point_id("chat", "rate=inf") == "chat/rate=inf"
    assert names.stage_id("chat", "concurrency=64", 2) == "chat/concurrency=64/r2"


def test_labels_say_whose_a_child_is_and_what() -> None:
    assert names.labels(run="qwen", uid="u", role="server") == {
        "benchrun.dev/run": "qwen",
        "benchrun.dev/run-uid": "u",
        "benchrun.dev/role": "server",
    }


def test_written_annotations_labels_and_fields_are_listed() -> None:
    assert {
        value
        for name, value in vars(names).items()
        if name.startswith(("ANNOTATION_", "LABEL_", "FIELD_"))
    } == {
        *(f"benchrun.dev/{key}" for key in KEYS),
        "leaderworkerset.sigs.k8s.io/worker-index",
        "batch.kubernetes.io/job-completion-index",
        "kueue.x-k8s.io/queue-name",
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


GPUS = (
    "nvidia.com/gpu",
    "amd.com/gpu",
    "nvidia.com/mig-1g.10gb",
    "nvidia.com/mig-3g.40gb.shared",
    "gpu.intel.com/i915",
    "gpu.intel.com/xe",
    "requests.nvidia.com.gpu",
)
OTHERS = (
    "nvidia.com/gpumem",
    "nvidia.com/gpu.shared",
    "vendor.com/gpu-memory",
    "cpu",
    "memory",
    "google.com/tpu",
    "",
)


@pytest.mark.parametrize("resource", [*GPUS, *OTHERS])
def test_gpu_resources_are_recognised(resource: str) -> None:
    assert is_gpu(resource) is (resource in GPUS)
