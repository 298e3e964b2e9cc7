"""Pods of a server whose prompts are prefilled in one place and whose answers are decoded in another."""

from __future__ import annotations

import json
from typing import Any

from benchrun.api import names
from benchrun.api.disaggregated import Disaggregated, KVTransfer
from benchrun.api.model_source import Model
from benchrun.api.server import Server
from benchrun.plan import pods
from benchrun.plan.metadata import Owner
from benchrun.plan.vllm_pod import SERVER_PORT, server_args, vllm_pod

PROXY_CONTAINER = "proxy"
PROXY_USER = 65532
PROXY_REQUESTS = {"cpu": "500m", "memory": "256Mi"}
PROXY_MODULE = "benchrun_client.proxy"
_KV_ROLES = {names.ROLE_PREFILL: "kv_producer", names.ROLE_DECODE: "kv_consumer"}
_OWN_ADDRESS = "VLLM_NIXL_SIDE_CHANNEL_HOST"
"""Where NIXL tells the other side to find it; its own default is localhost, which is another pod's own."""


def kv_transfer_config(transfer: KVTransfer, role: str) -> str:
    """vLLM's --kv-transfer-config of a role, as JSON."""
    kv_role = "kv_both" if transfer.roles == "Both" else _KV_ROLES[role]
    device, policy = transfer.buffer_device, transfer.load_failure_policy
    fields = {
        "kv_connector": transfer.connector,
        "kv_role": kv_role,
        "kv_connector_extra_config": transfer.extra_config,
        "kv_buffer_device": device.lower() if device is not None else None,
        "kv_load_failure_policy": policy.lower() if policy is not None else None,
        "kv_connector_module_path": transfer.module_path,
    }
    given = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(given, sort_keys=True, separators=(",", ":"))


def role_args(model: Model, server: Server, transfer: KVTransfer, role: str) -> list[str]:
    """Arguments of `vllm serve` in this role; the user's own flags have the last word."""
    path, *ours = server_args(model, server.args_of(role))
    return [path, f"--kv-transfer-config={kv_transfer_config(transfer, role)}", *ours]


def role_pod(
    model: Model, server: Server, transfer: KVTransfer, role: str, own_env: tuple[dict[str, Any], ...]
) -> dict[str, Any]:
    """Pod of a vLLM that prefills, or decodes."""
    address = {"name": _OWN_ADDRESS, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    says_where = any(variable.name == _OWN_ADDRESS for variable in server.env)
    env = own_env if says_where else (*own_env, address)
    args = role_args(model, server, transfer, role)
    return vllm_pod(model, server, args=args, own_env=env, resources=server.resources_of(role))


def role_url(owner: Owner, role: str) -> str:
    """Where the servers of a role are found."""
    return f"http://{names.child_name(owner.name, owner.uid, role)}.{owner.namespace}.svc:{SERVER_PORT}"


def proxy_pod(
    owner: Owner, server: Server, split: Disaggregated, *, client_image: str, pull_policy: str
) -> dict[str, Any]:
    """Pod of the proxy: ours lies in the client's image, another's has an entry point of its own."""
    proxy = split.proxy
    where = [
        {"name": "PREFILL_URL", "value": role_url(owner, names.ROLE_PREFILL)},
        {"name": "DECODE_URL", "value": role_url(owner, names.ROLE_DECODE)},
    ]
    ours = ["--prefill=$(PREFILL_URL)", "--decode=$(DECODE_URL)", f"--port={SERVER_PORT}"]
    ours += [f"--prefill-replicas={split.prefill.replicas}", f"--decode-replicas={split.decode.replicas}"]
    program: dict[str, Any] = {"command": ["python3", "-m", PROXY_MODULE], "args": [*ours, *proxy.args]}
    container = {
        "name": PROXY_CONTAINER,
        "image": proxy.image or client_image,
        "imagePullPolicy": pull_policy if proxy.image is None else "IfNotPresent",
        **(program if proxy.image is None else {"args": proxy.args}),
        "env": where,
        "ports": [{"name": "http", "containerPort": SERVER_PORT}],
        "readinessProbe": {"httpGet": {"path": "/health", "port": "http"}, "periodSeconds": 2, "timeoutSeconds": 5},
        "resources": pods.resources(proxy.resources, requests=PROXY_REQUESTS),
        "securityContext": {**pods.CONTAINER_SECURITY, "readOnlyRootFilesystem": True},
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    secrets = {"imagePullSecrets": [{"name": name} for name in server.pod.image_pull_secrets or []]}
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 5,
        "securityContext": pods.pod_security(PROXY_USER, None),
        "containers": [container],
        "volumes": [{"name": "tmp", "emptyDir": {}}],
        **(secrets if server.pod.image_pull_secrets else {}),
    }
