"""Why a server can't serve. Texts of logs are vLLM 0.32's and torch's, those of Kubernetes are a
1.36 cluster's."""

from dataclasses import replace
from typing import Any

import pytest
from benchrun.observe import (
    Child,
    Diagnosis,
    Pod,
    diagnose_client,
    diagnose_server,
    find_pod_with_hidden_cause,
    pod_of,
)
from benchrun.observe.last_words import MAX_CHARS
from benchrun_client.contract import Failure
from benchrun_client.engines import ENGINES
from hypothesis import given, strategies as st
from unit.observe.bodies import (
    child,
    condition,
    ended,
    gone,
    pending,
    pod_body,
    waiting,
)
from unit.observe.test_last_words import LOGS

VLLM = ENGINES["VLLM"]

CUDA_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB. GPU 0 has a total "
    "capacity of 79.18 GiB of "
    "which 102.06 MiB is free."
)
GPU_TAKEN = (
    "ValueError: Free memory on device cuda:0 (3.1/79.18 GiB) on startup is less than desired GPU "
    "memory utilization "
    "(0.92, 72.84 GiB). Decrease GPU memory utilization or reduce GPU memory used by other "
    "processes."
)
KV_NONE = (
    "ValueError: No available memory for the cache blocks. Try increasing "
    "`gpu_memory_utilization` when initializing the engine."
)
KV_OLD = (
    "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens "
    "that can be stored in KV cache "
    "(35120). Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when "
    "initializing the engine."
)
GATED = (
    "OSError: You are trying to access a gated repo.\nMake sure to have access to it at "
    "https://huggingface.co/meta-llama/Llama-3.1-8B.\n401 Client Error.\n\nCannot access gated "
    "repo for url "
    "https://huggingface.co/meta-llama/Llama-3.1-8B/resolve/main/config.json.\nAccess to model "
    "meta-llama/Llama-3.1-8B is "
    "restricted. You must have access to it and be authenticated to access it. Please log in."
)
NOT_FOUND_401 = (
    "huggingface_hub.errors.RepositoryNotFoundError: 401 Client Error. (Request ID: "
    "Root=1-x)\n\nRepository Not Found for url: "
    "https://huggingface.co/api/models/nobody/none.\nPlease make sure you specified the correct "
    "`repo_id` and `repo_type`.\n"
    "If you are trying to access a private or gated repo, make sure you are authenticated."
)
NOT_VALID = (
    "OSError: nobody/none is not a local folder and is not a valid model identifier listed on "
    "'https://huggingface.co/models'"
)
UNREACHABLE = (
    "OSError: We couldn't connect to 'https://huggingface.co' to load the files, and couldn't "
    "find them in the cached files."
)
FORBIDDEN = "requests.exceptions.HTTPError: 403 Client Error: Forbidden for url: https://huggingface.co/x/resolve/main/config.json"


def tail(log: str) -> str:
    """What Kubernetes keeps of a log as the termination message."""
    return LOGS[log][-2048:]


