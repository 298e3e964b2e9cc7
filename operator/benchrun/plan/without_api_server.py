"""vLLM's engine without its API server, behind a port of ours: the pod of `spec.offline`."""

from __future__ import annotations

from typing import Any

from benchrun.api.model_source import Model
from benchrun.api.server import Offline
from benchrun.plan import pods
from benchrun.plan.vllm_pod import server_args, vllm_pod

CODE_DIRECTORY = "/opt/benchrun-client"
"""Where an engine without API server finds the client's code."""
IMAGE_CODE_DIRECTORY = "/opt/benchrun"
"""Where the client's image has it."""


def engine_args(model: Model, offline: Offline) -> list[str]:
    """Arguments of vLLM's engine, ours first."""
    path, *ours = server_args(model, offline.args)
    return [f"--model={path}", *ours]


def without_api_server(model: Model, offline: Offline, *, client_image: str, pull_policy: str) -> dict[str, Any]:
    """The image is the user's, and has vLLM; the few files that it lacks are copied from the client's image."""
    pod = vllm_pod(model, offline, args=engine_args(model, offline))
    code = {"name": "client-code", "mountPath": CODE_DIRECTORY}
    copy = {
        "name": "copy-client-code",
        "image": client_image,
        "imagePullPolicy": pull_policy,
        "command": ["cp", "-r", f"{IMAGE_CODE_DIRECTORY}/.", CODE_DIRECTORY],
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {**pods.CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
        "volumeMounts": [code],
    }
    engine = pod["containers"][0]
    engine["command"] = ["python3", f"{CODE_DIRECTORY}/offline_engine.py"]
    engine["volumeMounts"] = [*engine["volumeMounts"], {**code, "readOnly": True}]
    volumes = [*pod["volumes"], {"name": "client-code", "emptyDir": {"sizeLimit": "64Mi"}}]
    return {**pod, "initContainers": [copy], "volumes": volumes}
