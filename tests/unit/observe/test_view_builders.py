"""Raw objects trimmed to views: what is kept, what is believed, and that nothing odd ever
raises."""

from dataclasses import fields
from datetime import UTC, datetime
from typing import Any

import pytest
from benchrun import names
from benchrun.api import is_gpu
from benchrun.observe import (
    MAX_ARGS,
    MAX_MESSAGE_CHARS,
    MAX_VALUES,
    Child,
    Pod,
    Run,
    Termination,
    child_of,
    pod_of,
    run_of,
    sweep_of,
)
from hypothesis import given, strategies as st
from unit.measure.records import sealed_bytes
from unit.observe.bodies import UID, Body, condition, maker, owner, pod_body

OURS = owner("BenchmarkRun", UID, api_version="benchrun.dev/v1alpha1")


STAGE_3 = names.stage_name("x", UID, 3)


def at(second: int, minute: int = 46) -> datetime:
    return datetime(2026, 11, 21, 11, minute, second, tzinfo=UTC)


def test_a_starting_pod() -> None:
    assert pod_of(pod_body()) == Pod(
        name="br-r-3f6c8c2a-server-x",
        uid="pod-uid",
        role="server",
        run_uid=UID,
        ip="10.0.0.7",
        phase="Running",
        ready=False,
        deleting=False,
        node="node1",
        scheduled_at=at(26),
        created_at=at(25),
        started_at=at(30),
        restarts=0,
        image="vllm/vllm-openai:v0.32.0",
        image_digest="docker.io/vllm/vllm-openai@sha256:44b6",
        gpus=1,
        args=("--max-model-len=12000",),
    )


@pytest.mark.parametrize(
    ("expected", "taken", "started"),
    [
        pytest.param(
            at(29),
            "2026-11-21T11:46:27Z",
            "2026-11-21T11:46:30Z",
            id="nearly right",
        ),
        pytest.param(
            at(30), "2026-12-21T11:46:26Z", "2026-12-21T11:46:30Z", id="days ahead"
        ),
        pytest.param(
            at(30),
            "2026-11-21T06:46:26Z",
            "2026-11-21T06:46:30Z",
            id="hours behind",
        ),
        pytest.param(
            at(30),
            "2026-11-21T11:47:00Z",
            "2026-11-21T11:46:30Z",
            id="set back since",
        ),
        pytest.param(at(30), None, "2026-11-21T11:46:30Z", id="never told"),
        pytest.param(
            datetime(9999, 1, 1, tzinfo=UTC),
            "0001-01-01T00:00:00Z",
            "9999-01-01T00:00:00Z",
            id="absurd",
        ),
    ],
)
def test_a_container_has_started_by_the_schedulers_clock(
    expected: datetime, taken: str | None, started: str
) -> None:
    """The kubelet's tells only what has passed since it took the pod."""
    running = {"running": {"startedAt": started}}
    pod = pod_of(pod_body(reported={"state": running}, status={"startTime": taken}))
    assert pod.started_at == expected


PULLING = {"reason": "ImagePullBackOff", "message": "no such image"}
INITIALIZING = {"state": {"waiting": {"reason": "PodInitializing"}}}


@pytest.mark.parametrize(
    ("expected", "init"),
    [
        pytest.param(
            "ImagePullBackOff",
            [{"state": {"waiting": PULLING}}],
            id="it can't be pulled",
        ),
        pytest.param(
            "ImagePullBackOff",
            [{"state": {"terminated": {}}}, {"state": {"waiting": PULLING}}],
            id="the second",
        ),
        pytest.param(
            "PodInitializing",
            [{"state": {"waiting": {"reason": "PodInitializing"}}}],
            id="it will begin",
        ),
        pytest.param("PodInitializing", [{"state": {"running": {}}}], id="it runs"),
        pytest.param("PodInitializing", "nonsense", id="nonsense"),
    ],
)
def test_what_an_init_container_waits_for_is_what_the_pod_waits_for(
    expected: str, init: Any
) -> None:
    pod = pod_of(
        pod_body(reported=INITIALIZING, status={"initContainerStatuses": init})
    )
    assert pod.waiting_reason == expected


def ended(exit_code: int) -> Body:
    terminated = {
        "exitCode": exit_code,
        "reason": "Error",
        "message": "m",
        "finishedAt": "2026-11-21T11:46:59Z",
    }
    return {"terminated": terminated}