@pytest.mark.parametrize(
    ("reason", "terminal", "message", "pod"),
    [
        # what the server says
        pytest.param(
            "UsageError",
            True,
            "--disable-log-requests",
            ended(2, tail("unknown-flag")),
            id="a flag it does not know",
        ),
        pytest.param(
            "UsageError",
            True,
            "invalid int value: 'abc'",
            ended(2, tail("bad-int")),
            id="a word for a number",
        ),
        pytest.param(
            "UsageError",
            True,
            "Invalid JSON",
            ended(2, tail("bad-json")),
            id="broken JSON",
        ),
        pytest.param(
            "InvalidArgument",
            True,
            "(got 0)",
            ended(1, tail("tp0")),
            id="no GPU to split over",
        ),
        pytest.param(
            "InvalidArgument",
            True,
            "(got 1.5)",
            ended(1, tail("util")),
            id="more than all memory",
        ),
        pytest.param(
            "InvalidArgument",
            True,
            "99999999",
            ended(1, tail("len-too-big")),
            id="longer than the model",
        ),
        pytest.param(
            "ModelNotFound",
            True,
            "/models/none",
            ended(1, tail("no-model")),
            id="a directory that is not there",
        ),
        pytest.param(
            "ModelNotFound",
            True,
            "cached snapshot",
            ended(1, tail("no-hub-model")),
            id="offline, not in the cache",
        ),
        pytest.param(
            "ModelNotFound",
            True,
            "nobody/none",
            ended(1, NOT_VALID),
            id="no such model on the hub",
        ),
        pytest.param(
            "ModelNotFound",
            True,
            "Repository Not Found",
            ended(1, NOT_FOUND_401),
            id="a 401 that means missing",
        ),
        pytest.param(
            "ModelGated", True, "gated repo", ended(1, GATED), id="a gated model"
        ),
        pytest.param(
            "ModelGated", True, "403", ended(1, FORBIDDEN), id="a hub that forbids"
        ),
        pytest.param(
            "ModelNotFound",
            False,
            "couldn't connect",
            ended(1, UNREACHABLE),
            id="a hub out of reach",
        ),
        pytest.param(
            "ModelNotFound",
            True,
            "couldn't connect",
            ended(1, UNREACHABLE, restarts=2),
            id="for the third time",
        ),
        pytest.param(
            "OutOfGPUMemory",
            True,
            "224.00 MiB",
            ended(1, CUDA_OOM),
            id="weights larger than the GPU",
        ),
        pytest.param(
            "OutOfGPUMemory",
            True,
            "224.00 MiB",
            ended(1, CUDA_OOM, restarts=1, restarted=True),
            id="before it runs again",
        ),
        pytest.param(
            "OutOfGPUMemory",
            False,
            "other processes",
            ended(1, GPU_TAKEN),
            id="a GPU in use: once",
        ),
        pytest.param(
            "OutOfGPUMemory",
            False,
            "in use",
            ended(1, GPU_TAKEN, restarts=1, restarted=True),
            id="while it tries again",
        ),
        pytest.param(
            "OutOfGPUMemory",
            True,
            "in use",
            ended(1, GPU_TAKEN, restarts=1),
            id="a GPU in use: twice",
        ),
        pytest.param(
            "KVCacheTooSmall",
            True,
            "--max-model-len",
            ended(1, KV_NONE),
            id="no room for a cache",
        ),
        pytest.param(
            "KVCacheTooSmall",
            True,
            "35120",
            ended(1, KV_OLD),
            id="a cache too small, in older words",
        ),
        # what the node says
        pytest.param(
            "OutOfMemory",
            True,
            "spec.server.resources; a server",
            ended(137, reason="OOMKilled"),
            id="the memory limit",
        ),
        pytest.param(
            "OutOfMemory",
            True,
            "limit",
            ended(137, CUDA_OOM, reason="OOMKilled"),
            id="whatever the log says",
        ),
        pytest.param(
            "ImagePull",
            True,
            "repository name (Name) must be lowercase",
            waiting(
                "InvalidImageName",
                'couldn\'t parse image name "Bad/Name:1:2": repository name (Name) must be lowercase',
            ),
            id="no image name at all",
        ),
        pytest.param(
            "ImagePull",
            True,
            "not present with pull policy of Never",
            waiting(
                "ErrImageNeverPull",
                'Container image "x:2" is not present with pull policy of Never',
            ),
            id="never to be pulled",
        ),
        pytest.param(
            "ImagePull",
            False,
            "not found",
            waiting("ErrImagePull", "x:9: not found"),
            id="a first failed pull",
        ),
        pytest.param(
            "ImagePull",
            True,
            "imagePullSecrets",
            waiting("ImagePullBackOff", "Back-off pulling"),
            id="and then back-off",
        ),
        pytest.param(
            "ContainerConfig",
            False,
            'secret "hf" not found',
            waiting("CreateContainerConfigError", 'secret "hf" not found'),
            id="a Secret that is missing",
        ),
        # what the scheduler says
        pytest.param(
            "Unschedulable",
            True,
            "No node can ever",
            pending(
                "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. no "
                "new claims to deallocate, "
                "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
            ),
            id="a selector no node matches",
        ),
        pytest.param(
            "Unschedulable",
            False,
            "1 Insufficient nvidia.com/gpu",
            pending(
                "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: 0/1 nodes "
                "are available."
            ),
            id="no GPU free",
        ),
        # what happened to the pod
        pytest.param(
            "Evicted",
            True,
            "low on resource",
            gone("Evicted", "The node was low on resource: memory."),
            id="evicted",
        ),
        pytest.param(
            "Evicted",
            True,
            "NodeLost",
            gone("NodeLost", phase="Unknown"),
            id="its node is lost",
        ),
        pytest.param(
            "Evicted",
            True,
            "priority class",
            gone("PreemptionByScheduler", deleting=True),
            id="preempted",
        ),
        pytest.param(
            "PodRejected",
            False,
            "OutOfnvidia.com/gpu",
            gone("OutOfnvidia.com/gpu"),
            id="refused by its node",
        ),
        # the claim for what is compiled
        *(
            pytest.param(
                "CompileCacheFailed",
                True,
                "server.compileCacheClaim",
                ended(1, f"{error}: '/compile-cache/4f0a/{path}'"),
                id=f"compile cache, {number}",
            )
            for number, path, error in (
                (
                    13,
                    "vllm/torch_compile_cache",
                    "PermissionError: [Errno 13] Permission denied",
                ),
                (30, "triton/x.tmp", "OSError: [Errno 30] Read-only file system"),
                (28, "inductor/y", "OSError: [Errno 28] No space left on device"),
            )
        ),
        # what keeps happening
        pytest.param(
            "CrashLoop",
            True,
            "boom",
            ended(1, "boom", restarts=2),
            id="two restarts",
        ),
        pytest.param(
            "CrashLoop",
            True,
            "exit code 0",
            ended(0, "bye", restarts=2),
            id="even when it ends well",
        ),
        pytest.param(
            "CrashLoop",
            True,
            "segfault",
            waiting(
                "CrashLoopBackOff",
                lastState={
                    "terminated": {
                        "exitCode": 139,
                        "reason": "Error",
                        "message": "segfault",
                    }
                },
            ),
            id="the kubelet backs off",
        ),
        pytest.param(
            "CrashLoop",
            False,
            'exec: "/none"',
            waiting(
                "RunContainerError",
                lastState={
                    "terminated": {
                        "exitCode": 128,
                        "reason": "StartError",
                        "message": 'exec: "/none": no such file',
                    }
                },
            ),
            id="a program that is not in the image",
        ),
        pytest.param(
            "CrashLoop",
            False,
            "root cause above",
            ended(1, tail("kv-small")),
            id="a cause out of sight",
        ),
    ],
)
def test_a_failing_server(
    reason: str, terminal: bool, message: str, pod: Pod
) -> None:
    found = diagnose_server([pod], None, VLLM)
    assert found is not None
    assert (found.reason, found.terminal) == (reason, terminal)
    assert message in found.message


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(pod_of(pod_body()), id="running, loading its weights"),
        pytest.param(waiting("ContainerCreating"), id="being made"),
        pytest.param(waiting("PodInitializing"), id="being initialised"),
        pytest.param(
            ended(1, "something", restarts=0),
            id="one end that nobody knows: the next try may do",
        ),
        pytest.param(
            ended(1, "PermissionError: [Errno 13] Permission denied: '/models/m'"),
            id="a file that is not of the compile cache",
        ),
        pytest.param(
            ended(
                1,
                "FileNotFoundError: [Errno 2] No such file: '/compile-cache/4f/a'",
            ),
            id="a file of the compile cache that is only missing",
        ),
        pytest.param(
            ended(1, "something", restarts=1, restarted=True),
            id="and running again",
        ),
        pytest.param(
            replace(ended(143, restarts=5), deleting=True),
            id="being deleted: containers end then",
        ),
    ],
)
def test_a_server_without_a_diagnosis(pod: Pod) -> None:
    assert diagnose_server([pod], child("Deployment"), VLLM) is None


