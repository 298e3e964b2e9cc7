"""What the API server says of the very objects and pods of a run."""

import json
from dataclasses import replace
from typing import Any

import pytest
from benchrun.api import BenchmarkRunSpec
from benchrun.api.sweep import KIND as SWEEP, BenchmarkSweepSpec
from benchrun.doctor.asking import ApiAnswer, ApiQuery, Check, CheckLine
from benchrun.doctor.dry_runs import dry_run_check
from benchrun.doctor.target import target_of
from benchrun.names import KIND as RUN
from benchrun.plan import RunDefaults, planned_variants
from kit.every_case import every
from unit.api.examples import EXAMPLES, Example
from unit.doctor.worlds import OPERATOR, SERVER, a_server, a_target, of, read
from unit.plan.specs import spec_body

LIMIT = (
    'pods "x" is forbidden: maximum cpu usage per Container is 64, but limit is 65'
)
NO_ROOM = 'pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2'
NEVER = 'pods "x" is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=0, limited: requests.nvidia.com/gpu=2'
SECURITY = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": restricted volume types (volume "node" uses hostPath)'
NO_CLASS = 'pods "x" is forbidden: no PriorityClass with name high was found'
WEBHOOK = 'Internal error occurred: failed calling webhook "a.b.c": timed out'
MINE = 'pods is forbidden: User "eve" cannot create resource "pods" in API group "" in the namespace "lab"'
THEIRS = 'users "x" is forbidden: User "eve" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "benchrun-system"'
THEIRS_OF_1_36 = 'pods is forbidden: User "eve" cannot impersonate-on:serviceaccount:create resource "pods" in API group "" in the namespace "lab"'
OF_RUNS = [each for each in EXAMPLES if each.kind in (RUN, SWEEP)]


def tried(
    refused: ApiAnswer, *, as_operator: bool = False, **changes: Any
) -> list[CheckLine]:
    """Return the lines where all is admitted but the server's pod."""
    check = check_of(as_operator=as_operator, **changes)
    answers = {
        query: refused if is_pod_of(query, "server") else as_sent(query)
        for query in check.queries
    }
    return read(check, answers)


def check_of(*, as_operator: bool = False, **changes: Any) -> Check:
    return dry_run_check(a_target(**changes), OPERATOR, as_operator=as_operator)


def as_sent(query: ApiQuery) -> ApiAnswer:
    return ApiAnswer(json.loads(query.body))


def is_pod_of(query: ApiQuery, role: str) -> bool:
    body = json.loads(query.body)
    of_role: bool = body["metadata"]["labels"]["benchrun.dev/role"] == role
    return of_role and body["kind"] == "Pod"


@pytest.mark.parametrize(
    ("words", "state", "field"),
    [
        pytest.param(LIMIT, "Problem", "spec.server.resources", id="limit range"),
        pytest.param(NO_ROOM, "Warning", "", id="quota has no room now"),
        pytest.param(
            NEVER, "Problem", "spec.server.resources", id="quota too small"
        ),
        pytest.param(SECURITY, "Problem", "spec.server.pod.volumes", id="security"),
        pytest.param(
            NO_CLASS, "Problem", "spec.server.pod.priorityClassName", id="class"
        ),
        pytest.param(WEBHOOK, "NotChecked", "", id="webhook without an answer"),
    ],
)
def test_a_refusal_has_the_remedy_of_the_status(
    words: str, state: str, field: str
) -> None:
    found = of(tried(ApiAnswer(trouble="Forbidden", words=words)), "pod", SERVER)
    assert found.state == state
    assert field in found.remedy
    assert found.remedy


@pytest.mark.parametrize(
    ("words", "right"),
    [
        (MINE, "create pods"),
        (THEIRS, "Leave out --as-operator"),
        (THEIRS_OF_1_36, "Leave out --as-operator"),
    ],
)
def test_a_right_that_the_user_lacks_is_no_finding(words: str, right: str) -> None:
    found = of(tried(ApiAnswer(trouble="Forbidden", words=words)), "pod", SERVER)
    assert found.state == "NotChecked"
    assert right in found.remedy


def test_a_cluster_without_groups_says_what_to_install() -> None:
    check = check_of(server=a_server(nodesPerReplica=2))
    missing = ApiAnswer(
        trouble="NotFound", words="could not find the requested resource"
    )
    answers = {
        query: missing if "leaderworkersets" in query.path else as_sent(query)
        for query in check.queries
    }
    found = of(read(check, answers), "object", "LeaderWorkerSet of server")
    assert found.state == "Problem"
    assert "lws.sigs.k8s.io" in found.remedy


def test_what_is_admitted_is_told_with_its_kinds() -> None:
    check = check_of()
    lines = read(check, {query: as_sent(query) for query in check.queries})
    assert {line.state for line in lines} == {"Ok"}
    assert "ConfigMap, NetworkPolicy, Job, Service, Deployment" in (
        of(lines, "object").sentence
    )
    assert [line.subject for line in lines if line.name == "pod"] == [
        "pod of client",
        SERVER,
    ]


