"""`helm uninstall` is refused while servers are there, by a Job that may do nothing but list them."""

from collections.abc import Mapping
from typing import Any

import kubernetes_validate
import pytest
from chart.rendering import (
    MODES,
    NAMESPACE,
    NAMESPACED,
    Object,
    notes,
    only,
    render as rendered,
)
from chart.test_permissions import granted
from chart.test_release import RESTRICTED

NAME = "bench-benchrun-uninstall"
LISTS = {
    "apps/deployments": {"list"},
    "leaderworkerset.x-k8s.io/leaderworkersets": {"list"},
}
OFF: Object = {"uninstall": {"refuseWhileServersRun": False}}


def render(values: Mapping[str, Any]) -> list[Object]:
    """Every object of the hook."""
    return rendered(values, component="uninstall")


@pytest.mark.parametrize("version", ["1.29", "1.37"])
@pytest.mark.parametrize("mode", MODES)
def test_every_object_fits_the_schema_of_its_kind(mode: str, version: str) -> None:
    for each in render(MODES[mode]):
        kubernetes_validate.validate(each, version, strict=True)


@pytest.mark.parametrize("mode", MODES)
def test_all_of_it_is_there_only_while_helm_uninstalls(mode: str) -> None:
    for each in render(MODES[mode]):
        annotations = each["metadata"]["annotations"]
        assert annotations["helm.sh/hook"] == "pre-delete"
        assert (
            annotations["helm.sh/hook-delete-policy"]
            == "before-hook-creation,hook-succeeded"
        )
        is_first = int(annotations.get("helm.sh/hook-weight", "0")) < 0
        assert is_first is (each["kind"] != "Job")


def test_in_cluster_scope_it_lists_servers_everywhere() -> None:
    objects = render({})
    assert granted(only(objects, "ClusterRole")["rules"]) == LISTS
    binding = only(objects, "ClusterRoleBinding")
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}
    ]
    assert (
        binding["roleRef"]["name"]
        == only(objects, "ServiceAccount")["metadata"]["name"]
        == NAME
    )
    assert "Role" not in {each["kind"] for each in objects}


def test_in_namespace_scope_it_lists_those_of_these_namespaces() -> None:
    objects = render(NAMESPACED)
    assert {each["kind"] for each in objects} == {
        "ServiceAccount",
        "Role",
        "RoleBinding",
        "Job",
    }
    roles = {
        each["metadata"]["namespace"]: each
        for each in objects
        if each["kind"] == "Role"
    }
    assert [granted(roles[name]["rules"]) for name in ("team-a", "team-b")] == [
        LISTS
    ] * 2
    [container] = only(objects, "Job")["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [
        {"name": "BENCHRUN_NAMESPACES", "value": "team-a,team-b"}
    ]


@pytest.mark.parametrize("mode", MODES)
def test_it_asks_once_with_the_operators_image_and_is_restricted(mode: str) -> None:
    spec = only(render(MODES[mode]), "Job")["spec"]
    assert (spec["backoffLimit"], spec["activeDeadlineSeconds"]) == (0, 100)
    pod = spec["template"]["spec"]
    [container] = pod["containers"]
    operator = only(rendered(MODES[mode]), "Deployment")["spec"]["template"]["spec"]
    assert container["image"] == operator["containers"][0]["image"]
    assert container["args"] == ["release", "--expect-none=30"]
    assert container["securityContext"] == RESTRICTED
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert (
        pod["serviceAccountName"]
        == only(render(MODES[mode]), "ServiceAccount")["metadata"]["name"]
    )


@pytest.mark.parametrize(
    "values", [OFF, {"rbac": {"create": False}}], ids=["off", "no rights"]
)
def test_it_can_be_left_out(values: Object) -> None:
    assert render(values) == []


def test_the_notes_say_what_an_uninstallation_leaves_behind() -> None:
    assert "--no-hooks" in notes({})
    assert "--no-hooks" not in notes(OFF)
    assert all(
        "kubectl delete bms,bmr --all -A" in notes(values) for values in ({}, OFF)
    )
