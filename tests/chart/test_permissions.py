"""What the chart grants, to the operator and to users: exactly this and nothing more."""

from collections.abc import Iterable

import pytest
from chart.rendering import (
    MODES,
    NAMESPACE,
    NAMESPACED,
    PROXY,
    Object,
    only,
    render,
)

READ = {"get", "list", "watch"}
CHILD = READ | {"create", "delete"}

OPERATOR = {
    "benchrun.dev/benchmarkruns": READ | {"create", "patch", "delete"},
    "benchrun.dev/benchmarkruns/status": {"patch"},
    "benchrun.dev/benchmarksweeps": READ,
    "benchrun.dev/benchmarksweeps/status": {"patch"},
    "apps/deployments": CHILD,
    "leaderworkerset.x-k8s.io/leaderworkersets": CHILD - {"watch"},
    "batch/jobs": CHILD,
    "/services": CHILD,
    "/configmaps": CHILD,
    "networking.k8s.io/networkpolicies": CHILD - {"delete"},
    "/pods": {"list", "watch"},
    "/pods/log": {"get"},
    "discovery.k8s.io/endpointslices": {"list"},
    "/events": {"list", "create"},
}
"""Verbs by group and resource."""
OWN_ROLE = "bench-benchrun-own"


def granted(rules: Iterable[Object]) -> dict[str, set[str]]:
    """Verbs by group and resource, from rules that say nothing else."""
    verbs: dict[str, set[str]] = {}
    for rule in rules:
        assert rule.keys() == {"apiGroups", "resources", "verbs"}
        for resource in (
            f"{group}/{name}"
            for group in rule["apiGroups"]
            for name in rule["resources"]
        ):
            verbs.setdefault(resource, set()).update(rule["verbs"])
    return verbs


def named(objects: list[Object], kind: str, name: str) -> Object:
    """The object of this kind and name."""
    (found,) = (
        entry
        for entry in objects
        if entry["kind"] == kind and entry["metadata"]["name"] == name
    )
    return found


def test_in_cluster_scope_one_cluster_role_says_what_the_operator_may_do() -> None:
    objects = render()
    assert (
        granted(named(objects, "ClusterRole", "bench-benchrun")["rules"])
        == OPERATOR
    )
    binding = only(objects, "ClusterRoleBinding")
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": "bench-benchrun",
    }
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "bench-benchrun", "namespace": NAMESPACE}
    ]
    assert only(objects, "Role")["metadata"]["name"] == OWN_ROLE


def test_in_its_own_namespace_it_keeps_one_secret_and_one_lease() -> None:
    objects = render()
    role = named(objects, "Role", OWN_ROLE)
    binding = named(objects, "RoleBinding", OWN_ROLE)
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
        {
            "apiGroups": [""],
            "resources": ["secrets"],
            "resourceNames": ["benchrun-channel-key"],
            "verbs": ["get"],
        },
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "verbs": ["create"],
        },
        {
            "apiGroups": ["coordination.k8s.io"],
            "resources": ["leases"],
            "resourceNames": ["benchrun-operator"],
            "verbs": ["get", "update"],
        },
    ]
    assert (
        role["metadata"]["namespace"]
        == binding["metadata"]["namespace"]
        == NAMESPACE
    )
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "bench-benchrun", "namespace": NAMESPACE}
    ]


OPENSHIFT = "--api-versions=config.openshift.io/v1"


@pytest.mark.parametrize(
    ("values", "arguments"),
    [({"rbac": {"finalizers": True}}, ()), ({}, (OPENSHIFT,))],
    ids=["asked-for", "openshift"],
)
def test_finalizers_only_where_the_cluster_asks_for_that_right(
    values: Object, arguments: tuple[str, ...]
) -> None:
    rules = named(render(values, *arguments), "ClusterRole", "bench-benchrun")[
        "rules"
    ]
    kinds = ("benchmarkruns", "benchmarksweeps")
    assert granted(rules) == OPERATOR | {
        f"benchrun.dev/{kind}/finalizers": {"update"} for kind in kinds
    }


def test_no_child_is_patched_or_updated_and_no_pod_is_written() -> None:
    changing = {
        name: verbs & {"patch", "update"} for name, verbs in OPERATOR.items()
    }
    assert {name for name, verbs in changing.items() if verbs} == {
        "benchrun.dev/benchmarkruns",
        "benchrun.dev/benchmarkruns/status",
        "benchrun.dev/benchmarksweeps/status",
    }


def test_the_road_through_the_api_server_takes_one_more_right() -> None:
    rules = named(render(PROXY), "ClusterRole", "bench-benchrun")["rules"]
    assert granted(rules) == OPERATOR | {"/pods/proxy": {"get", "create"}}


