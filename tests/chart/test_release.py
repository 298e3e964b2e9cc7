"""The second pair of hands: on by default, with no right that it does not need, and never taken for
the operator."""

from collections.abc import Mapping
from typing import Any

import kubernetes_validate
import pytest
from benchrun.plan import MAX_HOLD_SECONDS
from chart.rendering import (
    MODES,
    NAMESPACE,
    NAMESPACED,
    Object,
    only,
    refusal,
    render as rendered,
)
from chart.test_permissions import granted, named

NAME = "bench-benchrun-release"
SERVERS = {
    "apps/deployments": {"list", "delete"},
    "leaderworkerset.x-k8s.io/leaderworkersets": {"list", "delete"},
    "/pods": {"list"},
    "/events": {"create"},
}
"""Verbs by group and resource, where runs are."""
RESTRICTED: Object = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


def render(values: Mapping[str, Any] = MODES["default"]) -> list[Object]:
    """Every object of the release."""
    return rendered(values, component="release")


def pod(values: Mapping[str, Any] = MODES["default"]) -> Object:
    """The template of its pods."""
    found: Object = only(render(values), "CronJob")["spec"]["jobTemplate"]["spec"][
        "template"
    ]
    return found


def environment(values: Mapping[str, Any]) -> dict[str, str]:
    """What the process is told."""
    [container] = pod(values)["spec"]["containers"]
    assert container["args"] == ["release"]
    return {each["name"]: each["value"] for each in container["env"]}


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("mode", MODES)
def test_every_object_fits_the_schema_of_its_kind(mode: str, version: str) -> None:
    objects = render(MODES[mode])
    for each in objects:
        kubernetes_validate.validate(each, version, strict=True)
    assert {"CronJob", "ServiceAccount", "Role", "RoleBinding"} <= {
        each["kind"] for each in objects
    }


@pytest.mark.parametrize("mode", MODES)
def test_no_object_has_the_identity_of_another(mode: str) -> None:
    found = [*rendered(MODES[mode]), *render(MODES[mode])]
    identities = [
        (each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"])
        for each in found
    ]
    assert len(identities) == len(set(identities))


def test_it_looks_every_minute_and_never_twice_at_a_time() -> None:
    spec = only(render(), "CronJob")["spec"]
    assert (spec["schedule"], spec["concurrencyPolicy"]) == (
        "*/2 * * * *",
        "Forbid",
    )
    assert spec["jobTemplate"]["spec"]["activeDeadlineSeconds"] <= 120
    assert spec["jobTemplate"]["spec"]["backoffLimit"] == 0
    assert spec["successfulJobsHistoryLimit"] + spec["failedJobsHistoryLimit"] <= 3


def test_it_looks_at_least_every_two_minutes() -> None:
    assert (
        only(render({"release": {"schedule": "* * * * *"}}), "CronJob")["spec"][
            "schedule"
        ]
        == "* * * * *"
    )
    assert "schedule" in refusal({"release": {"schedule": "0 * * * *"}})


@pytest.mark.parametrize("seconds", [0, 599, 31_536_001, "a day"])
def test_a_bound_that_would_release_everything_is_refused(seconds: object) -> None:
    assert "maxHoldSeconds" in refusal({"release": {"maxHoldSeconds": seconds}})


def test_it_can_be_left_out() -> None:
    assert render({"release": {"enabled": False}}) == []


def test_it_is_told_the_bound_and_where_its_clocks_are() -> None:
    assert environment({"release": {"maxHoldSeconds": 7200}}) == {
        "BENCHRUN_NAMESPACES": "",
        "BENCHRUN_MAX_HOLD_SECONDS": "7200",
        "BENCHRUN_RELEASE_STATE": f"{NAMESPACE}/{NAME}",
    }


def test_a_day_is_the_bound_of_all() -> None:
    assert environment({})["BENCHRUN_MAX_HOLD_SECONDS"] == str(MAX_HOLD_SECONDS)


def test_in_cluster_scope_it_may_list_and_delete_servers_everywhere() -> None:
    objects = render()
    assert granted(only(objects, "ClusterRole")["rules"]) == SERVERS
    binding = only(objects, "ClusterRoleBinding")
    assert (
        binding["roleRef"]["name"]
        == only(objects, "ClusterRole")["metadata"]["name"]
        == NAME
    )
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    ]


def test_in_namespace_scope_it_sees_those_namespaces_only() -> None:
    objects = render(NAMESPACED)
    assert not {"ClusterRole", "ClusterRoleBinding"} & {
        entry["kind"] for entry in objects
    }
    roles = {
        entry["metadata"]["namespace"]: entry
        for entry in objects
        if entry["kind"] == "Role"
    }
    bindings = {
        entry["metadata"]["namespace"]: entry
        for entry in objects
        if entry["kind"] == "RoleBinding"
    }
    assert roles.keys() == bindings.keys() == {"team-a", "team-b", NAMESPACE}
    assert [granted(roles[each]["rules"]) for each in ("team-a", "team-b")] == [
        SERVERS
    ] * 2
    assert all(each["subjects"][0]["name"] == NAME for each in bindings.values())
    assert environment(NAMESPACED)["BENCHRUN_NAMESPACES"] == "team-a,team-b"


