"""How vLLM is started: arguments and variables that benchrun sets, and flags to leave alone."""

import json
import re
from collections.abc import Mapping, Sequence

from benchrun_client.engines import owned_flags
from benchrun_client.engines.engine import ServedFiles
from benchrun_client.engines.settings import EngineSetting

PORT = 8000
# The uid of user `vllm` in vLLM's images; any other works too, since HOME and caches point to /tmp.
USER = 2000
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
COMPILE_CACHES = {
    "VLLM_CACHE_ROOT": "vllm",
    "TRITON_CACHE_DIR": "triton",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
}
FLAG_WARNINGS = {
    "--disable-log-stats": (
        ": turns vLLM's metrics off, so there are no running, waiting or KV cache "
        "figures, and most checks can't be made"
    ),
}
_PLAIN_HTTP = "remove the flag: the client uses plain HTTP"
_BY_NODES = "set server.nodesPerReplica instead"
OWNED_FLAGS = {
    "--model": "set model.name and model.source instead: the client needs the same tokenizer",
    "--served-model-name": "set model.servedName instead: the client sends requests for that name",
    "--tokenizer": (
        "set model.tokenizer instead: the client must count tokens with the same "
        "tokenizer"
    ),
    "--revision": "set model.revision instead: the client must use the same revision",
    "--chat-template": "set chatTemplate instead: the client must use the same template",
    "--port": f"remove the flag: the server must use port {PORT}",
    "--host": "remove the flag: other pods must reach the server",
    "--uds": "remove the flag: other pods must reach the server",
    "--ssl-keyfile": _PLAIN_HTTP,
    "--ssl-certfile": _PLAIN_HTTP,
    "--api-key": (
        "remove the key: the client sends no key, and everybody who may read the run would see it"
    ),
    "--config": "flags in a file can't be checked; list them in args instead",
    "--nnodes": _BY_NODES,
    "--node-rank": _BY_NODES,
    "--master-addr": _BY_NODES,
    "--headless": _BY_NODES,
}
REFUSED_VARIABLES = {"VLLM_API_KEY": OWNED_FLAGS["--api-key"]}
PLACEHOLDERS = {
    "--model": "$(MODEL)",
    "--served-model-name": "$(SERVED_NAME)",
    "--port": "$(PORT)",
}
"""Flag owned by the operator -> the placeholder that a command may give as its value."""
API_SERVER = "vllm.entrypoints.openai.api_server"
"""The module that images start with if they predate `vllm serve`. It takes the model by flag only:
a model without a flag is ignored, and vLLM's own default model is served (vllm#32294)."""
FLAG_SPELLINGS = {
    "-tp": "tensor-parallel-size",
    "-pp": "pipeline-parallel-size",
    "-dp": "data-parallel-size",
    "-dpl": "data-parallel-size-local",
    "-dpn": "data-parallel-rank",
    "-dpr": "data-parallel-start-rank",
    "-dpa": "data-parallel-address",
    "-dpp": "data-parallel-rpc-port",
    "-dpb": "data-parallel-backend",
    "-dph": "data-parallel-hybrid-lb",
    "-dpe": "data-parallel-external-lb",
    "-dpm": "data-parallel-multi-port-external-lb",
    "-dcp": "decode-context-parallel-size",
    "-pcp": "prefill-context-parallel-size",
    "-ep": "enable-expert-parallel",
    "-q": "quantization",
    "-sc": "speculative-config",
    "-ac": "attention-config",
    "-cc": "compilation-config",
    "-dc": "diffusion-config",
    "-asc": "api-server-count",
    "-n": "nnodes",
    "-r": "node-rank",
    "--device-memory-utilization": "gpu-memory-utilization",
}
"""Other spelling of a flag -> its long name without dashes."""
SETTING_FLAGS = {
    EngineSetting.MAX_RUNNING: "max-num-seqs",
    EngineSetting.MAX_TOKENS: "max-model-len",
    EngineSetting.STEP_TOKENS: "max-num-batched-tokens",
    EngineSetting.BLOCK_TOKENS: "block-size",
    EngineSetting.PREFIX_CACHE: "enable-prefix-caching",
    EngineSetting.CHUNKED_PREFILL: "enable-chunked-prefill",
    EngineSetting.MEMORY_SHARE: "gpu-memory-utilization",
    EngineSetting.KV_CACHE_BYTES: "kv-cache-memory-bytes",
    EngineSetting.TENSOR_PARALLEL: "tensor-parallel-size",
    EngineSetting.PIPELINE_PARALLEL: "pipeline-parallel-size",
    EngineSetting.DATA_PARALLEL: "data-parallel-size",
    EngineSetting.EXPERT_PARALLEL: "enable-expert-parallel",
    EngineSetting.LOGS_REQUESTS: "enable-log-requests",
    EngineSetting.DTYPE: "dtype",
    EngineSetting.QUANTIZATION: "quantization",
    EngineSetting.KV_CACHE_DTYPE: "kv-cache-dtype",
    EngineSetting.EAGER: "enforce-eager",
    EngineSetting.SPECULATION: "speculative-config",
    EngineSetting.ATTENTION_KERNELS: "attention-backend",
    EngineSetting.CONFIG_FILE: "config",
}
READABLE_FLAGS = frozenset(
    {
        "async-scheduling",
        "attention-backend",
        "block-size",
        "cpu-offload-gb",
        "data-parallel-backend",
        "data-parallel-external-lb",
        "data-parallel-hybrid-lb",
        "data-parallel-rank",
        "data-parallel-size",
        "data-parallel-size-local",
        "data-parallel-start-rank",
        "decode-context-parallel-size",
        "disable-hybrid-kv-cache-manager",
        "disable-sliding-window",
        "distributed-executor-backend",
        "dtype",
        "enable-eplb",
        "enable-expert-parallel",
        "enable-lora",
        "enforce-eager",
        "gpu-memory-utilization",
        "hf-config-path",
        "hf-overrides",
        "kv-cache-dtype",
        "kv-cache-dtype-skip-layers",
        "kv-cache-memory-bytes",
        "kv-transfer-config",
        "load-format",
        "max-model-len",
        "max-num-batched-tokens",
        "max-num-seqs",
        "num-gpu-blocks-override",
        "pipeline-parallel-size",
        "prefill-context-parallel-size",
        "quantization",
        "speculative-config",
        "tensor-parallel-size",
    }
)
"""Flags whose values are read. argparse takes the beginning of a name for the name if no other flag
begins so; this list suffices to find the name, because no other flag of vLLM begins like these."""
_OLD_IMAGE = re.compile(r":v?0\.(?:[0-9]|1[0-2])(?:[^0-9/][^/]*)?$")
"""Image tags before 0.13, which introduced --profiler-config (vllm#29912). Older versions, and none
after 0.15, take the same settings from environment variables."""
# Most steps in a trace; a step has several thousand events.
MAX_PROFILED_STEPS = 500


