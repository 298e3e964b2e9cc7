"""Figures of GPUs: off unless asked for; then the operator is told where exporters are, and may see
just those pods."""

from benchrun.decide import Exporters
from benchrun.runtime.settings import OperatorSettings
from chart.rendering import (
    NAMESPACE,
    NAMESPACED,
    PROXY,
    Object,
    only,
    refusal,
    render,
)
from chart.test_permissions import OPERATOR, granted, named

ON: Object = {"gpuTelemetry": {"enabled": True}}
IN_NAMESPACES: Object = NAMESPACED | {
    "rbac": {"scope": "namespace", "aggregateRoles": False}
}
ROLE = "bench-benchrun-gpu-telemetry"


def settings(values: Object) -> OperatorSettings:
    """What the operator makes of its environment."""
    [container] = only(render(values), "Deployment")["spec"]["template"]["spec"][
        "containers"
    ]
    return OperatorSettings.from_environment(
        {
            each["name"]: each["value"]
            for each in container["env"]
            if "value" in each
        }
    )


def test_nothing_is_read_unless_asked_for() -> None:
    assert settings({}).exporters == {}
    assert not any(
        entry["metadata"]["name"] == ROLE for entry in render(IN_NAMESPACES)
    )


def test_the_gpu_operators_own_exporters_by_default() -> None:
    assert settings(ON).exporters == {
        "gpu": Exporters("gpu-operator", "app=nvidia-dcgm-exporter", 9400)
    }


def test_others_by_their_labels() -> None:
    labels = {"app": "dcgm", "app.kubernetes.io/part-of": "gpu"}
    values = {
        "gpuTelemetry": {
            "enabled": True,
            "namespace": "mon",
            "labels": {"app": "dcgm", **labels},
            "port": 9401,
        }
    }
    assert settings(values).exporters == {
        "gpu": Exporters("mon", "app=dcgm,app.kubernetes.io/part-of=gpu", 9401)
    }


def test_an_operator_of_some_namespaces_may_list_pods_in_one_more() -> None:
    objects = render(IN_NAMESPACES | ON)
    role = named(objects, "Role", ROLE)
    binding = named(objects, "RoleBinding", ROLE)
    assert granted(role["rules"]) == {"/pods": {"list"}}
    assert (
        role["metadata"]["namespace"]
        == binding["metadata"]["namespace"]
        == "gpu-operator"
    )
    assert binding["roleRef"] == {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "Role",
        "name": ROLE,
    }
    assert binding["subjects"] == [
        {"kind": "ServiceAccount", "name": "bench-benchrun", "namespace": NAMESPACE}
    ]


def test_through_the_api_server_it_may_read_their_pages_there() -> None:
    role = named(render(IN_NAMESPACES | ON | PROXY), "Role", ROLE)
    assert granted(role["rules"]) == {"/pods": {"list"}, "/pods/proxy": {"get"}}


def test_an_operator_of_the_whole_cluster_needs_no_further_right() -> None:
    objects = render(ON)
    assert not any(entry["metadata"]["name"] == ROLE for entry in objects)
    assert (
        OPERATOR.items()
        <= granted(named(objects, "ClusterRole", "bench-benchrun")["rules"]).items()
    )


def test_a_fenced_operator_reaches_the_exporters_and_no_other_pod_there() -> None:
    fence: Object = {"networkPolicies": {"egress": {"enabled": True}}}
    [rule] = [
        r
        for r in only(render(ON | fence), "NetworkPolicy")["spec"]["egress"]
        if {"port": 9400, "protocol": "TCP"} in r.get("ports", ())
    ]
    assert rule["to"] == [
        {
            "namespaceSelector": {
                "matchLabels": {"kubernetes.io/metadata.name": "gpu-operator"}
            },
            "podSelector": {"matchLabels": {"app": "nvidia-dcgm-exporter"}},
        }
    ]
    assert "9400" not in str(only(render(fence), "NetworkPolicy"))


CPU: Object = {"cpuTelemetry": {"enabled": True}}


def test_cadvisor_is_read_with_rights_of_its_own_namespace() -> None:
    assert settings(CPU).exporters == {
        "cpu": Exporters("cadvisor", "app=cadvisor", 8080)
    }
    assert set(settings(ON | CPU).exporters) == {"gpu", "cpu"}
    name = "bench-benchrun-cpu-telemetry"
    objects = render(IN_NAMESPACES | ON | CPU | PROXY)
    role = named(objects, "Role", name)
    binding = named(objects, "RoleBinding", name)
    assert granted(role["rules"]) == {"/pods": {"list"}, "/pods/proxy": {"get"}}
    assert (
        role["metadata"]["namespace"]
        == binding["metadata"]["namespace"]
        == "cadvisor"
    )
    assert named(objects, "Role", ROLE)["metadata"]["namespace"] == "gpu-operator"


def test_a_fenced_operator_reaches_cadvisor() -> None:
    [policy] = [
        o
        for o in render(CPU | {"networkPolicies": {"egress": {"enabled": True}}})
        if o["kind"] == "NetworkPolicy"
    ]
    [rule] = [
        r
        for r in policy["spec"]["egress"]
        if {"port": 8080, "protocol": "TCP"} in r.get("ports", ())
    ]
    assert rule["to"][0]["podSelector"] == {"matchLabels": {"app": "cadvisor"}}


def test_exporters_without_labels_would_be_every_pod() -> None:
    nothing = {"app": None}
    for each in ("gpuTelemetry", "cpuTelemetry"):
        assert "labels" in refusal({each: {"enabled": True, "labels": nothing}})