def test_no_pods_yet_is_no_failure() -> None:
    assert diagnose_server([], child("Deployment"), VLLM) is None
    assert diagnose_server([], None, VLLM) is None


def test_the_fetched_log_tells_the_cause_that_the_termination_message_hides() -> (
    None
):
    found = diagnose_server(
        [ended(1, tail("kv-small"))], None, VLLM, log_tail=LOGS["kv-small"]
    )
    assert found is not None
    assert (found.reason, found.terminal) == ("KVCacheTooSmall", True)
    assert "estimated maximum model length is 896" in found.message


def test_a_hidden_cause_is_given_up_on_after_two_restarts() -> None:
    found = diagnose_server([ended(1, tail("kv-small"), restarts=2)], None, VLLM)
    assert found is not None
    assert (found.reason, found.terminal) == ("CrashLoop", True)


def test_a_fetched_log_reports_nothing_of_a_pod_that_never_ended() -> None:
    assert (
        diagnose_server([pod_of(pod_body())], None, VLLM, log_tail=LOGS["kv-small"])
        is None
    )


QUOTA = (
    'FailedCreate: pods "x" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=8, '
    "used: requests.nvidia.com/gpu=4, limited: requests.nvidia.com/gpu=10"
)
POLICY = 'FailedCreate: pods "x" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
WEBHOOK = 'FailedCreate: admission webhook "policy" denied the request: images must come from the mirror'


