"""The chart as Helm renders it: values in, objects out."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

REPOSITORY = Path(__file__).resolve().parents[2]
CHART = REPOSITORY / "charts" / "benchrun"
RELEASE = "bench"
NAMESPACE = "benchrun-system"

Object = dict[str, Any]

IMAGES = {
    "image": "registry.example/benchrun/operator",
    "clientImage": "registry.example/benchrun/client",
}
"""Repositories of the images, which the chart has no defaults for. They are added to all values
that name none."""
DEFAULT: Object = {}
NAMESPACED: Object = {
    "rbac": {"scope": "namespace"},
    "watchNamespaces": ["team-a", "team-b"],
}
DIGEST = "sha256:" + "0123456789abcdef" * 4
PROXY: Object = {"podRoad": "Proxy", "networkPolicies": {"runs": False}}
PROMETHEUS: Object = {
    "namespaceSelector": {
        "matchLabels": {"kubernetes.io/metadata.name": "monitoring"}
    }
}
EVERYTHING: Object = {
    "nameOverride": "bench",
    "commonLabels": {"cost-center": "1234", "app.kubernetes.io/name": "not-this"},
    "image": {
        "repository": "mirror.example/operator",
        "digest": DIGEST,
        "pullPolicy": "Always",
    },
    "imagePullSecrets": [{"name": "mirror"}],
    "clientImage": {
        "repository": "mirror.example/client",
        "digest": DIGEST,
        "pullPolicy": "Always",
    },
    "serviceAccount": {
        "name": "bench",
        "annotations": {"example.com/owner": "serving"},
    },
    "log": {"level": "debug", "format": "plain"},
    "workers": 4,
    "resyncSeconds": 60,
    "replicaCount": 2,
    "podRoad": "Proxy",
    "gpuTelemetry": {
        "enabled": True,
        "namespace": "monitoring",
        "labels": {"app": None, "tier": "gpu"},
        "port": 9401,
    },
    "cpuTelemetry": {
        "enabled": True,
        "namespace": "node-stats",
        "labels": {"app": None, "tier": "cpu"},
        "port": 8081,
    },
    "unschedulableGraceSeconds": 0,
    "extraEnv": [
        {"name": "TZ", "value": "UTC"},
        {
            "name": "NODE_NAME",
            "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
        },
    ],
    "deploymentAnnotations": {"example.com/reload": "true"},
    "podAnnotations": {"example.com/scrape": "true"},
    "podLabels": {"team": "serving"},
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "topology.kubernetes.io/zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app.kubernetes.io/name": "bench"}},
        }
    ],
    "release": {
        "podAnnotations": {"linkerd.io/inject": "disabled"},
        "podLabels": {
            "sidecar.istio.io/inject": "false",
            "app.kubernetes.io/name": "not-this",
        },
        "resources": {"requests": {"cpu": 0.05}},
    },
    "archive": {
        "enabled": True,
        "schedule": "0 3 * * *",
        "place": "s3://results/benchrun",
        "envFrom": [{"secretRef": {"name": "storage"}}],
        "egress": [{"ports": [{"port": 443}]}],
        "podAnnotations": {"linkerd.io/inject": "disabled"},
        "podLabels": {"team": "serving"},
        "serviceAccount": {"annotations": {"eks.amazonaws.com/role-arn": "arn"}},
    },
    "priorityClassName": "system-cluster-critical",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {
                        "matchExpressions": [
                            {
                                "key": "nvidia.com/gpu.present",
                                "operator": "DoesNotExist",
                            }
                        ]
                    }
                ]
            }
        }
    },
    "metrics": {
        "runs": True,
        "resultRuns": 5,
        "serviceMonitor": {
            "enabled": True,
            "interval": "15s",
            "scrapeTimeout": "5s",
            "labels": {"release": "prometheus"},
        },
        "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}},
        "dashboards": {
            "enabled": True,
            "labels": {"team": "serving"},
            "annotations": {"grafana_folder": "Benchmarks"},
        },
    },
    "networkPolicies": {
        "runs": False,
        "serverPeers": [PROMETHEUS],
        "metricsPeers": [PROMETHEUS],
        "egress": {
            "enabled": True,
            "apiServerCIDRs": ["10.0.0.1/32"],
            "extra": [
                {
                    "to": [{"podSelector": {"matchLabels": {"app": "vllm"}}}],
                    "ports": [{"port": 8000}],
                }
            ],
        },
    },
}
MODES = {"default": DEFAULT, "namespaced": NAMESPACED, "everything": EVERYTHING}


def helm(
    *arguments: str, values: Mapping[str, Any] = DEFAULT
) -> subprocess.CompletedProcess[str]:
    """Run Helm with these values as the values file, and return what it said, whether it succeeded
    or not."""
    return subprocess.run(
        [_program(), *arguments, "--values=-"],
        input=yaml.safe_dump(_with_images(values)),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def render(
    values: Mapping[str, Any] = DEFAULT,
    *arguments: str,
    namespace: str = NAMESPACE,
    component: str = "operator",
) -> list[Object]:
    """Every object of the operator, of the release or of the archive, with these values. Fails the
    test when Helm refuses them."""
    result = helm(
        "template",
        RELEASE,
        str(CHART),
        f"--namespace={namespace}",
        *arguments,
        values=values,
    )
    assert result.returncode == 0, result.stderr
    found = [
        document
        for document in yaml.load_all(result.stdout, _UniqueKeys)
        if document is not None
    ]
    return [
        each
        for each in found
        if each["metadata"]["labels"]["app.kubernetes.io/component"] == component
    ]


def refusal(values: Mapping[str, Any]) -> str:
    """What Helm says of values that the chart must refuse."""
    result = helm("template", RELEASE, str(CHART), values=values)
    assert result.returncode != 0, "Helm accepted these values"
    return result.stderr


def notes(values: Mapping[str, Any] = DEFAULT) -> str:
    """What Helm tells the user after an installation."""
    result = helm(
        "install",
        RELEASE,
        str(CHART),
        f"--namespace={NAMESPACE}",
        "--dry-run=client",
        values=values,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.partition("NOTES:\n")[2]


def only(objects: list[Object], kind: str) -> Object:
    """The one object of this kind."""
    found = [entry for entry in objects if entry["kind"] == kind]
    assert len(found) == 1, f"{len(found)} objects of kind {kind}"
    return found[0]


def _with_images(values: Mapping[str, Any]) -> Object:
    named = {
        value: {"repository": repository} | values.get(value, {})
        for value, repository in IMAGES.items()
    }
    return {**values, **named}


def _program() -> str:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    devcluster = Path(
        os.environ.get("DEVCLUSTER_CACHE") or caches / "benchrun-devcluster"
    )
    program = shutil.which("helm") or shutil.which(
        "helm", path=str(devcluster / "bin")
    )
    if program is None:
        pytest.fail(
            f"helm is needed, and neither on PATH nor in {devcluster / 'bin'}: python3 devcluster "
            "tools"
        )
    return program


class _UniqueKeys(yaml.CSafeLoader):
    """YAML in which a key said twice is an error, as it is for the API server in strict mode."""

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(keys) == len(set(keys)), (
            f"duplicate key in {keys} at {node.start_mark}"
        )
        return super().construct_mapping(node, deep=deep)
