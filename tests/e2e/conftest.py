"""The operator as users install it: by Helm, from its image, in the cluster that KUBECONFIG names."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from kit.kubectl import Namespace, command

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def operator() -> Namespace:
    """The namespace of the installed operator. It does not wait long for a node that nobody will add."""
    flags = "HELM_FLAGS=--set unschedulableGraceSeconds=5"
    command("make", f"--directory={ROOT}", "install", flags, timeout_seconds=420)
    return Namespace("benchrun-system")


@pytest.fixture
def namespace(operator: Namespace) -> Iterator[Namespace]:
    """A namespace of the test's own, gone afterwards."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    command("kubectl", "create", "namespace", name)
    yield Namespace(name)
    command("kubectl", "delete", "namespace", name, "--wait=false")
