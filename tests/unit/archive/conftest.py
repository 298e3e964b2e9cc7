"""A cluster with runs, and an archiver of it that writes into a folder."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from benchrun.archive.main import main
from kubernetes.config import kube_config
from unit.archive.cluster import ClusterWithRuns
from unit.release.api_server import kubeconfig, serving

Archive = Callable[..., int]


@pytest.fixture
def cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ClusterWithRuns]:
    """Yield an empty cluster that the kubeconfig leads to."""
    found = ClusterWithRuns()
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
def place(tmp_path: Path) -> Path:
    """Return the folder of the archives."""
    return tmp_path / "archive"


@pytest.fixture
def archive(cluster: ClusterWithRuns, place: Path) -> Archive:
    """Return the command; it returns its exit status."""
    return lambda *arguments: main(["--place", str(place), *arguments])