@pytest.mark.parametrize(
    ("reason", "terminal", "message", "deployment"),
    [
        pytest.param(
            "QuotaExceeded",
            False,
            "exceeded quota",
            child("Deployment", QUOTA),
            id="a quota may come free",
        ),
        pytest.param(
            "PodRejected",
            True,
            "violates PodSecurity",
            child("Deployment", POLICY),
            id="pod security will not give in",
        ),
        pytest.param(
            "PodRejected",
            True,
            "must come from the mirror",
            child("Deployment", WEBHOOK),
            id="nor will a policy webhook",
        ),
    ],
)
def test_a_deployment_whose_pods_are_not_admitted(
    reason: str, terminal: bool, message: str, deployment: Child
) -> None:
    found = diagnose_server([], deployment, VLLM)
    assert found is not None
    assert (found.reason, found.terminal, found.node_helps) == (
        reason,
        terminal,
        False,
    )
    assert message in found.message


def test_an_old_refusal_does_not_matter_once_there_is_a_pod() -> None:
    assert (
        diagnose_server([pod_of(pod_body())], child("Deployment", QUOTA), VLLM)
        is None
    )


def test_of_two_pods_the_one_that_is_refused_is_told() -> None:
    one = pod_of(pod_body())
    found = diagnose_server([one], child("Deployment", QUOTA), VLLM, wanted=2)
    assert found is not None
    assert found.reason == "QuotaExceeded"


@pytest.mark.parametrize("role", ["server", "client"])
def test_a_pod_with_scheduling_gates_waits_for_whoever_set_them(role: str) -> None:
    why = condition(
        "PodScheduled", "False", "SchedulingGated", "Scheduling is blocked"
    )
    spec = {
        "nodeName": None,
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
    }
    pod = pod_of(
        pod_body(role, spec=spec, status={"phase": "Pending", "conditions": [why]})
    )
    found = (
        diagnose_server([pod], None, VLLM)
        if role == "server"
        else diagnose_client([pod], None, VLLM)
    )
    assert found is not None
    assert (found.reason, found.terminal, found.node_helps) == (
        "SchedulingGated",
        False,
        False,
    )
    assert "kueue.x-k8s.io/admission" in found.message


