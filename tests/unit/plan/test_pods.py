"""What pods have in common: variables, amounts, placement."""

from collections.abc import Iterable
from typing import Any

import pytest
from benchrun import names
from benchrun.api import BenchmarkRunSpec, PodOverrides, Resources
from benchrun.plan import (
    Manifest,
    client_job,
    environment,
    pod_spec,
    resources,
    server_roles,
    workload,
)
from kit.every_case import every
from kit.restricted_scc import RESTRICTED_VOLUMES
from unit.plan.cases import CASES
from unit.plan.objects import objects, of_kind
from unit.plan.specs import OWNER, Json, endpoint_body, spec, spec_body


def variable(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


@pytest.mark.parametrize(
    ("defaults", "given", "expected"),
    [
        ({}, [], []),
        ({"A": "1"}, [], [variable("A", "1")]),
        ({"A": "1"}, [(variable("A", "2"),)], [variable("A", "2")]),
        (
            {"A": "1"},
            [(variable("A", "2"),), (variable("A", "3"),)],
            [variable("A", "3")],
        ),
        (
            {"A": "1", "B": "1"},
            [(variable("B", "2"), variable("C", "2"))],
            [variable(n, v) for n, v in ("A1", "B2", "C2")],
        ),
        (
            {"A": "1"},
            [({"name": "A", "valueFrom": {"x": {}}},)],
            [{"name": "A", "valueFrom": {"x": {}}}],
        ),
    ],
)
def test_the_last_value_of_a_variable_holds(
    defaults: dict[str, str],
    given: list[tuple[dict[str, Any], ...]],
    expected: list[dict[str, Any]],
) -> None:
    assert environment(defaults, *given) == expected


DEFAULTS = {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"requests": DEFAULTS}),
        (
            {"limits": {"cpu": "2"}},
            {"limits": {"cpu": "2"}, "requests": {"memory": "1Gi"}},
        ),
        ({"requests": {"cpu": "2"}}, {"requests": {"cpu": "2", "memory": "1Gi"}}),
        (
            {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1"}},
            {"limits": {"cpu": "2", "memory": "4Gi"}, "requests": {"cpu": "1"}},
        ),
        (
            {"limits": {"nvidia.com/gpu": 1}},
            {"limits": {"nvidia.com/gpu": 1}, "requests": DEFAULTS},
        ),
    ],
)
def test_default_requests_stand_for_what_is_left_out_of_both_lists(
    given: Any, expected: Any
) -> None:
    """A default request beside a lower limit would be refused: Kubernetes takes the limit for the
    request."""
    assert resources(Resources.model_validate(given), requests=DEFAULTS) == expected


def test_without_defaults_an_empty_list_is_left_out() -> None:
    assert resources(Resources()) == {}
    assert resources(Resources(limits={"cpu": 1})) == {"limits": {"cpu": 1}}


