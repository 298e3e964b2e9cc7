"""What the chart renders is what Kubernetes accepts, with every combination of options people
use."""

import shutil
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from benchrun.plan import OPERATOR_LABELS
from chart.rendering import (
    CHART,
    EVERYTHING,
    MODES,
    NAMESPACE,
    PROMETHEUS,
    RELEASE,
    Object,
    helm,
    notes,
    only,
    render,
)

KUBERNETES_VERSIONS = ("1.29", kubernetes_validate.latest_version())
"""The oldest that Chart.yaml allows and the newest that is known."""

SELECTOR = {
    "app.kubernetes.io/name": "benchrun",
    "app.kubernetes.io/instance": "bench",
}
NOT_BUILT_IN = {"PrometheusRule", "ServiceMonitor"}
CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


@pytest.mark.parametrize("mode", MODES)
def test_helm_lint_has_nothing_to_say(mode: str) -> None:
    result = helm("lint", "--strict", str(CHART), values=MODES[mode])
    assert result.returncode == 0, result.stdout + result.stderr
    assert "[WARNING]" not in result.stdout


@pytest.mark.parametrize("version", KUBERNETES_VERSIONS)
@pytest.mark.parametrize("mode", MODES)
def test_every_object_fits_the_schema_of_its_kind(mode: str, version: str) -> None:
    objects = render(MODES[mode], f"--kube-version={version}")
    checked = [
        kubernetes_validate.validate(entry, version, strict=True)
        for entry in objects
        if _built_in(entry)
    ]
    assert len(checked) >= 8


@pytest.mark.parametrize("mode", MODES)
def test_no_two_objects_have_the_same_identity(mode: str) -> None:
    identities = [
        (
            entry["kind"],
            entry["metadata"].get("namespace"),
            entry["metadata"]["name"],
        )
        for entry in render(MODES[mode])
    ]
    assert len(identities) == len(set(identities))


@pytest.mark.parametrize("mode", MODES)
def test_every_namespaced_object_names_its_namespace(mode: str) -> None:
    for entry in render(MODES[mode]):
        assert ("namespace" in entry["metadata"]) == (
            entry["kind"] not in CLUSTER_SCOPED
        ), entry["metadata"]["name"]


@pytest.mark.parametrize("mode", MODES)
def test_every_object_carries_the_recommended_labels(mode: str) -> None:
    keys = {
        f"app.kubernetes.io/{key}"
        for key in (
            "name",
            "instance",
            "version",
            "component",
            "part-of",
            "managed-by",
        )
    }
    for entry in render(MODES[mode]):
        assert keys | {"helm.sh/chart"} <= entry["metadata"]["labels"].keys(), (
            entry["kind"]
        )


def test_the_operators_pod_is_the_one_that_fences_around_servers_let_in() -> None:
    values: Object
    for values in (
        {"nameOverride": "other"},
        {"podLabels": dict.fromkeys(OPERATOR_LABELS, "other")},
    ):
        pod = only(render(values), "Deployment")["spec"]["template"]["metadata"]
        assert pod["labels"].items() >= OPERATOR_LABELS.items()


def test_common_labels_are_on_every_object_and_replace_none_of_the_charts_own() -> (
    None
):
    for entry in render(EVERYTHING):
        assert entry["metadata"]["labels"]["cost-center"] == "1234"
        assert entry["metadata"]["labels"]["app.kubernetes.io/name"] == "bench"


def test_selectors_hold_only_what_never_changes() -> None:
    labels = {"commonLabels": {"a": "b"}, "podLabels": {"c": "d"}}
    monitored = {
        "metrics": {"serviceMonitor": {"enabled": True}},
        "networkPolicies": {"metricsPeers": [PROMETHEUS]},
    }
    objects = render(labels | monitored | {"replicaCount": 2})
    deployment = only(objects, "Deployment")
    assert deployment["spec"]["selector"] == {"matchLabels": SELECTOR}
    assert only(objects, "Service")["spec"]["selector"] == SELECTOR
    assert only(objects, "NetworkPolicy")["spec"]["podSelector"] == {
        "matchLabels": SELECTOR
    }
    assert only(objects, "PodDisruptionBudget")["spec"]["selector"] == {
        "matchLabels": SELECTOR
    }
    assert only(objects, "ServiceMonitor")["spec"]["selector"] == {
        "matchLabels": SELECTOR
    }
    assert (
        deployment["spec"]["template"]["metadata"]["labels"].items()
        >= (SELECTOR | {"a": "b", "c": "d"}).items()
    )


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "bench-benchrun"),
        ({"nameOverride": "bench"}, "bench"),
        ({"fullnameOverride": "other"}, "other"),
    ],
)
def test_objects_are_named_after_the_release_once(
    values: Object, name: str
) -> None:
    assert only(render(values), "Deployment")["metadata"]["name"] == name


def test_a_new_operator_is_ready_before_the_old_one_goes() -> None:
    spec = only(render(), "Deployment")["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
    }
    assert "topologySpreadConstraints" not in spec["template"]["spec"]
    assert not any(entry["kind"] == "PodDisruptionBudget" for entry in render())


