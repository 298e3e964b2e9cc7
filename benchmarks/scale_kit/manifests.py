"""Runs that are as small as possible, the script's runs, and runs that have ended."""

from collections.abc import Iterator
from typing import Any

from benchrun.names import API_VERSION, KIND
from runs_kit import manifests

Json = dict[str, Any]

STAGES = manifests.STAGES
REQUESTS = 40
"""Requests of a stage. Few suffice: the judge, which reads records one run after the other, is not
what is measured."""


def run(name: str, namespace: str) -> Json:
    """Build a BenchmarkRun of 2 load points x 3 repeats."""
    body = manifests.run(name, namespace)
    body["spec"]["workloads"][0]["requests"] = REQUESTS
    return body


def alike(name: str, namespace: str) -> Iterator[tuple[str, Json]]:
    """Yield a run and objects like its first children, each with its kind.

    Their Jobs are suspended, so that the controllers are not busy with them while the operator is
    measured.
    """
    for kind, body in manifests.alike(name, namespace):
        if kind == KIND:
            yield kind, {**body, "spec": run(name, namespace)["spec"]}
        elif kind == "Job":
            yield kind, {**body, "spec": {**body["spec"], "suspend": True}}
        else:
            yield kind, body


def ended(name: str, namespace: str, like: Json) -> tuple[Json, Json]:
    """Return a run that has ended and the patch of its status, copied from the run `like`."""
    body = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {"name": name, "namespace": namespace},
        "spec": like["spec"],
    }
    return body, {"status": like["status"]}
