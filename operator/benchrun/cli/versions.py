"""What `benchrun --version` prints: the version of the command, and of each operator."""

import argparse
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

from benchrun.api import plain_text
from benchrun.cli.cluster import Body, Kubectl
from benchrun.cli.errors import KubectlError

DISTRIBUTION = "benchrun-operator"
SELECTOR = "app.kubernetes.io/part-of=benchrun,app.kubernetes.io/component=operator"
VERSION_LABEL = "app.kubernetes.io/version"
PATIENCE_SECONDS = 5.0
"""How long a cluster has to answer."""


class ShowVersions(argparse.Action):
    """The option that prints the versions and ends the command."""

    def __init__(
        self, option_strings: Sequence[str], dest: str, **how: Any
    ) -> None:
        super().__init__(option_strings, dest, nargs=0, **how)

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        print(f"benchrun {own_version()}", flush=True)
        for line in operator_lines(Kubectl()):
            print(line)
        parser.exit()


def own_version() -> str:
    """Return the version of this command, which is that of its distribution."""
    return version(DISTRIBUTION)


def operator_lines(kubectl: Kubectl) -> list[str]:
    """Return a line for each operator, or one line that none was found or could be listed."""
    try:
        found = kubectl.deployments(SELECTOR, seconds=PATIENCE_SECONDS)
    except KubectlError as error:
        return [f"operator: not known: {_reason(error)}"]
    return [plain_text(_line(each)) for each in found] or [
        "operator: there is none in this cluster"
    ]


def _line(deployment: Body) -> str:
    meta = deployment["metadata"]
    label = meta.get("labels", {}).get(VERSION_LABEL, "of an unknown version")
    (container, *_) = deployment["spec"]["template"]["spec"]["containers"]
    return (
        f"operator {label} (Deployment {meta['name']} in namespace {meta['namespace']}, "
        f"image {container['image']})"
    )


def _reason(error: KubectlError) -> str:
    if error.trouble != "Forbidden":
        return str(error)
    return (
        "you may not list Deployments of all namespaces; ask whoever installed the operator, "
        "or for the ClusterRole view in the cluster"
    )
