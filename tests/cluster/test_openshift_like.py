"""Where an admission policy does what OpenShift's restricted-v2 does, the pods of runs are admitted
if the namespace gives them their user, and refused by name of the field if not."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from benchrun.plan import Applied, Owner, RunDefaults
from cluster.admission import refused_pod
from kit.kubectl import Namespace, command
from kit.polling import polling
from kit.restricted_scc import admission_policy, pods_of
from unit.plan.objects import objects
from unit.plan.specs import spec

SPECS: dict[str, dict[str, Any]] = {
    "one server": {},
    "profiled": {"measurement": {"profile": {"seconds": 2}}},
    "two roles": {
        "server": {
            "image": "v",
            "disaggregated": {"kvTransfer": {"connector": "NixlConnector"}},
        },
    },
    "offline": {
        "server": None,
        "offline": {"image": "v"},
        "workloads": [
            {
                "name": "all",
                "dataset": {"random": {"inputTokens": 8, "outputTokens": 8}},
                "load": {"requestRates": ["inf"]},
                "requests": 8,
            }
        ],
    },
}


@pytest.fixture(scope="module")
def openshift(namespace: Namespace) -> Iterator[Namespace]:
    """A namespace whose pods the policy looks at."""
    name = f"restricted-v2-{namespace.name}"
    policies = admission_policy(name, namespace.name)
    listed = {"apiVersion": "v1", "kind": "List", "items": policies}
    command("kubectl", "apply", "--filename=-", stdin=json.dumps(listed))
    try:
        root = {"containers": [{"name": "c", "image": "i"}]}
        for _ in polling("the policy is in force", seconds=60):
            if "restricted-v2" in refused_pod(namespace, root):
                break
        yield namespace
    finally:
        for policy in policies:
            command("kubectl", "delete", policy["kind"], name, "--wait=false")


@pytest.mark.parametrize("case", SPECS)
def test_every_pod_of_a_run_is_admitted_with_the_namespaces_user(
    openshift: Namespace, case: str
) -> None:
    owner = Owner(openshift.name, "chat", "7c9e6679-7425-40de-944b-e07fc1f90ae7")
    for from_namespace in (True, False):
        defaults = RunDefaults(user_from_namespace=from_namespace)
        made = objects(owner, spec(**SPECS[case]), applied=Applied(defaults))
        pods = [pod for each in made for pod in pods_of(each)]
        told = [refused_pod(openshift, pod) for pod in pods]
        if from_namespace:
            assert told == [""] * len(pods)
        else:
            assert all("restricted-v2: pod.user" in each for each in told), told