def test_of_several_pods_the_one_that_cannot_be_helped_counts() -> None:
    waits = pending("0/1 nodes are available: 1 Insufficient cpu.")
    failed = ended(2, tail("unknown-flag"))
    found = diagnose_server([waits, failed], None, VLLM)
    assert found is not None
    assert found.reason == "UsageError"


LOG = st.sampled_from(
    [
        *LOGS.values(),
        CUDA_OOM,
        GPU_TAKEN,
        KV_NONE,
        GATED,
        NOT_VALID,
        UNREACHABLE,
        "plain",
        "",
    ]
)


@given(
    log=LOG,
    junk=st.text(max_size=50),
    exit_code=st.sampled_from([0, 1, 2, 137, 139]),
    reason=st.sampled_from(["Error", "OOMKilled", "Completed", ""]),
    restarts=st.integers(0, 4),
    restarted=st.booleans(),
    cut=st.integers(1, 9000),
)
def test_every_message_is_bounded_and_free_of_tracebacks(
    log: str, junk: str, cut: int, exit_code: int, restarted: bool, **ending: Any
) -> None:
    pod = ended(exit_code, (junk + log)[-cut:], restarted=restarted, **ending)
    for found in (
        diagnose_server([pod], None, VLLM),
        diagnose_server([pod], None, VLLM, log_tail=log),
    ):
        if found is None:
            continue
        assert len(found.message) < MAX_CHARS + 400
        assert "Traceback" not in found.message
        assert "\n" not in found.message


def test_a_message_says_what_happened_and_what_to_change() -> None:
    assert diagnose_server(
        [ended(2, tail("unknown-flag"))], None, VLLM
    ) == Diagnosis(
        reason="UsageError",
        message="vLLM refused its arguments: unrecognized arguments: --disable-log-requests. Correct spec.server.args for this "
        "version of vLLM (vllm serve --help=all in the image lists its flags).",
        terminal=True,
    )


RUNNING = pod_of(pod_body())


def test_a_cause_out_of_sight_is_worth_a_log() -> None:
    hidden = ended(1, LOGS["kv-small"][-2048:])
    assert find_pod_with_hidden_cause([RUNNING, hidden], VLLM) == hidden
    assert (
        find_pod_with_hidden_cause([RUNNING, ended(2, LOGS["unknown-flag"])], VLLM)
        is None
    )


OWN = Failure(
    reason="TokenizerNotFound", message="no tokenizer at /model"
).model_dump_json()
DEADLINE = child(
    "Job", "DeadlineExceeded: Job was active longer than specified deadline"
)
BACKOFF = child(
    "Job", "BackoffLimitExceeded: Job has reached the specified backoff limit"
)


