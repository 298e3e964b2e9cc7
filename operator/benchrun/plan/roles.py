"""Server roles: what a run starts. Today one, `server`, with vLLM's API server or without; prefill, decode and proxy join as
further entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchrun.api import names
from benchrun.api.model_source import Model
from benchrun.api.server import DEVELOPMENT_MODE, Offline, Started
from benchrun.api.spec import BenchmarkRunSpec
from benchrun.plan import pods
from benchrun.plan.model_files import model_files, served_name

SERVER_PORT = 8000
SERVER_CONTAINER = "vllm"
SERVER_USER = 2000
"""The uid of user `vllm` in vLLM's images; any other works too, since HOME and caches point to /tmp."""
TERMINATION_GRACE_SECONDS = 10
CODE_DIRECTORY = "/opt/benchrun-client"
"""Where an engine without API server finds the client's code."""
IMAGE_CODE_DIRECTORY = "/opt/benchrun"
"""Where the client's image has it."""

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


def replicas(spec: BenchmarkRunSpec) -> int:
    """Pods that serve, over all roles; 0 against an endpoint."""
    if spec.server is not None:
        return spec.server.replicas
    return 0 if spec.offline is None else 1


def roles(spec: BenchmarkRunSpec, *, client_image: str, pull_policy: str) -> tuple[Role, ...]:
    """The roles to start; none against an endpoint. An engine without API server takes its port's code from the client's image."""
    if spec.offline is not None:
        pod = without_api_server(spec.model, spec.offline, client_image=client_image, pull_policy=pull_policy)
    elif spec.server is not None:
        own = ({"name": DEVELOPMENT_MODE, "value": "1"},) if spec.measurement.cache_policy == "Reset" else ()
        pod = _pod_spec(spec.model, spec.server, args=server_args(spec.model, spec.server), own_env=own)
    else:
        return ()
    return (Role(name=names.ROLE_SERVER, replicas=replicas(spec), pod_spec=pod),)


def in_development_mode(spec: BenchmarkRunSpec) -> bool:
    """Whether the servers open vLLM's development endpoints, for us or because the user wants it: never without a fence."""
    if spec.server is None:
        return False
    asked = any(v.name == DEVELOPMENT_MODE and v.value != "0" for v in spec.server.env)
    return asked or spec.measurement.cache_policy == "Reset"


def server_args(model: Model, server: Started) -> list[str]:
    """Arguments of `vllm serve`: ours first, so that the user's own flags have the last word."""
    files = model_files(model)
    ours = [files.model, f"--served-model-name={served_name(model)}", f"--port={SERVER_PORT}"]
    if model.revision is not None:
        ours.append(f"--revision={model.revision}")
    if model.tokenizer is not None:
        ours.append(f"--tokenizer={model.tokenizer}")
    return [*ours, *server.args]


def engine_args(model: Model, offline: Offline) -> list[str]:
    """Arguments of vLLM's engine, ours first."""
    path, *ours = server_args(model, offline)
    return [f"--model={path}", *ours]


def started_args(spec: BenchmarkRunSpec) -> list[str]:
    """Those of whatever the run starts; none against an endpoint."""
    if spec.offline is not None:
        return engine_args(spec.model, spec.offline)
    return server_args(spec.model, spec.server) if spec.server is not None else []


def without_api_server(model: Model, offline: Offline, *, client_image: str, pull_policy: str) -> dict[str, Any]:
    """A pod whose main container is vLLM's engine behind a port of ours. The image is the user's, and has vLLM; the few files
    that it lacks are copied from the client's image."""
    pod = _pod_spec(model, offline, args=engine_args(model, offline), own_env=())
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


def _pod_spec(model: Model, server: Started, *, args: list[str], own_env: tuple[dict[str, Any], ...]) -> dict[str, Any]:
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
