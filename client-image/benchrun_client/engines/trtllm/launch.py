"""How `trtllm-serve` is started: its command, and the flags to leave alone.

Its flags have underscores, and click takes neither dashes for them nor the beginning of a name.
What has no flag of its own is given by `--set PATH=VALUE`, which wins over flags.
"""

from collections.abc import Mapping, Sequence

from benchrun_client.engines import owned_flags
from benchrun_client.engines.engine import ServedFiles
from benchrun_client.engines.settings import EngineSetting

PORT = 8000
USER = 2000  # The images run as root; any user works, since HOME and caches point to /tmp.
COMMAND = ("trtllm-serve", "serve")
ENVIRONMENT = {
    "HOME": "/tmp",
    "USER": "trtllm",
    "LOGNAME": "trtllm",
    "XDG_CACHE_HOME": "/tmp/.cache",
    "TRITON_CACHE_DIR": "/tmp/.cache/triton",
    "TORCHINDUCTOR_CACHE_DIR": "/tmp/.cache/inductor",
    "TRTLLM_NO_USAGE_STATS": "1",
}
METRICS = ("return_perf_metrics", "enable_iter_perf_stats")
"""Paths of --set that turn the Prometheus page on, and the series of steps on it."""
_ONE_SERVER = "remove the flag: benchrun starts each TensorRT-LLM server by itself, on one node"
OWNED_FLAGS = {
    "--served_model_name": "set model.servedName instead: the client sends requests for that name",
    "--tokenizer": (
        "set model.tokenizer instead: the client must count tokens with the same "
        "tokenizer"
    ),
    "--revision": "set model.revision instead: the client must use the same revision",
    "--chat_template": "set chatTemplate instead: the client must use the same template",
    "--port": f"remove the flag: the server must use port {PORT}",
    "--host": "remove the flag: other pods must reach the server",
    "--grpc": "remove the flag: the client sends HTTP",
    "--config": "flags in a file can't be checked; give --set=PATH=VALUE in args instead",
    "--server_role": _ONE_SERVER,
    "--disagg_cluster_uri": _ONE_SERVER,
    "--metadata_server_config_file": _ONE_SERVER,
}
FLAG_SPELLINGS = {
    "--tensor_parallel_size": "tp_size",
    "--pipeline_parallel_size": "pp_size",
    "--hf_revision": "revision",
    "--extra_llm_api_options": "config",
}
"""Other spelling of a flag -> its long name without dashes."""
SETTING_FLAGS = {
    EngineSetting.MAX_RUNNING: "max_batch_size",
    EngineSetting.MAX_TOKENS: "max_seq_len",
    EngineSetting.STEP_TOKENS: "max_num_tokens",
    EngineSetting.CHUNKED_PREFILL: "enable_chunked_prefill",
    EngineSetting.TENSOR_PARALLEL: "tp_size",
    EngineSetting.PIPELINE_PARALLEL: "pp_size",
    EngineSetting.CONFIG_FILE: "config",
}
"""The share of memory is not among them: --free_gpu_memory_fraction is one of what weights leave
free."""
OF_A_FLAG = {
    **{
        flag: flag for flag in SETTING_FLAGS.values() if not flag.endswith("p_size")
    },
    "tensor_parallel_size": "tp_size",
    "pipeline_parallel_size": "pp_size",
    "tokenizer": "tokenizer",
    "revision": "revision",
}
"""Path of --set -> the flag that checks and reports read in its place."""
PLACEHOLDERS = {
    "--served_model_name": "$(SERVED_NAME)",
    "--port": "$(PORT)",
}
"""Flag owned by the operator -> the placeholder that a command may give as its value."""
MODEL = "$(MODEL)"


def serve_args(model: ServedFiles, command: Sequence[str]) -> list[str]:
    """Return the arguments of `trtllm-serve serve` for a model, the model first.

    Arguments that the command already has as placeholders are left out. Metrics are turned on, and
    the server made to listen on all addresses, because neither is its default.
    """
    own = {
        MODEL: model.path,
        PLACEHOLDERS["--served_model_name"]: f"--served_model_name={model.name}",
        PLACEHOLDERS["--port"]: f"--port={PORT}",
    }
    optional = {
        "revision": model.revision,
        "tokenizer": model.tokenizer,
        "chat_template": model.chat_template,
    }
    left = owned_flags.left_out(own, command)
    given = owned_flags.written(optional)
    metrics = [f"--set={path}=true" for path in METRICS]
    return [*left, "--host=0.0.0.0", *metrics, *given]


def owned_flag(
    words: Sequence[str], *, placeholders: Mapping[str, str] | None = None
) -> tuple[int, str] | None:
    """Return the position of the first flag that only the operator may set, and a message.

    Two more kinds of words are refused. One is a --set of a setting that the operator sets, or that
    has a flag which is read. The other is a flag written with dashes, with which `trtllm-serve`
    would not start. Return None if no word is refused. The message does not repeat the value, which
    may be secret.
    """
    problems = [
        owned_flags.first_owned(
            words, OWNED_FLAGS, FLAG_SPELLINGS, placeholders or {}
        ),
        _by_path(words),
        _dashed(words),
    ]
    return min((each for each in problems if each is not None), default=None)


def _by_path(words: Sequence[str]) -> tuple[int, str] | None:
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name != "--set":
            continue
        path = (value if equals else next(iter(words[place + 1 :]), "")).partition(
            "="
        )[0]
        if path in METRICS:
            return place, f"--set={path} belongs to the operator: remove it"
        if (flag := OF_A_FLAG.get(path)) is None:
            continue
        if (remedy := OWNED_FLAGS.get(f"--{flag}")) is None:
            remedy = f"give --{flag} instead: checks and reports read it there"
        return place, f"--set={path}: {remedy}"
    return None


def _dashed(words: Sequence[str]) -> tuple[int, str] | None:
    known = {*SETTING_FLAGS.values(), *OWNED_FLAGS}
    spelled = {each.strip("-").replace("_", "-") for each in known if "_" in each}
    for place, word in enumerate(words):
        name = word.partition("=")[0]
        if name[:2] == "--" and name[2:] in spelled:
            right = name[2:].replace("-", "_")
            return place, f"{name}: trtllm-serve writes it --{right}"
    return None


def command_problem(command: Sequence[str]) -> tuple[int, str] | None:
    """Return the position of the first problem in a command, and a message; None without problem.

    The contents of a script are not examined.
    """
    if (owned := owned_flag(command, placeholders=PLACEHOLDERS)) is not None:
        return owned
    for place, program in enumerate(command):
        if program.rpartition("/")[2] != COMMAND[0]:
            continue
        place += 2 if tuple(command[place + 1 : place + 2]) == COMMAND[1:] else 1
        word = next(iter(command[place:]), "-")
        if word[:1] not in ("-", "$"):
            return (
                place,
                f"trtllm-serve would take {word} for the model: write {MODEL}, or leave it out",
            )
    return None
