"""A pod whose main container is vLLM, and the arguments that it is started with."""

from __future__ import annotations

from typing import Any

from benchrun.api.model_source import Model
from benchrun.api.pods import Resources
from benchrun.api.server import Started
from benchrun.plan import pods
from benchrun.plan.model_files import model_files, served_name

SERVER_PORT = 8000
SERVER_CONTAINER = "vllm"
SERVER_USER = 2000
"""The uid of user `vllm` in vLLM's images; any other works too, since HOME and caches point to /tmp."""
TERMINATION_GRACE_SECONDS = 10

_CACHES = {
    "HOME": "/tmp",
    "USER": "vllm",
    "LOGNAME": "vllm",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "VLLM_CACHE_ROOT": "/tmp/.cache/vllm",
    "TRITON_CACHE_DIR": "/tmp/.cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/.cache/inductor",
    "VLLM_NO_USAGE_STATS": "1",
}


def server_args(model: Model, given: list[str]) -> list[str]:
    """Arguments of `vllm serve`: ours first, so that the user's own flags have the last word."""
    files = model_files(model)
    ours = [files.model, f"--served-model-name={served_name(model)}", f"--port={SERVER_PORT}"]
    if model.revision is not None:
        ours.append(f"--revision={model.revision}")
    if model.tokenizer is not None:
        ours.append(f"--tokenizer={model.tokenizer}")
    return [*ours, *given]


def vllm_pod(
    model: Model,
    server: Started,
    *,
    args: list[str],
    own_env: tuple[dict[str, Any], ...] = (),
    resources: Resources | None = None,
) -> dict[str, Any]:
    """The pod's spec. `own_env` wins over the user's variables; `resources`: those of the server, unless its role has its own."""
    files = model_files(model)
    volumes = [
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": server.shared_memory}},
        {"name": "tmp", "emptyDir": {}},
        *files.volumes,
        *(server.pod.volumes or []),
    ]
    mounts = [
        {"name": "shm", "mountPath": "/dev/shm"},
        {"name": "tmp", "mountPath": "/tmp"},
        *files.mounts,
        *(server.pod.volume_mounts or []),
    ]
    container = {
        "name": SERVER_CONTAINER,
        "image": server.image,
        "imagePullPolicy": "IfNotPresent",
        "args": args,
        "env": pods.environment(_CACHES, files.env, pods.env_vars(server.env), own_env),
        "ports": [{"name": "http", "containerPort": SERVER_PORT}],
        # No liveness or start-up probe: a restart voids the measurement, and how long loading may take is the run's own deadline.
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 2, "timeoutSeconds": 5},
        "resources": pods.resources(resources or server.resources),
        "securityContext": pods.CONTAINER_SECURITY,
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": mounts,
    }
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": TERMINATION_GRACE_SECONDS,
        "securityContext": pods.pod_security(SERVER_USER, server.pod.security_context),
        "containers": [container],
        "volumes": volumes,
        **pods.placement(server.pod),
    }
