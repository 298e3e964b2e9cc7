"""Paths of the API."""

from __future__ import annotations

import pytest
from benchrun.effects.connection import CHILD_KINDS, EXTENSION_KINDS, RESOURCES


@pytest.mark.parametrize(
    ("path", "kind", "parts"),
    [
        ("/api/v1/namespaces/lab/configmaps/plan", "ConfigMap", ("lab", "plan")),
        ("/api/v1/configmaps", "ConfigMap", (None,)),
        ("/api/v1/namespaces/lab/pods/p/log", "Pod", ("lab", "p", "log")),
        ("/apis/apps/v1/namespaces/lab/deployments", "Deployment", ("lab",)),
        ("/apis/batch/v1/namespaces/lab/jobs/j", "Job", ("lab", "j")),
        ("/apis/benchrun.dev/v1alpha1/namespaces/lab/benchmarkruns/r/status", "BenchmarkRun", ("lab", "r", "status")),
        ("/apis/discovery.k8s.io/v1/namespaces/lab/endpointslices", "EndpointSlice", ("lab",)),
        ("/apis/networking.k8s.io/v1/namespaces/lab/networkpolicies/n", "NetworkPolicy", ("lab", "n")),
        (
            "/apis/leaderworkerset.x-k8s.io/v1/namespaces/lab/leaderworkersets/g",
            "LeaderWorkerSet",
            ("lab", "g"),
        ),
        ("/api/v1/namespaces/lab/pods/..%2F..%2Fsecrets", "Pod", ("lab", "../../secrets")),
    ],
)
def test_path(path: str, kind: str, parts: tuple[str | None, ...]) -> None:
    assert RESOURCES[kind].path(*parts) == path


def test_every_kind_of_a_child_has_an_address_and_is_watched_or_looked_up() -> None:
    assert {*CHILD_KINDS, *EXTENSION_KINDS} <= set(RESOURCES)
    assert not set(CHILD_KINDS) & set(EXTENSION_KINDS)
