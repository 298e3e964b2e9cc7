"""A pod whose main container is vLLM: its arguments, without its API server, and over several nodes."""

from __future__ import annotations

from typing import Any

from benchrun.api import Env, Model, Offline, Resources, Started
from benchrun.plan import pods
from benchrun.plan.mounted_files import model_files, served_name

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


# ---- without api server -----------------------------------------------------------------------------------------------

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


# ---- many nodes -------------------------------------------------------------------------------------------------------
# Pods of a server over several nodes: a leader with the API server, and workers without.
#
# vLLM runs over nodes by its own processes, without Ray: every pod is started with the same arguments, knows its rank and the
# leader's address, and all but the leader are headless. LeaderWorkerSet tells each pod its place.

_OWN_ADDRESS = "VLLM_HOST_IP"
"""Where vLLM tells the other nodes to find it; its own guess is the address it would reach the internet from."""


def node_args(nodes: int) -> list[str]:
    """Arguments of every pod of a server. LeaderWorkerSet puts both variables into its containers."""
    if nodes == 1:
        return []
    return [f"--nnodes={nodes}", "--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)"]


def node_env(nodes: int, given: Env) -> tuple[dict[str, Any], ...]:
    """Variables of every pod of a server, but for what the user has set."""
    if nodes == 1 or any(variable.name == _OWN_ADDRESS for variable in given):
        return ()
    return ({"name": _OWN_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},)


def worker_pod(leader: dict[str, Any]) -> dict[str, Any]:
    """The pod of a worker: the leader's without an API server, and so with nothing to probe."""
    vllm, *others = leader["containers"]
    headless = {name: value for name, value in vllm.items() if name not in ("ports", "readinessProbe")}
    return {**leader, "containers": [{**headless, "args": [*vllm["args"], "--headless"]}, *others]}
