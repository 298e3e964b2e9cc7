"""The operator as Helm installs it, and the cluster without it for a while."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kit.kubectl import Namespace, command

CHART = Path(__file__).parents[2] / "charts/benchrun"
IMAGE_VALUES = {"operator": "image", "client": "clientImage"}
"""Image -> its name in the chart's values."""
ONE_NAMESPACE = "rbac.scope=namespace,rbac.aggregateRoles=false,crds.enabled=false"
HOME = Namespace("benchrun-system")
INSTALLED = "app.kubernetes.io/name=benchrun"  # everything that the chart installs
SELECTOR = f"{INSTALLED},app.kubernetes.io/component=operator"
"""Selector of the operator itself, not of what the chart runs beside it."""
HELM_FLAGS = "--set unschedulableGraceSeconds=5"  # no long wait for a node that nobody will add


@contextmanager
def taken_away() -> Iterator[None]:
    """Scale the operator to nothing while the context is open."""
    HOME.kubectl("scale", "deployment", f"--selector={SELECTOR}", "--replicas=0")
    try:
        HOME.wait_gone("pods", selector=SELECTOR, timeout_seconds=60)
        yield
    finally:
        HOME.kubectl(
            "scale", "deployment", f"--selector={SELECTOR}", "--replicas=1"
        )
        HOME.kubectl(
            "rollout",
            "status",
            "deployment",
            f"--selector={SELECTOR}",
            "--timeout=120s",
        )


@contextmanager
def installed_for(namespace: Namespace, *values: str) -> Iterator[None]:
    """Keep an operator in a namespace, with rights nowhere else, in place of the cluster's own.

    It is the release `team`, as docs/install.md installs it, with more of the chart's values.
    """
    where = (f"--namespace={namespace.name}", "--wait", "--timeout=2m")
    images = (_image_values(image) for image in IMAGE_VALUES)
    settings = [f"--set={each}" for each in (ONE_NAMESPACE, *values, *images)]
    with taken_away():
        command("helm", "install", "team", str(CHART), *where, *settings)
        yield
        command("helm", "uninstall", "team", "--no-hooks", *where)


def _image_values(name: str) -> str:
    variable = f"{name.upper()}_IMAGE"
    image = os.environ.get(variable, f"docker.io/benchrun/{name}:dev")
    repository, _, tag = image.rpartition(":")
    values = IMAGE_VALUES[name]
    return f"{values}.repository={repository},{values}.tag={tag}"