def serve_args(model: ServedFiles, command: Sequence[str]) -> list[str]:
    """Return the arguments of `vllm serve` for a model, the model first.

    Arguments that the command already has as placeholders are left out.
    """
    own = {
        PLACEHOLDERS["--model"]: model.path,
        PLACEHOLDERS["--served-model-name"]: f"--served-model-name={model.name}",
        PLACEHOLDERS["--port"]: f"--port={PORT}",
    }
    optional = {
        "revision": model.revision,
        "tokenizer": model.tokenizer,
        "chat-template": model.chat_template,
    }
    return [
        *owned_flags.left_out(own, command),
        *owned_flags.written(optional),
    ]


def owned_flag(
    words: Sequence[str], *, placeholders: Mapping[str, str] | None = None
) -> tuple[int, str] | None:
    """Return the position of the first flag that only the operator may set, and a message.

    None if there is none. The message does not repeat the value, which may be secret.
    """
    return owned_flags.first_owned(
        words, OWNED_FLAGS, FLAG_SPELLINGS, placeholders or {}
    )


def command_problem(command: Sequence[str]) -> tuple[int, str] | None:
    """Return the position of the first problem in a command, and a message; None without problem.

    The contents of a script are not examined.
    """
    if (owned := owned_flag(command, placeholders=PLACEHOLDERS)) is not None:
        return owned
    model = PLACEHOLDERS["--model"]
    for place, (program, verb, word) in enumerate(
        zip(command, command[1:], command[2:], strict=False)
    ):
        if (
            program.rpartition("/")[2] == "vllm"
            and verb == "serve"
            and word[:1] not in ("-", "$")
        ):
            return (
                place + 2,
                f"vLLM would take {word} for the model: write {model}, or leave it out",
            )
    if API_SERVER in command and not any(model in word for word in command):
        return list(command).index(
            API_SERVER
        ), f"{API_SERVER} takes a model by flag only: add --model={model}"
    return None


