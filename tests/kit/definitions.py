"""The CRD of runs as another release has it, for a while.

The whole cluster has one definition: every watch of runs begins anew.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from kit.kubectl import RUN, Object, command

CRDS = Path(__file__).parents[2] / "crds"
APPLY = ("kubectl", "apply", "--server-side", "--force-conflicts")
OF_YESTERDAY = ("phase", "message", "conditions", "observedGeneration")
"""All fields of a status in the definition of an older release."""
OF_TOMORROW: Object = {"phase": "Hibernating", "hibernation": {"depth": 3}}
"""A value and a field of a status that only a newer release has."""


@contextmanager
def newer() -> Iterator[None]:
    """Let the API server accept a newer operator's status: other words, other fields."""
    with _defined(_with_anything):
        yield


@contextmanager
def older() -> Iterator[None]:
    """Let the API server drop most of what this operator writes into a status."""
    with _defined(_with_little):
        yield


@contextmanager
def _defined(change: Callable[[Object], None]) -> Iterator[None]:
    document = yaml.safe_load((CRDS / f"{RUN}.yaml").read_text())
    for version in document["spec"]["versions"]:
        change(version)
    command(*APPLY, "--filename=-", stdin=json.dumps(document))
    try:
        yield
    finally:
        command(*APPLY, f"--filename={CRDS}")


def _with_anything(version: Object) -> None:
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    _without_enums(status)
    status["x-kubernetes-preserve-unknown-fields"] = True


def _with_little(version: Object) -> None:
    version.pop("selectableFields")
    run = version["schema"]["openAPIV3Schema"]
    status = run["properties"]["status"]
    known = status["properties"]
    status["properties"] = {name: known[name] for name in OF_YESTERDAY}
    status.pop("x-kubernetes-validations", None)
    rules = run.pop("x-kubernetes-validations")
    run["x-kubernetes-validations"] = [
        rule for rule in rules if ".status." not in rule["rule"]
    ]


def _without_enums(schema: Any) -> None:
    if isinstance(schema, dict):
        schema.pop("enum", None)
        schema.pop("x-kubernetes-validations", None)
        for part in schema.values():
            _without_enums(part)
    elif isinstance(schema, list):
        for part in schema:
            _without_enums(part)
