"""A namespace with a LimitRange, quotas and restricted Pod Security admits every pod of every example
for GPUs as it is, by the API server's own words."""

import json
import uuid
from collections.abc import Iterator

import pytest
from benchrun.api.sweep import KIND as SWEEP
from benchrun.names import KIND
from cluster.admission import refused_pod
from kit.kubectl import Namespace, command
from kit.polling import polling
from kit.restricted_scc import Object
from kit.strict_namespace import POD_SECURITY, manifests
from unit.api.examples import EXAMPLES, Example
from unit.plan.test_examples_fit import pods_by_kind

BENCHMARKS = [
    pytest.param(each, id=f"{each.file}:{each.name}")
    for each in EXAMPLES
    if each.kind in (KIND, SWEEP)
]


@pytest.fixture(scope="module")
def strict(definition: str) -> Iterator[Namespace]:
    name = f"strict-{uuid.uuid4().hex[:8]}"
    made = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": POD_SECURITY},
    }
    command("kubectl", "create", "--filename=-", stdin=json.dumps(made))
    namespace = Namespace(name)
    namespace.apply(*manifests())
    for _ in polling("the quota is known", seconds=60):
        (quota,) = namespace.list("resourcequotas")
        if quota.get("status", {}).get("used"):
            break
    yield namespace
    command("kubectl", "delete", "namespace", name, "--wait=false")


def different(example: Example) -> list[Object]:
    """The pods of an example for GPUs, those once that differ in their arguments alone."""
    found = {
        json.dumps(_without_args(pod), sort_keys=True): pod
        for is_for_gpus, pod in pods_by_kind(example)
        if is_for_gpus
    }
    return list(found.values())


def _without_args(pod: Object) -> Object:
    containers = [{**each, "args": []} for each in pod["containers"]]
    return {**pod, "containers": containers}


@pytest.mark.parametrize("example", BENCHMARKS)
def test_every_pod_of_an_example_is_admitted(
    example: Example, strict: Namespace
) -> None:
    for pod in different(example):
        assert refused_pod(strict, pod) == ""


@pytest.mark.parametrize(
    ("word", "amounts"),
    [
        ("no request", {"limits": {"memory": "1Gi"}}),
        (
            "ratio",
            {
                "limits": {"cpu": "5", "memory": "1Gi"},
                "requests": {"cpu": "1"},
            },
        ),
    ],
)
def test_it_refuses_others(word: str, amounts: Object, strict: Namespace) -> None:
    security = {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {
        "name": "c",
        "image": "i",
        "securityContext": security,
        "resources": amounts,
    }
    assert word in refused_pod(strict, {"containers": [container]})