def admitted(**changes: Any) -> ApiAnswer:
    """Return the server's pod as a cluster that changes it would admit it."""
    check = check_of()
    (query,) = [each for each in check.queries if is_pod_of(each, "server")]
    body = json.loads(query.body)
    main = body["spec"]["containers"][0]
    main["resources"]["limits"] |= changes.get("limits", {})
    body["spec"]["containers"] += changes.get("containers", [])
    return ApiAnswer(body)


def test_a_sidecar_that_the_cluster_adds_is_told() -> None:
    sidecar = {"name": "istio-proxy", "resources": {"limits": {"cpu": "2"}}}
    lines = tried(admitted(containers=[sidecar]))
    found = of(lines, "injected", SERVER)
    assert (found.state, "istio-proxy" in found.sentence) == ("Warning", True)
    assert [line.name for line in lines if line.name == "cpu-limit"] == []


def test_a_cpu_limit_that_the_cluster_gives_is_told() -> None:
    found = of(tried(admitted(limits={"cpu": "1"})), "cpu-limit", SERVER)
    assert found.state == "Warning"
    assert "spec.server.resources" in found.remedy


def test_in_the_users_name_objects_have_no_owner() -> None:
    for query in check_of().queries:
        assert query.account == ""
        assert "ownerReferences" not in json.loads(query.body)["metadata"]
        assert query.path.endswith("?dryRun=All")


def test_as_operator_everything_is_in_the_name_of_who_makes_it() -> None:
    accounts = {}
    for query in check_of(as_operator=True).queries:
        body = json.loads(query.body)
        role = body["metadata"]["labels"]["benchrun.dev/role"]
        accounts[body["kind"], role] = query.account
        assert ("ownerReferences" in body["metadata"]) == (body["kind"] != "Pod")
    assert accounts["Deployment", "server"] == OPERATOR.user
    assert accounts["Pod", "client"].endswith(":job-controller")
    assert accounts["Pod", "server"].endswith(":replicaset-controller")


@pytest.mark.parametrize(
    ("changes", "roles"),
    [
        ({"server": a_server(nodesPerReplica=2, replicas=3)}, {"server": 6}),
        ({"server": a_server(replicas=3)}, {"server": 3}),
    ],
)
def test_all_pods_are_counted(
    changes: dict[str, Any], roles: dict[str, int]
) -> None:
    counts: dict[str, int] = {}
    for pod in a_target(**changes).pods:
        counts[pod.role] = counts.get(pod.role, 0) + pod.count
    assert counts == {"client": 1, **roles}


def test_pods_are_tried_with_the_platforms_defaults() -> None:
    defaults = RunDefaults.model_validate(
        {
            "server": {"nodeSelector": {"pool": "gpu"}, "labels": {"cost": "1"}},
            "client": {"imagePullSecrets": ["mirror"]},
            "copyLabels": ["team"],
            "userFromNamespace": True,
        }
    )
    spec = BenchmarkRunSpec.model_validate(spec_body(server=a_server()))
    labels = (("team", "a"), ("other", "b"))
    operator = replace(OPERATOR, defaults=defaults)
    target = target_of("lab", "chat", spec, operator, labels=labels)
    client, server = target.pods
    assert server.spec["nodeSelector"] == {"pool": "gpu"}
    assert client.spec["imagePullSecrets"] == [{"name": "mirror"}]
    assert server.labels.items() >= {("cost", "1"), ("team", "a")}
    for pod in target.pods:
        assert "other" not in pod.labels
        assert "runAsUser" not in pod.spec["securityContext"]
    for made in target.objects:
        assert made["metadata"]["labels"]["team"] == "a"


@every("example", OF_RUNS, ids=lambda example: example.file)
def test_every_example_can_be_tried(example: Example) -> None:
    if example.kind == SWEEP:
        sweep = BenchmarkSweepSpec.model_validate(example.body["spec"])
        specs = [each.spec for each in planned_variants(sweep)]
    else:
        specs = [BenchmarkRunSpec.model_validate(example.body["spec"])]
    for spec in specs:
        target = target_of("lab", "chat", spec, OPERATOR)
        check = dry_run_check(target, OPERATOR, as_operator=True)
        lines = read(check, {query: as_sent(query) for query in check.queries})
        assert {line.state for line in lines} == {"Ok"}


def test_an_open_server_is_fenced_by_every_operator() -> None:
    operator = replace(OPERATOR, network_policies=False)
    reset = {"measurement": {"cachePolicy": "Reset"}}
    kinds = [
        [each["kind"] for each in a_target(operator, **changes).objects]
        for changes in ({}, reset)
    ]
    assert ["NetworkPolicy" in each for each in kinds] == [False, True]
