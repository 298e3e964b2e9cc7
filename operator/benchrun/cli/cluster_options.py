"""Which cluster and namespace a command talks to."""

from __future__ import annotations

import argparse

from benchrun.cli.kubectl import Kubectl


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """`-n` and `--context`, as kubectl has them."""
    parser.add_argument("-n", "--namespace", help="namespace of the run")
    parser.add_argument("--context", help="kubeconfig context")


def kubectl_of(options: argparse.Namespace) -> Kubectl:
    """kubectl with what was given."""
    return Kubectl(namespace=options.namespace, context=options.context)
