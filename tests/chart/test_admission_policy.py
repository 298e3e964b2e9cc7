"""The admission policies around the operator: whom they concern, what they look at, and when they
are there.

What their rules refuse is put to a real API server in tests/cluster/test_admission_policy.py.
"""

import pytest
from cel_expr_python import cel
from chart.rendering import MODES, NAMESPACE, Object, render
from chart.test_permissions import named

POLICY, BINDING = "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"
CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
CHILDREN = {
    "apps/deployments",
    "batch/jobs",
    "leaderworkerset.x-k8s.io/leaderworkersets",
    "/services",
    "/configmaps",
    "networking.k8s.io/networkpolicies",
}
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


def policies(values: Object, *arguments: str) -> dict[str, Object]:
    """By what they confine."""
    found = [entry for entry in render(values, *arguments) if entry["kind"] == POLICY]
    return {
        entry["metadata"]["name"].partition(".")[0].rpartition("-")[2]: entry["spec"]
        for entry in found
    }


def test_every_policy_looks_at_what_one_account_does_and_fails_shut() -> None:
    found = policies({})
    assert found.keys() == LOOKED_AT.keys()
    for name, spec in found.items():
        rules = spec["matchConstraints"]["resourceRules"]
        resources = {
            f"{group}/{each}"
            for rule in rules
            for group in rule["apiGroups"]
            for each in rule["resources"]
        }
        assert (resources, {each for rule in rules for each in rule["operations"]}) == LOOKED_AT[
            name
        ]
        assert spec["failurePolicy"] == "Fail"
        account = "bench-benchrun-release" if name == "release" else "bench-benchrun"
        (condition,) = spec["matchConditions"]
        who = f"system:serviceaccount:{NAMESPACE}:{account}"
        assert condition["expression"] == f"request.userInfo.username == '{who}'"


@pytest.mark.parametrize("mode", MODES)
def test_every_policy_is_bound_and_denies(mode: str) -> None:
    objects = render(MODES[mode])
    bound = [entry["spec"] for entry in objects if entry["kind"] == BINDING]
    assert {each["policyName"] for each in bound} == {
        entry["metadata"]["name"] for entry in objects if entry["kind"] == POLICY
    }
    assert [each["validationActions"] for each in bound] == [["Deny"]] * len(LOOKED_AT)


def test_policies_see_whatever_the_operator_may_create() -> None:
    (role,) = [named(render(), "ClusterRole", "bench-benchrun")]
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
    expressions = [each["expression"] for each in policies(values)["children"]["validations"]]
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
        pytest.param({"ownerReferences": [RUN]}, False, True, id="without its label"),
        pytest.param(
            {**OURS, "labels": {"benchrun.dev/run-uid": "other"}}, False, True, id="another label"
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
            {"labels": {"app": "x"}, "ownerReferences": []}, False, False, id="other labels"
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
    (rule,) = [each for each in policies({})[policy]["validations"] if "run-uid" in each["message"]]
    environment = cel.NewEnv(variables={"request": cel.Type.DYN, "variables": cel.Type.DYN})
    program = environment.compile(rule["expression"])
    for operation, holds in ((CREATE, created), (UPDATE, created), (DELETE, deleted)):
        given = {
            "request": {"operation": operation},
            "variables": {"subject": {"metadata": metadata}},
        }
        assert program.eval(data=given).value() is holds