def test_the_right_to_servers_over_several_nodes_can_be_left_out() -> None:
    rules = named(
        render({"rbac": {"leaderWorkerSets": False}}),
        "ClusterRole",
        "bench-benchrun",
    )["rules"]
    assert OPERATOR.keys() - granted(rules).keys() == {
        "leaderworkerset.x-k8s.io/leaderworkersets"
    }


def test_queues_take_rights_over_workloads_and_nothing_in_the_queues_themselves() -> (
    None
):
    rules = named(
        render({"kueue": {"enabled": True}}), "ClusterRole", "bench-benchrun"
    )["rules"]
    assert granted(rules) == OPERATOR | {
        "kueue.x-k8s.io/workloads": CHILD,
        "kueue.x-k8s.io/resourceflavors": {"get"},
        "visibility.kueue.x-k8s.io/localqueues/pendingworkloads": {"get"},
    }


def test_in_namespace_scope_there_is_one_role_in_each_watched_namespace_and_none_for_the_cluster() -> (
    None
):
    objects = render(
        NAMESPACED | {"rbac": {"scope": "namespace", "aggregateRoles": False}}
    )
    assert not {"ClusterRole", "ClusterRoleBinding"} & {
        entry["kind"] for entry in objects
    }
    of_runs = [
        entry for entry in objects if entry["metadata"]["name"] == "bench-benchrun"
    ]
    roles = {
        entry["metadata"]["namespace"]: entry
        for entry in of_runs
        if entry["kind"] == "Role"
    }
    bindings = {
        entry["metadata"]["namespace"]: entry
        for entry in of_runs
        if entry["kind"] == "RoleBinding"
    }
    assert roles.keys() == bindings.keys() == {"team-a", "team-b"}
    for role in roles.values():
        assert granted(role["rules"]) == OPERATOR
    for binding in bindings.values():
        assert binding["roleRef"] == {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "bench-benchrun",
        }
        assert binding["subjects"] == [
            {
                "kind": "ServiceAccount",
                "name": "bench-benchrun",
                "namespace": NAMESPACE,
            }
        ]


def test_namespace_scope_without_namespaces_means_the_releases_own() -> None:
    role = named(render({"rbac": {"scope": "namespace"}}), "Role", "bench-benchrun")
    assert role["metadata"]["namespace"] == NAMESPACE


def test_users_get_runs_and_sweeps_with_the_roles_they_have() -> None:
    objects = render()
    view = named(objects, "ClusterRole", "bench-benchrun-view")
    edit = named(objects, "ClusterRole", "bench-benchrun-edit")
    kinds = ("benchrun.dev/benchmarkruns", "benchrun.dev/benchmarksweeps")
    write = {"create", "update", "patch", "delete", "deletecollection"}
    assert granted(view["rules"]) == dict.fromkeys(kinds, READ)
    assert granted(edit["rules"]) == dict.fromkeys(kinds, write)
    assert (
        view["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"]
        == "true"
    )
    assert (
        edit["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"]
        == "true"
    )


@pytest.mark.parametrize("mode", MODES)
def test_nobody_gets_secrets_wildcards_or_a_way_to_more_rights(mode: str) -> None:
    roles = [
        entry
        for entry in render(MODES[mode])
        if entry["kind"] in {"Role", "ClusterRole"}
    ]
    rules = [
        rule
        for entry in roles
        if not entry["metadata"]["name"].endswith("-own")
        for rule in entry["rules"]
    ]
    resources = {resource.partition("/")[2] for resource in granted(rules)}
    assert (
        not {
            "secrets",
            "pods/exec",
            "serviceaccounts",
            "serviceaccounts/token",
            "nodes",
        }
        & resources
    )
    assert not any(
        "*" in value
        for rule in rules
        for values in rule.values()
        for value in values
    )
    assert "rbac.authorization.k8s.io" not in {
        group for rule in rules for group in rule["apiGroups"]
    }
    assert not {"escalate", "bind", "impersonate"} & {
        verb for rule in rules for verb in rule["verbs"]
    }


def test_roles_and_account_can_be_left_to_the_cluster_administrator() -> None:
    values = {
        "rbac": {"create": False},
        "serviceAccount": {"create": False, "name": "theirs"},
    }
    objects = render(values)
    assert not {
        "ClusterRole",
        "ClusterRoleBinding",
        "Role",
        "RoleBinding",
        "ServiceAccount",
    } & {entry["kind"] for entry in objects}
    assert (
        only(objects, "Deployment")["spec"]["template"]["spec"][
            "serviceAccountName"
        ]
        == "theirs"
    )
