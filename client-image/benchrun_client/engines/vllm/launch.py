"""How vLLM is started: the arguments and variables that benchrun sets, and flags that users had better leave alone."""

from __future__ import annotations

import json
from collections.abc import Mapping

PORT = 8000
USER = 2000
"""The uid of user `vllm` in vLLM's images; any other works too, since HOME and caches point to /tmp."""
ENVIRONMENT = {
    "HOME": "/tmp",
    "USER": "vllm",
    "LOGNAME": "vllm",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "VLLM_CACHE_ROOT": "/tmp/.cache/vllm",
    "TRITON_CACHE_DIR": "/tmp/.cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/.cache/inductor",
    "VLLM_NO_USAGE_STATS": "1",
}
FLAG_WARNINGS = {
    "--port": f" is set by the operator; the operator serves and probes port {PORT}",
    "--host": " is set by the operator; the server must be reached from other pods",
    "--served-model-name": " is set by the operator; set model.servedName instead: the client sends requests for that name",
    "--model": " is set by the operator; set model.name instead: the client needs the same tokenizer",
    "--disable-log-stats": ": takes away vLLM's metrics: no running, waiting or KV cache figures, and most checks can't be made",
    "--api-key": ": is a secret, readable for whoever may read the run",
    "--config": ": flags in a file are not seen here",
}
SHORT_FLAGS = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-dcp": "decode-context-parallel-size",
    "-pcp": "prefill-context-parallel-size",
    "-n": "nnodes",
    "-r": "node-rank",
}


def serve_args(model: str, served_name: str, revision: str | None, tokenizer: str | None) -> list[str]:
    """Arguments of `vllm serve` for a model: a path, or a hub's id."""
    optional = {"revision": revision, "tokenizer": tokenizer}
    given = [f"--{flag}={value}" for flag, value in optional.items() if value is not None]
    return [model, f"--served-model-name={served_name}", f"--port={PORT}", *given]


def node_args(nodes: int) -> list[str]:
    """vLLM runs over nodes by its own processes, without Ray: every pod gets the same arguments, with its rank and the leader's
    address in them. LeaderWorkerSet puts both variables into its containers."""
    return [f"--nnodes={nodes}", "--node-rank=$(LWS_WORKER_INDEX)", "--master-addr=$(LWS_LEADER_ADDRESS)"]


def transfer_args(connector: str, role: str | None, settings: Mapping[str, object] | None) -> list[str]:
    """--kv-transfer-config of a role, prefill or decode; None: kv_both."""
    kv_role = {"prefill": "kv_producer", "decode": "kv_consumer", None: "kv_both"}[role]
    fields: dict[str, object] = {"kv_connector": connector, "kv_role": kv_role}
    if settings is not None:
        fields["kv_connector_extra_config"] = settings
    return [f"--kv-transfer-config={json.dumps(fields, sort_keys=True, separators=(',', ':'))}"]