EVERYTHING: dict[str, Any] = {
    "nodeSelector": {"gpu": "h100"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "runtimeClassName": "nvidia",
    "priorityClassName": "high",
    "schedulerName": "batch",
    "serviceAccountName": "bench",
}


BARE = pod_spec({}, [], PodOverrides(), user=2000)


def placement(**pod: Any) -> dict[str, Any]:
    made = pod_spec({}, [], PodOverrides.model_validate(pod), user=2000)
    return {name: value for name, value in made.items() if name not in BARE}


def test_placement_is_what_was_said_of_it_and_nothing_else() -> None:
    pod_fields = {
        "imagePullSecrets": ["a", "b"],
        "volumes": [{"name": "v"}],
        "securityContext": {"runAsUser": 1},
    }
    assert placement(**EVERYTHING, **pod_fields) == {
        **EVERYTHING,
        "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
    }
    assert placement(imagePullSecrets=[]) == {}


@pytest.mark.parametrize("name", EVERYTHING)
def test_each_field_of_it_alone(name: str) -> None:
    assert placement(**{name: EVERYTHING[name]}) == {name: EVERYTHING[name]}


def test_a_pod_runs_as_its_user_unless_the_spec_says_otherwise() -> None:
    assert BARE == {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 2000,
            "runAsGroup": 2000,
            "fsGroup": 2000,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [{"volumeMounts": []}],
        "volumes": [],
    }
    for given in ({}, {"runAsUser": 5}):
        assert (
            pod_spec({}, [], PodOverrides(security_context=given), user=2000)[
                "securityContext"
            ]
            == given
        )


# Pods hold to the restricted Pod Security Standard, carry no token, and stay where they are.

ALSO_HARMLESS = {"image"}
"""Read-only by nature and allowed under `restricted` since it exists."""

GROUPS = "LeaderWorkerSet"
PODS = [
    *((case, "Job") for case in CASES),
    *(
        (case, "Deployment")
        for case, body in CASES.items()
        if "server" in body and case != "many-nodes"
    ),
    *(("many-nodes", f"{GROUPS} {pod}") for pod in ("leader", "worker")),
]


def template(body: Json, what: str) -> Manifest:
    kind, _, pod = what.partition(" ")
    spec = of_kind(objects(OWNER, BenchmarkRunSpec.model_validate(body)), kind)[
        "spec"
    ]
    found = (
        spec["leaderWorkerTemplate"][f"{pod}Template"]
        if kind == GROUPS
        else spec["template"]
    )
    assert isinstance(found, dict)
    return found


def breaches(pod: Manifest) -> Iterable[str]:
    """What the restricted standard would refuse, in its own order."""
    security = pod.get("securityContext", {})
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if pod.get(field):
            yield field
    if security.get("runAsNonRoot") is not True or security.get("runAsUser") == 0:
        yield "runAsNonRoot"
    if security.get("seccompProfile") != {"type": "RuntimeDefault"}:
        yield "seccompProfile"
    for volume in pod["volumes"]:
        if not (set(volume) - {"name"}) <= RESTRICTED_VOLUMES | ALSO_HARMLESS:
            yield f"volume {volume['name']}"
    for container in (*pod["containers"], *pod.get("initContainers", ())):
        own = container["securityContext"]
        if (
            own.get("privileged")
            or own.get("allowPrivilegeEscalation") is not False
        ):
            yield "allowPrivilegeEscalation"
        if own["capabilities"] != {"drop": ["ALL"]}:
            yield "capabilities"
        if any("hostPort" in port for port in container.get("ports", ())):
            yield "hostPort"


@every(("case", "kind"), PODS)
def test_pod_keeps_the_restricted_standard(case: str, kind: str) -> None:
    assert list(breaches(template(CASES[case], kind)["spec"])) == []


@every(("case", "kind"), PODS)
def test_pod_holds_no_token_and_learns_no_neighbours(case: str, kind: str) -> None:
    pod = template(CASES[case], kind)["spec"]
    assert (pod["automountServiceAccountToken"], pod["enableServiceLinks"]) == (
        False,
        False,
    )


@every(("case", "kind"), PODS)
def test_no_autoscaler_moves_the_pod(case: str, kind: str) -> None:
    assert template(CASES[case], kind)["metadata"]["annotations"] == {
        "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
        "karpenter.sh/do-not-disrupt": "true",
    }


def test_client_cannot_write_to_its_image() -> None:
    (container,) = template(spec_body(), "Job")["spec"]["containers"]
    assert container["securityContext"]["readOnlyRootFilesystem"] is True


def test_a_given_pod_security_context_replaces_the_default_whole() -> None:
    given = {"runAsUser": 0, "fsGroup": 3000}
    pod = template(
        spec_body(server={"image": "v", "pod": {"securityContext": given}}),
        "Deployment",
    )["spec"]
    assert pod["securityContext"] == given


@pytest.mark.parametrize(
    ("case", "variable", "secret"),
    [
        ("endpoint-url", "OPENAI_API_KEY", {"name": "llm", "key": "api-key"}),
        (
            "endpoint-gateway",
            "BENCHRUN_HEADER_X_API_KEY",
            {"name": "keys", "key": "k"},
        ),
    ],
)
def test_secrets_are_only_ever_references(
    case: str, variable: str, secret: Json
) -> None:
    manifests = objects(OWNER, BenchmarkRunSpec.model_validate(CASES[case]))
    (container,) = of_kind(manifests, "Job")["spec"]["template"]["spec"][
        "containers"
    ]
    assert [v for v in container["env"] if v["name"] == variable] == [
        {"name": variable, "valueFrom": {"secretKeyRef": secret}}
    ]


# How long a server may be held stands on what makes its pods, for whoever releases it without an
# operator.

DAY = 86_400
SPLIT: Json = {
    "image": "v",
    "disaggregated": {
        "prefill": {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        "decode": {"resources": {"limits": {"nvidia.com/gpu": 1}}},
        "kvTransfer": {"connector": "NixlConnector"},
    },
}


def workloads(bound: int = DAY, **changes: Json | int) -> list[Manifest]:
    started = server_roles(
        OWNER,
        spec(**changes),
        client_image="c",
        pull_policy="Always",
        max_hold_seconds=bound,
    )
    return [workload(OWNER, role) for role in started]


def held(manifest: Manifest) -> str:
    return str(manifest["metadata"]["annotations"][names.ANNOTATION_HOLD])


@pytest.mark.parametrize(
    ("startup", "run", "bound", "expected"),
    [
        pytest.param(1800, 3600, DAY, 5460, id="both deadlines and a margin"),
        pytest.param(0, 3600, DAY, DAY, id="no limit to starting"),
        pytest.param(1800, 0, DAY, DAY, id="no limit to measuring"),
        pytest.param(1800, 3600, 5460, 5460, id="as long as the bound"),
        pytest.param(1800, 3600, 5459, 5459, id="longer than the bound"),
        pytest.param(
            604_800, 604_800, DAY, DAY, id="the greatest that can be written"
        ),
    ],
)
def test_seconds(startup: int, run: int, bound: int, expected: int) -> None:
    [server] = workloads(
        bound, startupDeadlineSeconds=startup, runDeadlineSeconds=run
    )
    assert (server["kind"], held(server)) == ("Deployment", str(expected))


def test_without_a_deadline_a_server_is_held_for_a_day() -> None:
    [role] = server_roles(
        OWNER, spec(runDeadlineSeconds=0), client_image="c", pull_policy="Always"
    )
    assert role.hold_seconds == DAY


def test_servers_over_several_nodes_carry_it_too() -> None:
    server = {"image": "v", "nodesPerReplica": 2}
    [group] = workloads(
        server=server, startupDeadlineSeconds=1, runDeadlineSeconds=2
    )
    assert (group["kind"], held(group)) == ("LeaderWorkerSet", "64")


def test_of_several_pods_the_last_has_a_deadline_to_start_of_its_own() -> None:
    [servers] = workloads(
        server={"image": "v", "replicas": 2},
        startupDeadlineSeconds=1,
        runDeadlineSeconds=2,
    )
    assert held(servers) == "64"


def test_every_role_of_disaggregated_servers_carries_it() -> None:
    found = workloads(server=SPLIT, startupDeadlineSeconds=1, runDeadlineSeconds=2)
    assert [held(each) for each in found] == ["64"] * 3


# The Job's own end, for when no operator is there: later than any deadline of the run, and there
# even without those.

DAY_JOB_DEADLINE = 86_400
WEEK = 7 * DAY_JOB_DEADLINE
LIMITED = {
    "pendingDeadlineSeconds": 600,
    "startupDeadlineSeconds": 1800,
    "runDeadlineSeconds": 3600,
}
URL = {"url": "http://llm.example"}


@pytest.mark.parametrize(
    ("expected", "body"),
    [
        pytest.param(
            600 + 1800 + 3600, spec_body(**LIMITED), id="all three deadlines"
        ),
        pytest.param(
            WEEK + 1800 + 3600,
            spec_body(**LIMITED | {"pendingDeadlineSeconds": 0}),
            id="no limit to waiting",
        ),
        pytest.param(
            600 + DAY_JOB_DEADLINE + 3600,
            spec_body(**LIMITED | {"startupDeadlineSeconds": 0}),
            id="no limit to starting",
        ),
        pytest.param(
            600 + 1800 + DAY_JOB_DEADLINE,
            spec_body(**LIMITED | {"runDeadlineSeconds": 0}),
            id="no limit to measuring",
        ),
        pytest.param(
            1800 + 3600,
            endpoint_body(URL, **LIMITED),
            id="an endpoint waits for no GPU",
        ),
        pytest.param(
            1800 + DAY_JOB_DEADLINE,
            endpoint_body(URL, **LIMITED | {"runDeadlineSeconds": 0}),
            id="endpoint without limit",
        ),
    ],
)
def test_active_deadline(expected: int, body: Json) -> None:
    job = of_kind(objects(OWNER, BenchmarkRunSpec.model_validate(body)), "Job")
    assert job["spec"]["activeDeadlineSeconds"] == expected + DAY_JOB_DEADLINE


def test_the_bound_stands_for_limits_that_are_left_out() -> None:
    body = spec_body(
        pendingDeadlineSeconds=1, startupDeadlineSeconds=0, runDeadlineSeconds=0
    )
    spec = BenchmarkRunSpec.model_validate(body)
    job = client_job(
        OWNER,
        spec,
        plan_digest="p" * 64,
        default_image="c",
        pull_policy="Always",
        max_hold_seconds=100,
    )
    assert job["spec"]["activeDeadlineSeconds"] == 1 + 100 + 100 + DAY_JOB_DEADLINE


def test_a_client_is_never_tried_twice() -> None:
    job = of_kind(
        objects(OWNER, BenchmarkRunSpec.model_validate(spec_body())), "Job"
    )
    pod = job["spec"]["template"]["spec"]
    assert (
        job["spec"]["backoffLimit"],
        job["spec"]["completions"],
        pod["restartPolicy"],
    ) == (
        0,
        1,
        "Never",
    )
