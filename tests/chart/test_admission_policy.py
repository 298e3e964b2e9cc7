"""The admission policies around the operator: whom they concern, what they look at, and when they
are there.

What their rules refuse is put to a real API server in tests/cluster/test_admission_policy.py.
"""

import re

import pytest
from benchrun.child_kinds import KINDS
from benchrun.plan import Owner
from cel_expr_python import cel
from chart.rendering import MODES, NAMESPACE, Object, refusal, render
from chart.test_permissions import named
from unit.plan.objects import objects
from unit.plan.specs import spec

POLICY = "ValidatingAdmissionPolicy"
BINDING = "ValidatingAdmissionPolicyBinding"
CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"
CHILDREN = {f"{kind.group}/{kind.plural}" for kind in KINDS.values()}
POD_MAKERS = {"apps/deployments", "batch/jobs"}
GROUPS = {"leaderworkerset.x-k8s.io/leaderworkersets"}
LOOKED_AT = {
    "children": (CHILDREN, {CREATE, UPDATE, DELETE}),
    "pods": (POD_MAKERS, {CREATE}),
    "groups": (GROUPS, {CREATE}),
    "runs": ({"benchrun.dev/benchmarkruns"}, {CREATE, UPDATE}),
    "key": ({"/secrets"}, {CREATE}),
    "release": (POD_MAKERS | GROUPS, {CREATE, UPDATE, DELETE}),
}


def test_the_policies_about_pods_look_at_every_kind_that_makes_them() -> None:
    assert {
        f"{kind.group}/{kind.plural}" for kind in KINDS.values() if kind.has_pods
    } == POD_MAKERS | GROUPS


def policies(values: Object, *arguments: str) -> dict[str, Object]:
    """By what they confine."""
    found = [
        entry for entry in render(values, *arguments) if entry["kind"] == POLICY
    ]
    return {
        entry["metadata"]["name"].partition(".")[0].rpartition("-")[2]: entry[
            "spec"
        ]
        for entry in found
    }


def test_every_policy_looks_at_what_one_account_does_and_fails_shut() -> None:
    found = policies({})
    assert found.keys() == LOOKED_AT.keys()
    for name, policy in found.items():
        rules = policy["matchConstraints"]["resourceRules"]
        resources = {
            f"{group}/{each}"
            for rule in rules
            for group in rule["apiGroups"]
            for each in rule["resources"]
        }
        assert (
            resources,
            {each for rule in rules for each in rule["operations"]},
        ) == LOOKED_AT[name]
        assert policy["failurePolicy"] == "Fail"
        account = (
            "bench-benchrun-release" if name == "release" else "bench-benchrun"
        )
        (condition,) = policy["matchConditions"]
        who = f"system:serviceaccount:{NAMESPACE}:{account}"
        assert condition["expression"] == f"request.userInfo.username == '{who}'"


@pytest.mark.parametrize("mode", MODES)
def test_every_policy_is_bound_and_denies(mode: str) -> None:
    objects = render(MODES[mode])
    bound = [entry["spec"] for entry in objects if entry["kind"] == BINDING]
    assert {each["policyName"] for each in bound} == {
        entry["metadata"]["name"] for entry in objects if entry["kind"] == POLICY
    }
    assert [each["validationActions"] for each in bound] == [["Deny"]] * len(
        LOOKED_AT
    )


