"""The operator as Helm installs it, and the cluster without it for a while."""

from collections.abc import Iterator
from contextlib import contextmanager

from kit.kubectl import Namespace

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
