"""The operator as users install it: by Helm, from its image, in KUBECONFIG's cluster."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kit.installed import HELM_FLAGS, HOME, INSTALLED
from kit.kubectl import Namespace, command

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def operator() -> Namespace:
    """Install the operator, and return its namespace."""
    install()
    return HOME


def install() -> None:
    """Install the operator from this checkout and the images built of it."""
    command(
        "make",
        f"--directory={ROOT}",
        "install",
        f"HELM_FLAGS={HELM_FLAGS}",
        timeout_seconds=420,
    )
    # The two cores both measure and are measured: a pod that starts every two minutes would show
    # in the figures.
    for each in HOME.list("cronjobs", selector=INSTALLED):
        HOME.kubectl(
            "patch",
            "cronjob",
            each["metadata"]["name"],
            '--patch={"spec":{"suspend":true}}',
        )


@pytest.fixture
def namespace(operator: Namespace) -> Iterator[Namespace]:
    """Yield a namespace of the test's own, and delete it afterwards."""
    with in_a_namespace() as made:
        yield made


@contextmanager
def in_a_namespace() -> Iterator[Namespace]:
    """Create a namespace for as long as the context is open, and yield it."""
    name = f"e2e-{uuid.uuid4().hex[:8]}"
    command("kubectl", "create", "namespace", name)
    try:
        yield Namespace(name)
    finally:
        command("kubectl", "delete", "namespace", name, "--wait=false")