@pytest.mark.parametrize("mode", MODES)
def test_at_home_it_may_keep_one_config_map(mode: str) -> None:
    objects = render(MODES[mode])
    own = environment(MODES[mode])["BENCHRUN_RELEASE_STATE"].partition("/")[2]
    role = named(objects, "Role", f"{own}-state")
    assert role["metadata"]["namespace"] == NAMESPACE
    assert role["rules"] == [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": [own],
            "verbs": ["get", "update"],
        },
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
    ]
    assert (
        named(objects, "RoleBinding", f"{own}-state")["roleRef"]["name"]
        == f"{own}-state"
    )


def test_its_account_can_come_from_elsewhere() -> None:
    account = {"create": False, "name": "theirs"}
    values: Object = {
        "release": {"serviceAccount": account},
        "rbac": {"scope": "namespace"},
    }
    for changes in ({}, {"rbac": {"scope": "cluster"}}):
        objects = render(values | changes)
        assert "ServiceAccount" not in {each["kind"] for each in objects}
        bound = [each for each in objects if each["kind"].endswith("RoleBinding")]
        assert {each["subjects"][0]["name"] for each in bound} == {"theirs"}
        assert pod(values | changes)["spec"]["serviceAccountName"] == "theirs"
    policy = named(
        rendered(values), "ValidatingAdmissionPolicy", f"{NAME}.{NAMESPACE}"
    )
    (condition,) = policy["spec"]["matchConditions"]
    assert condition["expression"].endswith(f":{NAMESPACE}:theirs'")


def test_its_account_takes_a_name_and_annotations() -> None:
    account = {"name": "mine", "annotations": {"a": "b"}}
    values: Object = {"release": {"serviceAccount": account}}
    metadata = only(render(values), "ServiceAccount")["metadata"]
    assert (metadata["name"], metadata["annotations"]) == ("mine", {"a": "b"})
    assert pod(values)["spec"]["serviceAccountName"] == "mine"


def test_rights_can_be_left_to_the_cluster_administrator() -> None:
    values = {"rbac": {"create": False}}
    assert {entry["kind"] for entry in render(values)} == {
        "CronJob",
        "ServiceAccount",
    }


def test_without_the_right_to_groups_of_pods_it_has_none_either() -> None:
    rules = only(render({"rbac": {"leaderWorkerSets": False}}), "ClusterRole")[
        "rules"
    ]
    assert SERVERS.keys() - granted(rules).keys() == {
        "leaderworkerset.x-k8s.io/leaderworkersets"
    }


@pytest.mark.parametrize("mode", MODES)
def test_its_pod_is_restricted(mode: str) -> None:
    spec = pod(MODES[mode])["spec"]
    assert spec["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    [container] = spec["containers"]
    assert container["securityContext"] == RESTRICTED
    assert spec.keys().isdisjoint(
        {"volumes", "initContainers", "hostNetwork", "hostPID", "hostIPC"}
    )
    assert (
        only(render(MODES[mode]), "ServiceAccount")["automountServiceAccountToken"]
        is False
    )


def test_it_runs_the_operators_image_where_the_operator_runs() -> None:
    operator = only(rendered(MODES["everything"]), "Deployment")["spec"][
        "template"
    ]["spec"]
    spec = pod(MODES["everything"])["spec"]
    for field in ("image", "imagePullPolicy"):
        assert spec["containers"][0][field] == operator["containers"][0][field]
    for field in (
        "imagePullSecrets",
        "priorityClassName",
        "nodeSelector",
        "tolerations",
        "affinity",
    ):
        assert spec[field] == operator[field]
    assert spec["serviceAccountName"] != operator["serviceAccountName"]


def test_its_pods_take_labels_and_annotations_that_keep_sidecars_out() -> None:
    metadata = pod(MODES["everything"])["metadata"]
    assert metadata["annotations"] == {"linkerd.io/inject": "disabled"}
    assert metadata["labels"]["sidecar.istio.io/inject"] == "false"
    assert metadata["labels"]["app.kubernetes.io/name"] == "bench-release"
    assert "annotations" not in pod()["metadata"]


@pytest.mark.parametrize("mode", MODES)
def test_nobody_takes_its_pods_for_the_operators(mode: str) -> None:
    operator = only(rendered(MODES[mode]), "Deployment")["spec"]["selector"][
        "matchLabels"
    ]
    labels = pod(MODES[mode])["metadata"]["labels"]
    assert not operator.items() <= labels.items()
    assert labels["app.kubernetes.io/component"] == "release"


def test_a_fenced_one_reaches_the_api_server_and_nothing_else() -> None:
    policy = only(render(MODES["everything"]), "NetworkPolicy")["spec"]
    assert (
        policy["podSelector"]["matchLabels"].items()
        <= pod(MODES["everything"])["metadata"]["labels"].items()
    )
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert "ingress" not in policy
    dns, api_server = policy["egress"]
    assert {port["port"] for port in dns["ports"]} == {53}
    assert api_server["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]


def test_a_long_name_still_fits() -> None:
    objects = render({"fullnameOverride": "x" * 63})
    assert len(only(objects, "CronJob")["metadata"]["name"]) <= 52