ENDED = Termination(exit_code=2, reason="Error", message="m")


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        pytest.param(
            {"ready": True},
            pod_body(status={"conditions": [condition("Ready", "True")]}),
            id="ready",
        ),
        pytest.param(
            {"deleting": True},
            pod_body(metadata={"deletionTimestamp": "2026-11-21T12:00:00Z"}),
            id="deleting",
        ),
        pytest.param(
            {"terminated": ENDED},
            pod_body(reported={"state": ended(2)}),
            id="ended",
        ),
        pytest.param(
            {"started_at": at(30), "last_terminated": ENDED, "restarts": 1},
            pod_body(reported={"lastState": ended(2), "restartCount": 1}),
            id="ended before, runs again",
        ),
        pytest.param(
            {
                "waiting_reason": "ImagePullBackOff",
                "waiting_message": "Back-off",
                "started_at": None,
            },
            pod_body(
                reported={
                    "state": {
                        "waiting": {
                            "reason": "ImagePullBackOff",
                            "message": "Back-off",
                        }
                    }
                }
            ),
            id="waiting",
        ),
        pytest.param(
            {"unschedulable": "0/1 nodes", "scheduled_at": None},
            pod_body(
                status={
                    "conditions": [
                        condition(
                            "PodScheduled", "False", "Unschedulable", "0/1 nodes"
                        )
                    ]
                }
            ),
            id="unschedulable",
        ),
        pytest.param(
            {"unschedulable": None, "scheduled_at": None},
            pod_body(
                status={
                    "conditions": [
                        condition("PodScheduled", "False", "SchedulingGated")
                    ]
                }
            ),
            id="gated is not unschedulable",
        ),
        pytest.param(
            {
                "pod_reason": "Evicted",
                "pod_message": "low on memory",
                "phase": "Failed",
            },
            pod_body(
                status={
                    "phase": "Failed",
                    "reason": "Evicted",
                    "message": "low on memory",
                }
            ),
            id="evicted",
        ),
        pytest.param(
            {"pod_reason": "PreemptionByScheduler", "pod_message": "preempted"},
            pod_body(
                status={
                    "conditions": [
                        condition(
                            "DisruptionTarget",
                            "True",
                            "PreemptionByScheduler",
                            "preempted",
                        )
                    ]
                }
            ),
            id="preempted",
        ),
        pytest.param(
            {"pod_reason": None},
            pod_body(
                status={
                    "conditions": [
                        condition(
                            "DisruptionTarget", "False", "PreemptionByScheduler"
                        )
                    ]
                }
            ),
            id="not to be disrupted after all",
        ),
        pytest.param(
            {"image_digest": "x@sha256:1"},
            pod_body(reported={"imageID": "docker-pullable://x@sha256:1"}),
            id="Docker's prefix",
        ),
        pytest.param(
            {"gpus": 8},
            pod_body(container={"resources": {"limits": {"amd.com/gpu": 8}}}),
            id="AMD, as a number",
        ),
        pytest.param(
            {"gpus": 0},
            pod_body(container={"resources": {"limits": {"cpu": "8"}}}),
            id="no GPU",
        ),
        pytest.param(
            {"run_uid": ""},
            pod_body(metadata={"ownerReferences": []}),
            id="a stray that carries our label",
        ),
        pytest.param(
            {"run_uid": ""},
            pod_body(metadata={"ownerReferences": [owner("DaemonSet")]}),
            id="of somebody else's kind",
        ),
        pytest.param(
            {"run_uid": ""},
            pod_body(
                metadata={
                    "ownerReferences": [maker("server") | {"controller": False}]
                }
            ),
            id="owned but not controlled",
        ),
        pytest.param({"run_uid": UID}, pod_body("client"), id="of our Job"),
        pytest.param(
            {"run_uid": ""},
            pod_body("client", metadata={"ownerReferences": [owner("Job")]}),
            id="of somebody else's Job",
        ),
        pytest.param(
            {"run_uid": ""},
            pod_body(
                "client",
                metadata={
                    "ownerReferences": [
                        owner("Job", name=f"{maker('client')['name']}-x")
                    ]
                },
            ),
            id="of a Job whose name begins like ours",
        ),
        pytest.param(
            {"run_uid": ""},
            pod_body(
                "client",
                metadata={
                    "ownerReferences": [
                        owner("ReplicaSet", name=f"{maker('client')['name']}-x")
                    ]
                },
            ),
            id="a client that no Job made",
        ),
        pytest.param(
            {"run_uid": ""},
            pod_body(metadata={"ownerReferences": [maker("prefill")]}),
            id="of another role than its Deployment",
        ),
        pytest.param(
            {"run_uid": ""},
            pod_body(metadata={"ownerReferences": [owner("ReplicaSet")]}),
            id="of somebody else's Deployment",
        ),
    ],
)
def test_a_pod_differs_by(expected: dict[str, object], body: Body) -> None:
    pod = pod_of(body)
    assert {name: getattr(pod, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("restarts", "role", "containers"),
    [
        pytest.param(
            3,
            "server",
            ["istio-proxy", "server"],
            id="a sidecar that was injected before",
        ),
        pytest.param(
            3,
            "client",
            ["server", "client"],
            id="the client's container by its name",
        ),
        pytest.param(
            3, "decode", ["server", "proxy"], id="any server role has the same"
        ),
        pytest.param(
            3, "server", ["renamed"], id="the only one, whatever its name"
        ),
        pytest.param(0, "server", ["a", "b"], id="none of several strangers"),
    ],
)
def test_the_main_container(
    restarts: int, role: str, containers: list[str]
) -> None:
    wanted = "client" if role == "client" else "server"
    statuses = [
        {"name": n, "restartCount": 3 if n in (wanted, "renamed") else 7}
        for n in containers
    ]
    assert (
        pod_of(pod_body(role, status={"containerStatuses": statuses})).restarts
        == restarts
    )


def test_long_texts_are_cut_and_of_a_log_the_end_is_kept() -> None:
    state = {
        "terminated": {
            "exitCode": 1,
            "reason": "Error",
            "message": "a" * 5000 + "the end",
        }
    }
    pod = pod_of(
        pod_body(reported={"state": state}, container={"args": ["x" * 900] * 500})
    )
    assert pod.terminated is not None
    assert len(pod.terminated.message) == MAX_MESSAGE_CHARS
    assert pod.terminated.message.endswith("the end")
    assert (len(pod.args), len(pod.args[0])) == (4, 900), (
        "as many as the status shows"
    )
    assert len(pod_of(pod_body(container={"args": [""] * 500})).args) == MAX_ARGS


@pytest.mark.parametrize(
    "bomb",
    [[[]] * MAX_VALUES, [{}] * MAX_VALUES, {str(n): n for n in range(MAX_VALUES)}],
)
def test_of_a_spec_with_too_many_values_nothing_is_kept_but_the_status_is(
    bomb: Any,
) -> None:
    body = {
        "spec": {"server": {"pod": {"affinity": {"a": bomb}}}},
        "status": {"phase": "Pending"},
    }
    for declared in (run_of(body), sweep_of(body)):
        assert (declared.spec, declared.status) == ({}, {"phase": "Pending"})
    few: Body = {"spec": {"a": [[]] * (MAX_VALUES - 2)}}
    assert run_of(few).spec == few["spec"]


def test_a_child() -> None:
    envelope = sealed_bytes(3).envelope
    body = {
        "metadata": {
            "name": STAGE_3,
            "uid": "cm-uid",
            "generation": 4,
            "labels": {"benchrun.dev/role": "stage", "benchrun.dev/sequence": "3"},
            "annotations": {
                "benchrun.dev/plan-digest": "p" * 64,
                "benchrun.dev/token-digest": "t" * 64,
                "benchrun.dev/envelope": envelope.model_dump_json(),
            },
            "ownerReferences": [OURS],
        }
    }
    assert child_of("ConfigMap", body) == Child(
        kind="ConfigMap",
        name=STAGE_3,
        uid="cm-uid",
        role="stage",
        owner_uid=UID,
        deleting=False,
        plan_digest="p" * 64,
        token_digest="t" * 64,
        sequence=3,
        envelope=envelope,
    )


@pytest.mark.parametrize(
    "annotation",
    [
        pytest.param("", id="empty"),
        pytest.param("{", id="no JSON"),
        pytest.param("[]", id="no object"),
        pytest.param(
            sealed_bytes(4).envelope.model_dump_json(), id="of another record"
        ),
        pytest.param(
            sealed_bytes(3, digest="d").envelope.model_dump_json(), id="no digest"
        ),
    ],
)
def test_an_envelope_that_is_not_that_of_the_record_is_none(
    annotation: str,
) -> None:
    metadata = {
        "name": STAGE_3,
        "labels": {"benchrun.dev/role": "stage", "benchrun.dev/sequence": "3"},
        "annotations": {"benchrun.dev/envelope": annotation},
        "ownerReferences": [OURS],
    }
    found = child_of("ConfigMap", {"metadata": metadata})
    assert (found.sequence, found.envelope) == (3, None)


@pytest.mark.parametrize(
    ("owner_uid", "references"),
    [
        pytest.param(UID, [OURS], id="the run that controls it"),
        pytest.param(
            UID,
            [owner("Deployment", controller=False), OURS],
            id="beside a further owner",
        ),
        pytest.param(None, [], id="nobody"),
        pytest.param(
            None,
            [owner("BenchmarkRun", UID, api_version="evil.dev/v1")],
            id="a namesake of another group",
        ),
        pytest.param(None, [owner("Deployment", UID)], id="another kind"),
        pytest.param(
            None,
            [OURS | {"controller": False}],
            id="an owner that does not control",
        ),
        pytest.param(None, [OURS | {"uid": ""}], id="no uid"),
    ],
)
def test_the_owner_is_the_controller_reference(
    owner_uid: str | None, references: list[Body]
) -> None:
    assert (
        child_of("Job", {"metadata": {"ownerReferences": references}}).owner_uid
        == owner_uid
    )


@pytest.mark.parametrize(
    ("name", "role", "sequence", "is_believed"),
    [
        pytest.param(STAGE_3, "stage", "3", True, id="record"),
        pytest.param(STAGE_3, "stage", "4", False, id="record of another stage"),
        pytest.param(STAGE_3, "stage", None, False, id="record of no stage"),
        pytest.param("evil", "stage", "3", False, id="record of another name"),
        pytest.param(
            names.stage_name("y", UID, 3),
            "stage",
            "3",
            False,
            id="record of another run",
        ),
        pytest.param(
            names.stage_name("x", "u", 3),
            "stage",
            "3",
            False,
            id="record of a namesake",
        ),
        pytest.param(
            names.timeline_name("x", UID, 12), "timeline", None, True, id="chunk"
        ),
        pytest.param(
            STAGE_3,
            "timeline",
            None,
            False,
            id="chunk that is called like a record",
        ),
        pytest.param("evil", "timeline", None, False, id="chunk of another name"),
        pytest.param(
            names.child_name("x", UID, "chunk-7"),
            "timeline",
            None,
            False,
            id="chunk not so spelled",
        ),
        pytest.param(
            "anything",
            "server",
            None,
            True,
            id="what it holds is let go by its owner",
        ),
    ],
)
def test_the_owner_of_what_was_measured_counts_where_it_gives_such_names(
    name: str, role: str, sequence: str | None, is_believed: bool
) -> None:
    labels = {"benchrun.dev/role": role, "benchrun.dev/sequence": sequence}
    metadata = {"name": name, "labels": labels, "ownerReferences": [OURS]}
    owner_uid = child_of("ConfigMap", {"metadata": metadata}).owner_uid
    assert owner_uid == (UID if is_believed else None)


QUOTA = 'pods "x" is forbidden: exceeded quota: q, requested: requests.nvidia.com/gpu=99'


@pytest.mark.parametrize(
    ("failure", "kind", "conditions"),
    [
        pytest.param(None, "Deployment", [], id="nothing said"),
        pytest.param(
            f"FailedCreate: {QUOTA}",
            "Deployment",
            [
                condition("Available", "False"),
                condition("ReplicaFailure", "True", "FailedCreate", QUOTA),
            ],
            id="a Deployment over its quota",
        ),
        pytest.param(
            None,
            "Deployment",
            [condition("ReplicaFailure", "False", "FailedCreate")],
            id="over again",
        ),
        pytest.param(
            "DeadlineExceeded: Job was active longer than specified deadline",
            "Job",
            [
                condition(
                    "Failed",
                    "True",
                    "DeadlineExceeded",
                    "Job was active longer than specified deadline",
                )
            ],
            id="a Job past its deadline",
        ),
        pytest.param(
            "BackoffLimitExceeded",
            "Job",
            [condition("Failed", "True", "BackoffLimitExceeded")],
            id="no message",
        ),
        pytest.param(
            "BackoffLimitExceeded",
            "Job",
            [condition("FailureTarget", "True", "BackoffLimitExceeded")],
            id="a Job that fails, whose pod can't end on a lost node",
        ),
        pytest.param(
            None,
            "Job",
            [condition("ReplicaFailure", "True", "FailedCreate")],
            id="another kind's condition",
        ),
        pytest.param(
            None,
            "Service",
            [condition("Failed", "True", "x")],
            id="a kind without any",
        ),
    ],
)
def test_failure_conditions_of_a_child_are_read(
    failure: str | None, kind: str, conditions: list[Body]
) -> None:
    assert child_of(kind, {"status": {"conditions": conditions}}).failure == failure


def test_a_run() -> None:
    body = {
        "metadata": {
            "namespace": "ns",
            "name": "r",
            "uid": UID,
            "generation": 2,
            "creationTimestamp": "2026-11-21T11:46:25Z",
        },
        "spec": {"repeats": 3},
        "status": {"phase": "Running"},
    }
    expected = Run(
        "ns",
        "r",
        UID,
        2,
        spec={"repeats": 3},
        status={"phase": "Running"},
        created_at=at(25),
        deleting=False,
    )
    assert run_of(body) == expected


@pytest.mark.parametrize(
    ("expected", "resource"),
    [
        pytest.param(True, "nvidia.com/gpu", id="NVIDIA"),
        pytest.param(True, "amd.com/gpu", id="AMD"),
        pytest.param(True, "nvidia.com/mig-1g.10gb", id="a MIG slice"),
        pytest.param(True, "gpu.intel.com/i915", id="Intel"),
        pytest.param(False, "memory", id="memory"),
        pytest.param(
            False, "example.com/gpu-monitor", id="something named after one"
        ),
    ],
)
def test_is_gpu(expected: bool, resource: str) -> None:
    assert is_gpu(resource) == expected


# ---- odd input
# ------------------------------------------------------------------------------------------------------

JUNK: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.just("2026-13-99T99:99:99Z"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
KEYS = (
    "metadata",
    "spec",
    "status",
    "labels",
    "containerStatuses",
    "containers",
    "conditions",
    "state",
    "ownerReferences",
)


@st.composite
def spoiled(draw: st.DrawFn) -> Body:
    """A good pod with junk somewhere in it."""
    body: Any = pod_body(reported={"state": ended(1)})
    node = body
    for _ in range(draw(st.integers(1, 5))):
        keys = (
            list(node)
            if isinstance(node, dict)
            else list(range(len(node)))
            if isinstance(node, list)
            else []
        )
        if not keys:
            break
        key = draw(st.sampled_from(keys))
        if draw(st.booleans()):
            node[key] = draw(JUNK)
            break
        node = node[key]
    return dict(body)


@given(spoiled())
def test_a_spoiled_object_never_raises(body: Body) -> None:
    pod = pod_of(body)
    assert isinstance(pod.restarts, int)
    for field in fields(pod):
        value = getattr(pod, field.name)
        assert not isinstance(value, str) or len(value) <= MAX_MESSAGE_CHARS
    assert child_of("Job", body).kind == "Job"
    assert run_of(body).spec == body.get("spec") or not isinstance(
        body.get("spec"), dict
    )


@given(st.dictionaries(st.sampled_from(KEYS), JUNK))
def test_junk_never_raises(body: Body) -> None:
    assert pod_of(body).run_uid == ""
    assert child_of("Deployment", body).owner_uid is None
    assert run_of(body).deleting in (True, False)


@pytest.mark.parametrize(
    ("label", "role"),
    [
        ("leaderworkerset.sigs.k8s.io/worker-index", "server"),
        ("batch.kubernetes.io/job-completion-index", "client"),
    ],
)
def test_a_pod_knows_its_place_among_those_that_work_together(
    label: str, role: str
) -> None:
    body = pod_body(role)
    assert pod_of(body).rank == 0
    body["metadata"]["labels"][label] = "3"
    assert pod_of(body).rank == 3
