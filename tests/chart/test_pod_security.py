"""The operator's pod under the restricted Pod Security Standard, and a little stricter."""

import pytest
from chart.rendering import MODES, Object, only, render
from kit.restricted_scc import RESTRICTED_VOLUMES

PROBES = {
    "startupProbe": "/healthz",
    "livenessProbe": "/healthz",
    "readinessProbe": "/readyz",
}


@pytest.fixture(params=MODES)
def pod(request: pytest.FixtureRequest) -> Object:
    """The operator's pod in each mode of the chart."""
    spec: Object = only(render(MODES[request.param]), "Deployment")["spec"][
        "template"
    ]["spec"]
    return spec


def test_the_pod_is_not_root_and_confined_by_seccomp(pod: Object) -> None:
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def test_the_pod_shares_nothing_with_its_node(pod: Object) -> None:
    assert not {"hostNetwork", "hostPID", "hostIPC", "hostUsers"} & pod.keys()
    assert not any("hostPort" in port for port in pod["containers"][0]["ports"])
    for volume in pod["volumes"]:
        assert volume.keys() - {"name"} <= RESTRICTED_VOLUMES


def test_there_is_one_container_and_it_has_no_privileges(pod: Object) -> None:
    assert not {"initContainers", "ephemeralContainers"} & pod.keys()
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def test_only_a_small_tmp_can_be_written(pod: Object) -> None:
    assert pod["volumes"] == [{"name": "tmp", "emptyDir": {"sizeLimit": "64Mi"}}]
    assert pod["containers"][0]["volumeMounts"] == [
        {"name": "tmp", "mountPath": "/tmp"}
    ]


def test_no_variable_holds_or_reads_a_secret(pod: Object) -> None:
    assert not any(
        "secretKeyRef" in entry.get("valueFrom", {})
        for entry in pod["containers"][0]["env"]
    )
    assert "envFrom" not in pod["containers"][0]


def test_memory_is_limited_and_cpu_is_not(pod: Object) -> None:
    assert pod["containers"][0]["resources"] == {
        "requests": {"cpu": "100m", "memory": "128Mi"},
        "limits": {"memory": "512Mi"},
    }


@pytest.mark.parametrize(("probe", "path"), PROBES.items())
def test_probes_leave_a_busy_operator_time_to_answer(
    pod: Object, probe: str, path: str
) -> None:
    (container,) = pod["containers"]
    assert container[probe]["httpGet"] == {"path": path, "port": "http"}
    assert container[probe]["timeoutSeconds"] == 5
    assert {"name": "http", "containerPort": 8080} in container["ports"]


def test_only_the_pod_gets_a_token() -> None:
    objects = render()
    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert (
        only(objects, "Deployment")["spec"]["template"]["spec"][
            "automountServiceAccountToken"
        ]
        is True
    )
