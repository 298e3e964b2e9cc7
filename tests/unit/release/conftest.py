"""A cluster, and a check of it by the release."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchrun.release.api_server import Api
from benchrun.release.main import LISTS, Look
from kubernetes.config import kube_config
from unit.release.api_server import Cluster, kubeconfig, serving

LookAt = Callable[..., int]


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Yield an empty cluster that the kubeconfig leads to."""
    found = Cluster()
    file = tmp_path / "kubeconfig"
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(file))
    # The cluster speaks plain HTTP: reading all certificates of the machine would take longest.
    monkeypatch.setenv("SSL_CERT_FILE", os.devnull)
    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(file))
    with serving(found) as url:
        file.write_text(kubeconfig(url))
        yield found


@pytest.fixture
def look(cluster: Cluster) -> LookAt:
    """Return a function that checks the cluster once, at an instant of the API server's clock.

    It returns the number of failures.
    """

    def at(now: int | None, *namespaces: str, bound: int = 86_400) -> int:
        cluster.now = now
        state = "benchrun-system/benchrun-release"
        where = namespaces or ("",)
        return Look(Api(len(where) * LISTS), state, max_hold_seconds=bound).at(
            where
        )

    return at