def test_two_operators_are_kept_apart_and_never_evicted_together() -> None:
    objects = render({"replicaCount": 2})
    spec = only(objects, "Deployment")["spec"]
    assert spec["replicas"] == 2
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert (spread["topologyKey"], spread["labelSelector"]) == (
        "kubernetes.io/hostname",
        {"matchLabels": SELECTOR},
    )
    assert only(objects, "PodDisruptionBudget")["spec"]["minAvailable"] == 1


def test_spread_constraints_of_the_users_replace_the_charts_own() -> None:
    pod = only(render(EVERYTHING), "Deployment")["spec"]["template"]["spec"]
    assert (
        pod["topologySpreadConstraints"] == EVERYTHING["topologySpreadConstraints"]
    )


def test_metrics_are_reached_through_the_pods_named_port() -> None:
    objects = render(EVERYTHING)
    service_port = only(objects, "Service")["spec"]["ports"][0]
    monitor = only(objects, "ServiceMonitor")
    ports = only(objects, "Deployment")["spec"]["template"]["spec"]["containers"][
        0
    ]["ports"]
    assert service_port["targetPort"] in {port["name"] for port in ports}
    [endpoint] = monitor["spec"]["endpoints"]
    expected = {
        "port": service_port["name"],
        "path": "/metrics",
        "honorLabels": True,
    }
    assert (
        endpoint.items()
        >= (expected | {"interval": "15s", "scrapeTimeout": "5s"}).items()
    )
    assert monitor["metadata"]["labels"]["release"] == "prometheus"


def test_what_needs_another_operator_is_rendered_only_when_asked_for() -> None:
    assert not {"ServiceMonitor", "PrometheusRule"} & {
        entry["kind"] for entry in render()
    }


def test_by_default_no_pod_reads_the_operators_metrics() -> None:
    policy = only(render(), "NetworkPolicy")["spec"]
    assert (policy["policyTypes"], policy["ingress"]) == (["Ingress"], [])
    assert not any(
        entry["kind"] == "NetworkPolicy"
        for entry in render({"networkPolicies": {"operator": False}})
    )


def test_the_network_policy_lets_through_what_the_operator_does_and_no_more() -> (
    None
):
    policy = only(
        render({"networkPolicies": {"egress": {"enabled": True}}}), "NetworkPolicy"
    )["spec"]
    runs = {
        "namespaceSelector": {},
        "podSelector": {
            "matchExpressions": [{"key": "benchrun.dev/run", "operator": "Exists"}]
        },
    }
    assert policy["policyTypes"] == ["Ingress", "Egress"]
    assert policy["egress"] == [
        {
            "ports": [
                {"port": 53, "protocol": "UDP"},
                {"port": 53, "protocol": "TCP"},
            ]
        },
        {
            "ports": [
                {"port": 443, "protocol": "TCP"},
                {"port": 6443, "protocol": "TCP"},
            ]
        },
        {"to": [runs]},
    ]


def test_the_network_policy_can_name_peers() -> None:
    asked_for = EVERYTHING["networkPolicies"]
    policy = only(render(EVERYTHING), "NetworkPolicy")["spec"]
    assert policy["ingress"] == [
        {
            "ports": [{"port": "http", "protocol": "TCP"}],
            "from": asked_for["metricsPeers"],
        }
    ]
    assert policy["egress"][1]["to"] == [{"ipBlock": {"cidr": "10.0.0.1/32"}}]
    assert policy["egress"][5:] == asked_for["egress"]["extra"]


@pytest.mark.parametrize(
    ("mode", "namespace"), [("default", "default"), ("namespaced", "team-a")]
)
def test_the_notes_say_what_to_do_next(mode: str, namespace: str) -> None:
    text = notes(MODES[mode])
    assert (
        f"kubectl rollout status deployment/bench-benchrun --namespace {NAMESPACE}"
        in text
    )
    assert f"kubectl apply --namespace {namespace} -f - <<'END'\n" in text
    assert f"kubectl get bmr --namespace {namespace} -w" in text


@pytest.mark.parametrize(
    ("version", "values", "missing"),
    [
        ("1.29.0", {}, True),
        ("1.30.0", {}, False),
        ("1.29.0", {"admissionPolicy": {"enabled": False}}, False),
    ],
)
def test_the_notes_say_when_the_cluster_is_too_old_for_the_admission_policy(
    version: str, values: Object, missing: bool, tmp_path: Path
) -> None:
    chart = tmp_path / "chart"
    shutil.copytree(CHART, chart)
    # Helm shows the notes of no other version than its own, so they are rendered as an object.
    (chart / "templates" / "NOTES.txt").rename(chart / "notes.txt")
    (chart / "templates" / "notes.yaml").write_text(
        'text: {{ tpl (.Files.Get "notes.txt") . | quote }}\n'
    )
    shown = helm(
        "template",
        RELEASE,
        str(chart),
        f"--kube-version={version}",
        "-s=templates/notes.yaml",
        values=values,
    )
    assert (
        "admissionPolicy.enabled" in yaml.safe_load(shown.stdout)["text"]
    ) == missing


def _built_in(entry: dict[str, Any]) -> bool:
    return entry["kind"] not in NOT_BUILT_IN
