"""A real API server: KUBECONFIG's, with the CustomResourceDefinitions of this checkout."""

import os
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from kit.kubectl import RUN, SWEEP, Namespace, command
from kit.played import PlayedCluster, played_cluster

CRDS = Path(__file__).parents[2] / "crds"


@pytest.fixture(scope="session")
def definition() -> str:
    """Apply the CustomResourceDefinitions of runs and sweeps, and wait until they are served.

    Return the name of the runs' definition.
    """
    if not os.environ.get("KUBECONFIG"):
        pytest.fail(
            "KUBECONFIG is not set; run `make devcluster-up` and `make test-cluster`",
            pytrace=False,
        )
    command(
        "kubectl",
        "apply",
        "--server-side",
        "--force-conflicts",
        f"--filename={CRDS}",
    )
    names = (f"customresourcedefinition/{name}" for name in (RUN, SWEEP))
    command(
        "kubectl", "wait", "--for=condition=Established", *names, "--timeout=30s"
    )
    return RUN


@pytest.fixture(scope="module")
def namespace(definition: str) -> Iterator[Namespace]:
    """Yield a namespace of the module's own, and delete it afterwards."""
    name = f"cluster-{uuid.uuid4().hex[:8]}"
    command("kubectl", "create", "namespace", name)
    yield Namespace(name)
    command("kubectl", "delete", "namespace", name, "--wait=false")


@pytest.fixture
async def played(definition: str, tmp_path: Path) -> AsyncIterator[PlayedCluster]:
    """Yield a namespace with an operator of its own, whose pods the test plays."""
    async with played_cluster(tmp_path) as cluster:
        yield cluster