@pytest.mark.parametrize(
    ("reason", "terminal", "message", "pod"),
    [
        pytest.param(
            "TokenizerNotFound",
            True,
            "no tokenizer at /model",
            ended(3, OWN, role="client"),
            id="its own word",
        ),
        pytest.param(
            "TokenizerNotFound",
            True,
            "no tokenizer",
            ended(3, f"\n{OWN}\n", role="client"),
            id="with space around",
        ),
        pytest.param(
            "ClientFailed",
            True,
            "exit code 3",
            ended(3, '{"reason": "x y"}', role="client"),
            id="JSON of another kind",
        ),
        pytest.param(
            "ClientFailed",
            True,
            "KeyError: 'a'",
            ended(
                1,
                "Traceback (most recent call last):\nKeyError: 'a'",
                role="client",
            ),
            id="a crash",
        ),
        pytest.param(
            "ClientFailed",
            True,
            "exit code 139: Error",
            ended(139, role="client"),
            id="not a word",
        ),
        pytest.param(
            "ClientGone",
            True,
            "killed (exit code 137)",
            ended(137, role="client"),
            id="killed",
        ),
        pytest.param(
            "ClientGone",
            True,
            "killed (exit code 143)",
            ended(143, role="client"),
            id="told to end",
        ),
        pytest.param(
            "OutOfMemory",
            True,
            "spec.client.resources.",
            ended(137, reason="OOMKilled", role="client"),
            id="memory",
        ),
        pytest.param(
            "ImagePull",
            True,
            "spec.client.image",
            waiting("ImagePullBackOff", "x", role="client"),
            id="its image",
        ),
        pytest.param(
            "ContainerConfig",
            False,
            'configmap "plan" not found',
            waiting(
                "CreateContainerConfigError",
                'configmap "plan" not found',
                role="client",
            ),
            id="something missing",
        ),
        pytest.param(
            "Unschedulable",
            False,
            "spec.client.resources",
            pending("0/1 nodes are available: 1 Insufficient cpu.", role="client"),
            id="no room",
        ),
        pytest.param(
            "Evicted",
            True,
            "spec.client.pod",
            gone("Evicted", role="client"),
            id="evicted",
        ),
        pytest.param(
            "Evicted",
            True,
            "Preemption",
            gone("PreemptionByScheduler", deleting=True, role="client"),
            id="preempted",
        ),
    ],
)
def test_a_failing_client(
    reason: str, terminal: bool, message: str, pod: Pod
) -> None:
    found = diagnose_client([pod], child("Job"), VLLM)
    assert found is not None
    assert (found.reason, found.terminal) == (reason, terminal)
    assert message in found.message


@pytest.mark.parametrize(
    "pods",
    [
        pytest.param([], id="no pod yet"),
        pytest.param([pod_of(pod_body("client"))], id="running"),
        pytest.param(
            [ended(0, "done", reason="Completed", role="client")], id="ended well"
        ),
        pytest.param(
            [ended(0, OWN, reason="Completed", role="client")],
            id="ended well, whatever it wrote",
        ),
        pytest.param(
            [replace(ended(143, role="client"), deleting=True)], id="being deleted"
        ),
    ],
)
def test_a_client_without_a_diagnosis(pods: list[Pod]) -> None:
    assert diagnose_client(pods, child("Job"), VLLM) is None
    assert diagnose_client(pods, None, VLLM) is None


@pytest.mark.parametrize(
    ("reason", "job", "pods"),
    [
        pytest.param(
            "RunDeadlineExceeded",
            DEADLINE,
            [],
            id="the Job's deadline, its pods gone",
        ),
        pytest.param(
            "ClientGone", BACKOFF, [], id="a Job that gave up, its pods gone"
        ),
        pytest.param(
            "ClientGone",
            BACKOFF,
            [replace(ended(143, role="client"), deleting=True)],
            id="its pod going",
        ),
        pytest.param(
            "TokenizerNotFound",
            BACKOFF,
            [ended(3, OWN, role="client")],
            id="the pod knows better",
        ),
        pytest.param(
            "ClientFailed",
            BACKOFF,
            [waiting("ErrImagePull", role="client")],
            id="the Job is more final than a wait",
        ),
    ],
)
def test_a_failed_job(reason: str, job: Child, pods: list[Pod]) -> None:
    found = diagnose_client(pods, job, VLLM)
    assert found is not None
    assert (found.reason, found.terminal) == (reason, True)


def test_the_clients_word_is_passed_on_as_it_is() -> None:
    assert diagnose_client([ended(3, OWN, role="client")], None, VLLM) == Diagnosis(
        "TokenizerNotFound", "no tokenizer at /model", True
    )


def test_the_clients_word_is_bounded_and_one_line() -> None:
    long = Failure(reason="X", message="line\n" * 300).model_dump_json()
    found = diagnose_client([ended(3, long, role="client")], None, VLLM)
    assert found is not None
    assert len(found.message) <= MAX_CHARS
    assert "\n" not in found.message