def test_policies_see_whatever_the_operator_may_create() -> None:
    every_kind = render({"kueue": {"enabled": True}})
    (role,) = [named(every_kind, "ClusterRole", "bench-benchrun")]
    created = {
        f"{group}/{resource}"
        for rule in role["rules"]
        if "create" in rule["verbs"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    assert created - {"/events"} == CHILDREN | {"benchrun.dev/benchmarkruns"}


def test_the_account_is_the_one_that_is_used() -> None:
    theirs = {"serviceAccount": {"create": False, "name": "theirs"}}
    (condition,) = policies(theirs)["children"]["matchConditions"]
    assert condition["expression"].endswith(f":{NAMESPACE}:theirs'")


def test_two_releases_of_one_name_do_not_share_a_policy() -> None:
    names = [
        {
            entry["metadata"]["name"]
            for entry in render(namespace=namespace)
            if entry["kind"] == POLICY
        }
        for namespace in ("team-a", "team-b")
    ]
    assert not names[0] & names[1]


def test_forbidden_namespaces_can_be_more() -> None:
    values = {"admissionPolicy": {"forbiddenNamespaces": ["kube-system", "vault"]}}
    expressions = [
        each["expression"] for each in policies(values)["children"]["validations"]
    ]
    assert "!(request.namespace in ['kube-system', 'vault'])" in expressions


def test_they_are_there_where_the_api_is() -> None:
    api = f"--api-versions=admissionregistration.k8s.io/v1/{POLICY}"
    assert policies({}, "--kube-version=1.29.0") == {}
    assert policies({}, "--kube-version=1.29.0", api).keys() == LOOKED_AT.keys()
    assert policies({}, "--kube-version=1.30.0-gke.1").keys() == LOOKED_AT.keys()
    assert policies({"admissionPolicy": {"enabled": False}}) == {}


RUN = {
    "apiVersion": "benchrun.dev/v1alpha1",
    "kind": "BenchmarkRun",
    "uid": "u",
    "controller": True,
}
LABELS = {"labels": {"benchrun.dev/run-uid": "u"}}
OURS = {**LABELS, "ownerReferences": [RUN]}


@pytest.mark.parametrize(
    ("metadata", "created", "deleted"),
    [
        pytest.param(OURS, True, True, id="as it was made"),
        pytest.param(
            {"ownerReferences": [RUN]}, False, True, id="without its label"
        ),
        pytest.param(
            {**OURS, "labels": {"benchrun.dev/run-uid": "other"}},
            False,
            True,
            id="another label",
        ),
        pytest.param(LABELS, False, True, id="orphaned"),
        pytest.param(
            {**LABELS, "ownerReferences": [{**RUN, "controller": False}]},
            False,
            True,
            id="no controller",
        ),
        pytest.param({}, False, False, id="nobody's"),
        pytest.param(
            {"labels": {"app": "x"}, "ownerReferences": []},
            False,
            False,
            id="other labels",
        ),
        pytest.param(
            {"ownerReferences": [{**RUN, "controller": False}]},
            False,
            False,
            id="owned, not controlled",
        ),
        pytest.param(
            {**LABELS, "ownerReferences": [{**RUN, "kind": "Rollout"}]},
            False,
            False,
            id="another kind's",
        ),
        pytest.param(
            {**LABELS, "ownerReferences": [{**RUN, "apiVersion": "apps/v1"}]},
            False,
            False,
            id="group",
        ),
    ],
)
@pytest.mark.parametrize("policy", ["children", "release"])
def test_either_the_label_or_the_run_that_controls_it_is_enough_to_delete_it(
    policy: str, metadata: Object, created: bool, deleted: bool
) -> None:
    (rule,) = [
        each
        for each in policies({})[policy]["validations"]
        if "run-uid" in each["message"]
    ]
    environment = cel.NewEnv(
        variables={"request": cel.Type.DYN, "variables": cel.Type.DYN}
    )
    program = environment.compile(rule["expression"])
    for operation, holds in (
        (CREATE, created),
        (UPDATE, created),
        (DELETE, deleted),
    ):
        given = {
            "request": {"operation": operation},
            "variables": {"subject": {"metadata": metadata}},
        }
        assert program.eval(data=given).value() is holds


def refused(
    pod: Object, values: Object | None = None, policy: str = "pods"
) -> list[str]:
    """Names of the values that the refusals of this pod mention; an empty name where none does."""
    environment = cel.NewEnv(
        variables={"request": cel.Type.DYN, "variables": cel.Type.DYN}
    )
    rules = policies({"admissionPolicy": values or {}})[policy]["validations"]
    failed = [
        rule["message"]
        for rule in rules
        if environment.compile(rule["expression"])
        .eval(data={"request": {"operation": CREATE}, "variables": {"pods": [pod]}})
        .value()
        is not True
    ]
    found = [re.search(r"admissionPolicy\.(\w+)", message) for message in failed]
    return sorted({each[1] if each else "" for each in found})


def pod_of(given: Object, part: str = "server") -> Object:
    """The pod of that part of a run with these overrides, as the operator makes it."""
    server = (
        {"image": "v", "nodesPerReplica": 2} if part == "group" else {"image": "v"}
    )
    whose = "server" if part == "group" else part
    changes: Object = {
        "server": server,
        whose: {**(server if whose == "server" else {}), "pod": given},
    }
    made = objects(Owner("team-a", "chat", "u"), spec(**changes))
    kind = {"server": "Deployment", "client": "Job", "group": "LeaderWorkerSet"}[
        part
    ]
    (found,) = (each["spec"] for each in made if each["kind"] == kind)
    groups = found.get("leaderWorkerTemplate")
    pod: Object = (groups["workerTemplate"] if groups else found["template"])[
        "spec"
    ]
    return pod


PARTS = {"server": "pods", "client": "pods", "group": "groups"}
"""Which policy looks at a part's pods."""


@pytest.mark.parametrize(
    ("given", "value", "allowing"),
    [
        pytest.param({}, None, {}, id="as the operator makes it"),
        pytest.param(
            {"volumes": [{"name": "x", "hostPath": {"path": "/"}}]},
            "allowHostPath",
            {"allowHostPath": True},
            id="hostPath",
        ),
        pytest.param(
            {"securityContext": {"runAsUser": 0}},
            "allowRoot",
            {"allowRoot": True},
            id="root",
        ),
        pytest.param(
            {"securityContext": {"runAsUser": 0, "runAsNonRoot": True}},
            "allowRoot",
            {"allowRoot": True},
            id="root, said not to be",
        ),
        pytest.param(
            {"securityContext": {}},
            "allowRoot",
            {"allowRoot": True},
            id="as its image says",
        ),
        pytest.param(
            {"securityContext": {"runAsNonRoot": True}}, None, {}, id="any but root"
        ),
        pytest.param(
            {"securityContext": {"runAsUser": 7}}, None, {}, id="another user"
        ),
        pytest.param(
            {"serviceAccountName": "default"},
            None,
            {},
            id="the account of everybody",
        ),
        pytest.param(
            {"serviceAccountName": "s3"},
            "serviceAccounts",
            {"serviceAccounts": ["s3"]},
            id="an account",
        ),
        pytest.param(
            {"serviceAccountName": "s3"},
            "serviceAccounts",
            {"serviceAccounts": ["*"]},
            id="any",
        ),
        pytest.param(
            {"priorityClassName": "system-node-critical"},
            "priorityClasses",
            {"priorityClasses": ["system-node-critical"]},
            id="a priority",
        ),
        pytest.param(
            {"priorityClassName": "high"},
            "priorityClasses",
            {"priorityClasses": ["*"]},
            id="any of them",
        ),
    ],
)
@pytest.mark.parametrize("part", PARTS)
def test_what_pods_of_runs_may_be_is_said_by_a_value(
    part: str, given: Object, value: str | None, allowing: Object
) -> None:
    pod = pod_of(given, part)
    policy = PARTS[part]
    assert refused(pod, None, policy) == ([] if value is None else [value])
    assert refused(pod, allowing, policy) == []


def test_one_value_allows_nothing_else() -> None:
    pod = pod_of(
        {
            "volumes": [{"name": "x", "hostPath": {"path": "/"}}],
            "securityContext": {"runAsUser": 0},
            "serviceAccountName": "s3",
            "priorityClassName": "high",
        }
    )
    values: Object = {
        "allowHostPath": True,
        "allowRoot": True,
        "serviceAccounts": ["s3"],
        "priorityClasses": ["high"],
    }
    assert refused(pod) == sorted(values)
    for value in values:
        assert refused(pod, {value: values[value]}) == sorted(
            values.keys() - {value}
        )
    assert refused(pod, {"serviceAccounts": ["other"]}) == sorted(values)


@pytest.mark.parametrize("place", ["containers", "initContainers"])
@pytest.mark.parametrize("security", [{"runAsUser": 0}, {"runAsNonRoot": False}])
def test_no_container_of_a_pod_is_root_either(place: str, security: Object) -> None:
    pod = pod_of({})
    assert refused(
        {**pod, place: [{"name": "c", "securityContext": security}]}
    ) == ["allowRoot"]


def test_the_older_name_of_an_account_is_one_too() -> None:
    assert refused({**pod_of({}), "serviceAccount": "s3"}) == ["serviceAccounts"]


@pytest.mark.parametrize("value", ["serviceAccounts", "priorityClasses"])
def test_names_that_would_be_more_than_names_in_a_rule_are_refused(
    value: str,
) -> None:
    assert value in refusal(
        {"admissionPolicy": {value: ["x'] || true || '' in ['"]}}
    )
