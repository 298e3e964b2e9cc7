"""How SGLang is started: its command, and the flags to leave alone."""

from collections.abc import Mapping, Sequence

from benchrun_client.engines import owned_flags
from benchrun_client.engines.engine import ServedFiles
from benchrun_client.engines.settings import EngineSetting

PORT = 30000
USER = 2000  # The images run as root; any user works, since HOME and caches point to /tmp.
COMMAND = ("python3", "-m", "sglang.launch_server")
ENVIRONMENT = {
    "HOME": "/tmp",
    "USER": "sglang",
    "LOGNAME": "sglang",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "TRITON_CACHE_DIR": "/tmp/.cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/.cache/inductor",
}
FLAG_WARNINGS = {
    "--enable-metrics-for-all-schedulers": (
        ": every tensor parallel rank counts the same requests, so running and waiting requests "
        "add up to too many"
    ),
}
_PLAIN_HTTP = "remove the flag: the client uses plain HTTP"
_ONE_NODE = "remove the flag: benchrun starts each SGLang server on a single node"
_NO_KEY = "remove the key: the client sends no key, and everybody who may read the run would see it"
_MODEL = (
    "set model.name and model.source instead: the client needs the same tokenizer"
)
OWNED_FLAGS = {
    "--model-path": _MODEL,
    "--model": _MODEL,
    "--served-model-name": "set model.servedName instead: the client sends requests for that name",
    "--tokenizer-path": (
        "set model.tokenizer instead: the client must count tokens with the same "
        "tokenizer"
    ),
    "--revision": "set model.revision instead: the client must use the same revision",
    "--chat-template": "set chatTemplate instead: the client must use the same template",
    "--port": f"remove the flag: the server must use port {PORT}",
    "--host": "remove the flag: other pods must reach the server",
    "--ssl-keyfile": _PLAIN_HTTP,
    "--ssl-certfile": _PLAIN_HTTP,
    "--api-key": _NO_KEY,
    "--admin-api-key": _NO_KEY,
    "--config": "flags in a file can't be checked; list them in args instead",
    "--nnodes": _ONE_NODE,
    "--node-rank": _ONE_NODE,
    "--dist-init-addr": _ONE_NODE,
    "--nccl-init-addr": _ONE_NODE,
    "--grpc-mode": "remove the flag: the client sends HTTP",
}
FLAG_SPELLINGS = {
    "--tensor-parallel-size": "tp-size",
    "--tp": "tp-size",
    "--pipeline-parallel-size": "pp-size",
    "--pp": "pp-size",
    "--data-parallel-size": "dp-size",
    "--dp": "dp-size",
}
"""Other spelling of a flag -> its long name without dashes."""
SETTING_FLAGS = {
    EngineSetting.MAX_RUNNING: "max-running-requests",
    EngineSetting.MAX_TOKENS: "context-length",
    EngineSetting.KV_CACHE_TOKENS: "max-total-tokens",
    EngineSetting.BLOCK_TOKENS: "page-size",
    EngineSetting.MEMORY_SHARE: "mem-fraction-static",
    EngineSetting.TENSOR_PARALLEL: "tp-size",
    EngineSetting.PIPELINE_PARALLEL: "pp-size",
    EngineSetting.DATA_PARALLEL: "dp-size",
    EngineSetting.CONFIG_FILE: "config",
}
FLAGS_OFF = {EngineSetting.PREFIX_CACHE: "disable-radix-cache"}
PLACEHOLDERS = {
    "--model-path": "$(MODEL)",
    "--served-model-name": "$(SERVED_NAME)",
    "--port": "$(PORT)",
}
"""Flag owned by the operator -> the placeholder that a command may give as its value."""


def serve_args(model: ServedFiles, command: Sequence[str]) -> list[str]:
    """Return the arguments of `sglang.launch_server` for a model, the model first.

    Arguments that the command already has as placeholders are left out. Metrics are turned on, and
    the server made to listen on all addresses, because neither is SGLang's default.
    """
    own = {
        PLACEHOLDERS["--model-path"]: f"--model-path={model.path}",
        PLACEHOLDERS["--served-model-name"]: f"--served-model-name={model.name}",
        PLACEHOLDERS["--port"]: f"--port={PORT}",
    }
    optional = {
        "revision": model.revision,
        "tokenizer-path": model.tokenizer,
        "chat-template": model.chat_template,
    }
    left = owned_flags.left_out(own, command)
    given = owned_flags.written(optional)
    return [*left, "--host=0.0.0.0", "--enable-metrics", *given]


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
    return owned_flag(command, placeholders=PLACEHOLDERS)
