"""The operator as users install it: by Helm, from its image, in the cluster that KUBECONFIG names."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.kubectl import Namespace, command

ROOT = Path(__file__).parents[2]
OPERATOR_NAMESPACE = "benchrun-system"


def _image(value: str) -> tuple[str, str]:
    repository, _, tag = value.rpartition(":")
    return repository, tag


@pytest.fixture(scope="session")
def operator() -> Namespace:
    """The namespace of the installed operator."""
    operator_repository, operator_tag = _image(os.environ.get("OPERATOR_IMAGE", "docker.io/benchrun/operator:dev"))
    client_repository, client_tag = _image(os.environ.get("CLIENT_IMAGE", "docker.io/benchrun/client:dev"))
    command(
        "helm", "upgrade", "--install", "--take-ownership", "--force-conflicts", "benchrun", str(ROOT / "charts/benchrun"),
        f"--namespace={OPERATOR_NAMESPACE}", "--create-namespace", "--wait", "--timeout=3m",
        f"--set=image.repository={operator_repository}", f"--set=image.tag={operator_tag}",
        f"--set=clientImage.repository={client_repository}", f"--set=clientImage.tag={client_tag}",
        timeout_seconds=240,
    )  # fmt: skip
    installed = Namespace(OPERATOR_NAMESPACE)
    # The tag is always the same here; a new image needs a new pod.
    installed.kubectl("rollout", "restart", "deployment", "--selector=app.kubernetes.io/name=benchrun")
    installed.kubectl("rollout", "status", "deployment", "--selector=app.kubernetes.io/name=benchrun", "--timeout=180s",
                      timeout_seconds=200)  # fmt: skip
    return installed


@pytest.fixture
def namespace(operator: Namespace) -> Iterator[Namespace]:
    """A namespace of the test's own, gone afterwards."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    command("kubectl", "create", "namespace", name)
    yield Namespace(name)
    command("kubectl", "delete", "namespace", name, "--wait=false")
