"""Server roles: what a run starts. Today one, `server`; prefill, decode and proxy join as further entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchrun.api import names
from benchrun.api.model_source import Model
from benchrun.api.server import DEVELOPMENT_MODE, Server
from benchrun.api.spec import BenchmarkRunSpec
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


@dataclass(frozen=True, slots=True)
class Role:
    """Pods of one kind that serve."""

    name: str
    replicas: int
    pod_spec: dict[str, Any]


def roles(spec: BenchmarkRunSpec) -> tuple[Role, ...]:
    """The roles to start; none against an endpoint."""
    if spec.server is None:
        return ()
    own = ({"name": DEVELOPMENT_MODE, "value": "1"},) if spec.measurement.cache_policy == "Reset" else ()
    return (Role(name=names.ROLE_SERVER, replicas=1, pod_spec=_pod_spec(spec.model, spec.server, own)),)


def in_development_mode(spec: BenchmarkRunSpec) -> bool:
    """Whether the servers open vLLM's development endpoints, for us or because the user wants it: never without a fence."""
    if spec.server is None:
        return False
    asked = any(v.name == DEVELOPMENT_MODE and v.value != "0" for v in spec.server.env)
    return asked or spec.measurement.cache_policy == "Reset"


def server_args(model: Model, server: Server) -> list[str]:
    """Arguments of `vllm serve`: ours first, so that the user's own flags have the last word."""
    files = model_files(model)
    ours = [files.model, f"--served-model-name={served_name(model)}", f"--port={SERVER_PORT}"]
    if model.revision is not None:
        ours.append(f"--revision={model.revision}")
    if model.tokenizer is not None:
        ours.append(f"--tokenizer={model.tokenizer}")
    return [*ours, *server.args]


def _pod_spec(model: Model, server: Server, own_env: tuple[dict[str, Any], ...]) -> dict[str, Any]:
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
        "args": server_args(model, server),
        "env": pods.environment(_CACHES, files.env, pods.env_vars(server.env), own_env),
        "ports": [{"name": "http", "containerPort": SERVER_PORT}],
        # No liveness or start-up probe: a restart voids the measurement, and how long loading may take is the run's own deadline.
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 2, "timeoutSeconds": 5},
        "resources": pods.resources(server.resources),
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