def node_args(nodes: int) -> list[str]:
    """Return the arguments of each pod of a server that spans `nodes` nodes.

    vLLM spans nodes with its own processes, without Ray. Every pod has the same arguments, with
    variables for its rank and the leader's address, which LeaderWorkerSet sets in its containers.
    """
    return [
        f"--nnodes={nodes}",
        "--node-rank=$(LWS_WORKER_INDEX)",
        "--master-addr=$(LWS_LEADER_ADDRESS)",
    ]


def transfer_args(
    connector: str, role: str | None, settings: Mapping[str, object] | None
) -> list[str]:
    """Return --kv-transfer-config for a role, prefill or decode; None means kv_both."""
    kv_role = {"prefill": "kv_producer", "decode": "kv_consumer", None: "kv_both"}[
        role
    ]
    fields: dict[str, object] = {"kv_connector": connector, "kv_role": kv_role}
    if settings is not None:
        fields["kv_connector_extra_config"] = settings
    return [
        f"--kv-transfer-config={json.dumps(fields, sort_keys=True, separators=(',', ':'))}"
    ]


def profiled(image: str, directory: str) -> tuple[list[str], dict[str, str]]:
    """Return arguments and variables that start torch's profiler in the workers.

    Python stacks are not recorded: that takes as long as the work they show. An image whose tag is
    not a version counts as current.
    """
    if _OLD_IMAGE.search(image):
        # A large trace takes longer to write than the engine's answers may.
        old = {"WITH_STACK": "0", "DIR": directory}
        return [], {"VLLM_RPC_TIMEOUT": "1800000"} | {
            f"VLLM_TORCH_PROFILER_{name}": old[name] for name in old
        }
    settings = {
        "profiler": "torch",
        "torch_profiler_dir": directory,
        "torch_profiler_with_stack": False,
    }
    settings |= {"ignore_frontend": True, "max_iterations": MAX_PROFILED_STEPS}
    return [f"--profiler-config={json.dumps(settings, separators=(',', ':'))}"], {}


_BY_LOT = re.compile(
    r"rejection[-_]sample[-_]method[\"']?\s*[:= ]\s*[\"']?synthetic"
)


def accepts_by_lot(args: Sequence[str]) -> bool:
    """Return whether speculation accepts draft tokens at random (`--speculative-config`)."""
    return _BY_LOT.search(" ".join(args)) is not None


def loaded_adapters(args: Sequence[str]) -> list[str]:
    """Return the names of the LoRA adapters that a server with these arguments loads.

    After `--lora-modules` they are NAME=PATH, or an object of JSON with a name.
    """
    found: list[str] = []
    is_list = False
    for word in args:
        flag, equals, value = word.partition("=")
        if word.startswith("--"):
            is_list = flag.replace("_", "-") == "--lora-modules"
            listed = [value] if is_list and equals else []
        else:
            listed = [word] if is_list else []
        found += [_adapter_name(each) for each in listed]
    return found


def _adapter_name(listed: str) -> str:
    try:
        document = json.loads(listed)
    except ValueError:
        return listed.partition("=")[0]
    return str(document.get("name")) if isinstance(document, dict) else listed
