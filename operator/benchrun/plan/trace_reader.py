"""A server that can be profiled: its arguments and variables, where traces lie, and the container that reads them."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from benchrun_client.contract import READER_PORT
from benchrun_client.engines import ENGINE

from benchrun import names
from benchrun.api import BenchmarkRunSpec
from benchrun.plan.pods import CONTAINER_SECURITY, Owner

CONTAINER = "trace-reader"
DIRECTORY = "/profile"
RESOURCES = {"cpu": "250m", "memory": "1Gi"}
"""Limits as requests: beside it a server with whole cores of its own keeps them (the pod stays Guaranteed)."""


@cache
def source() -> str:
    """The reader, for the Python of the server's image: to pull the client's image there would hold the GPU meanwhile."""
    return (files("benchrun_client.engines.vllm") / "trace_reader.py").read_text(encoding="utf-8")


def with_profiler(owner: Owner, spec: BenchmarkRunSpec, pod: dict[str, Any]) -> dict[str, Any]:
    """The pod of a server, made ready to be profiled where the spec asks for it."""
    profile, server = spec.measurement.profile, spec.server
    if profile is None or server is None:
        return pod
    directory = f"{DIRECTORY}/{names.child_name(owner.name, owner.uid, names.ROLE_SERVER)}"
    engine, *others = pod["containers"]
    args, variables = ENGINE.profiled(server.image, directory)
    mount = {"name": "profile", "mountPath": DIRECTORY}
    engine = {
        **engine,
        "args": [*engine["args"], *args],
        "env": [*engine["env"], *({"name": name, "value": value} for name, value in variables.items())],
        "volumeMounts": [*engine["volumeMounts"], mount],
    }
    reader = {
        "name": CONTAINER,
        "image": server.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", source(), directory, str(READER_PORT)],
        "resources": {"requests": RESOURCES, "limits": RESOURCES},
        "securityContext": {**CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
        "volumeMounts": [{**mount, "readOnly": True}],
    }
    kept: dict[str, Any] = {"emptyDir": {}}
    if profile.claim_name is not None:
        kept = {"persistentVolumeClaim": {"claimName": profile.claim_name}}
    return {**pod, "containers": [engine, reader, *others], "volumes": [*pod["volumes"], {"name": "profile", **kept}]}
