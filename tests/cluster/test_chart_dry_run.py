"""A real API server takes everything the chart renders: defaults, CEL rules and names checked,
nothing stored."""

import json
import os

import pytest
from chart.rendering import (
    CHART,
    DEFAULT,
    EVERYTHING,
    RELEASE,
    Object,
    helm,
    render,
)
from kit.kubectl import CommandFailed, command

MODES: dict[str, Object] = {
    "default": DEFAULT,
    "namespaced": {
        "rbac": {"scope": "namespace"},
        "watchNamespaces": ["default", "kube-public"],
    },
    # Its kind belongs to the Prometheus operator, which no bare cluster has.
    "everything but the ServiceMonitor": EVERYTHING
    | {"metrics": {"serviceMonitor": {"enabled": False}}},
}


@pytest.fixture(autouse=True)
def cluster() -> None:
    """These tests never talk to a cluster that happens to be some user's default."""
    if not os.environ.get("KUBECONFIG"):
        pytest.fail(
            'KUBECONFIG is not set; with the devcluster up: eval "$(python3 devcluster env)"'
        )


def dry_run(manifests: str) -> list[str]:
    """Names of the objects the API server would store. Raises CommandFailed with what it
    refuses."""
    apply = (
        "kubectl",
        "apply",
        "--server-side",
        "--dry-run=server",
        "--force-conflicts",
        "--filename=-",
        "--output=name",
    )
    return command(*apply, stdin=manifests).split()


@pytest.mark.parametrize("mode", MODES)
def test_the_api_server_accepts_every_object(mode: str) -> None:
    rendered = helm(
        "template", RELEASE, str(CHART), "--namespace=default", values=MODES[mode]
    )
    assert rendered.returncode == 0, rendered.stderr
    accepted = dry_run(rendered.stdout)
    assert len(accepted) == rendered.stdout.count("\nkind: ")
    assert (
        "customresourcedefinition.apiextensions.k8s.io/benchmarkruns.benchrun.dev"
        in accepted
    )


def test_the_api_server_compiles_the_rules_so_accepting_them_means_something() -> (
    None
):
    definition = next(
        entry for entry in render() if entry["kind"] == "CustomResourceDefinition"
    )
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["x-kubernetes-validations"] = [
        {"rule": "self.metadata.nmae != ''", "message": "mistyped"}
    ]
    with pytest.raises(CommandFailed, match="undefined field 'nmae'"):
        dry_run(json.dumps(definition))
