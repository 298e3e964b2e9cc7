"""Why vLLM failed, how long its start took, and when it compiled kernels, from its log."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from itertools import islice

from benchrun_client.engines import library_causes
from benchrun_client.engines.engine import LogCause, StartupPhases

PREFIX = re.compile(
    r"^(?:\(\S+ pid=\d+\) )?(?:[A-Z]+ \d\d-\d\d \d\d:\d\d:\d\d )?(?:\[\S+:\d+\] ?)?"
)
CAUSE_IS_ABOVE = (
    "See root cause above",  # API server: an engine core did not start
    "See stack trace (above) for the root cause",  # API server: an engine core ended later
    "See stack trace for root cause",  # engine core: a worker did not start
    "stack trace above for the root cause",  # engine core: a worker failed in a step
)
"""Phrases of vLLM 0.32 and 0.33."""

# Where each phrase was seen. The images of vLLM 0.32 and 0.33 have these libraries.
_VLLM = "vLLM 0.32"
_OLD_VLLM = "vLLM 0.8"
_PYDANTIC = "pydantic 2"

CAUSES = (
    LogCause(
        "UsageError",
        "vLLM refused its arguments",
        "Correct spec.server.args for this version of vLLM (vllm serve --help=all in the image "
        "lists its flags).",
        library_causes.USAGE,
        exit_code=2,  # exit code of argparse
    ),
    LogCause(  # a ValueError by form, so it stands before InvalidArgument
        "KVCacheTooSmall",
        "The KV cache is too small",
        "Lower --max-model-len, raise --gpu-memory-utilization, or use a larger GPU or more of "
        "them.",
        {
            "no available memory for the cache blocks": _VLLM,
            "which is larger than the available kv cache memory": _VLLM,
            "larger than the maximum number of tokens that can be stored in kv cache": _OLD_VLLM,
        },
    ),
    LogCause(
        "OutOfGPUMemory",
        "The GPU's memory is in use",
        "Lower --gpu-memory-utilization, or make sure that nothing else uses this GPU.",
        {"less than desired gpu memory utilization": _VLLM},
        tries=2,  # memory in use by others may come free
    ),
    LogCause(
        "OutOfGPUMemory",
        "The GPU ran out of memory",
        "Use a larger GPU, more of them (--tensor-parallel-size), a smaller or quantized model, "
        "or fewer --max-num-seqs.",
        library_causes.OUT_OF_GPU_MEMORY,
    ),
    library_causes.NOT_REACHED,  # before the hub's own refusals: a proxy also answers 401 and 403
    library_causes.GATED,  # before not found, whose words mention gating
    library_causes.REFUSED,
    library_causes.not_found(
        {
            "invalid repository id or local directory specified": _VLLM,
            "cannot find any model weights with": _VLLM,
            "no config file found": _VLLM,
        }
    ),
    LogCause(  # parsed, then refused: exit code 1 and the text of pydantic or a ValueError
        "InvalidArgument",
        "vLLM refused a value",
        "Correct spec.server.args or spec.model.",
        {"validation error for": _PYDANTIC, "validation errors for": _PYDANTIC},
        exit_code=1,
        error_begins="ValueError: ",
    ),
)

# Lines about the start, in seconds:
#
#     Time spent downloading weights for org/model: 12.345678 seconds
#     Loading weights took 2.13 seconds
#     Model loading took 14.99 GiB memory and 15.678901 seconds       all of the above, and making
#                                                                     the model
#     torch.compile took 22.10 s in total                             "takes" in older versions
#     init engine (profile, create kv cache, ...) took 47.64 s        "seconds" in older versions;
#                                                                     the one before in it
#     init engine (...) took 212.68 s (compilation: 13.01 s)
#
# Lines of one process add up: a draft model is loaded after the model it drafts for. Of several
# processes, the ranks of a server, the slowest counts: the others wait for it.

_SECONDS = r"([0-9]{1,9}(?:\.[0-9]{1,9})?)"
_PROCESS = re.compile(r"\((.{1,80}? pid=[0-9]{1,10})\) ")
_LINES: Mapping[str, re.Pattern[str]] = {
    "download": re.compile(
        rf"Time spent downloading weights for .{{1,1024}}: {_SECONDS} seconds"
    ),
    "weights": re.compile(rf"\bLoading weights took {_SECONDS} seconds"),
    "model": re.compile(rf"\bModel loading took .{{1,40}} and {_SECONDS} seconds"),
    "compile": re.compile(
        r"torch\.compile (?:takes|took|and initial profiling/warmup run together took) "
        rf"{_SECONDS} s in total"
    ),
    "engine": re.compile(rf"\binit engine \(.{{1,80}}\) took {_SECONDS} s"),
    "engine_compile": re.compile(
        rf"\binit engine \(.{{1,80}}\) took .{{1,40}}\(compilation: {_SECONDS} s"
    ),
}
# Only lines that contain one of these are examined closely.
_WORDS = (
    " took ",
    " takes ",
    "Time spent ",
)
_MAX_LINES = 1000
_MIN_LINE_CHARS = 20
_MAX_LINE_CHARS = 2048


def startup_phases(log: str) -> StartupPhases:
    found = _slowest(log)
    download = found.get("download")
    engine = found.get("engine")
    compiled = found.get("engine_compile", found.get("compile"))
    return StartupPhases(
        download=download,
        load=_less(found["model"], download)
        if "model" in found
        else found.get("weights"),
        compile=compiled,
        warm_up=None if engine is None else _less(engine, compiled),
        from_cache=_from_cache(log),
        chosen=_chosen(log),
    )


def _found(
    log: str, words: tuple[str, ...], patterns: Mapping[str, re.Pattern[str]]
) -> Iterator[tuple[str, str, str]]:
    """Yield the matches of the patterns in lines that contain one of these words.

    Each item is the pattern's name, the line, and the text of the pattern's group.
    """
    lines = (
        line
        for line in log.splitlines()
        if len(line) >= _MIN_LINE_CHARS and any(word in line for word in words)
    )
    for line in (each[:_MAX_LINE_CHARS] for each in islice(lines, _MAX_LINES)):
        for name, pattern in patterns.items():
            if (found := pattern.search(line)) is not None:
                yield name, line, found[1]


# Whether graphs came from a cache:
#
#     Directly load the compiled graph(s) for compile range (1, 2048) from the cache, took 1.234 s
#     Directly load AOT compilation from path /tmp/.cache/vllm/torch_compile_cache/..
#     Cache the graph of compile range (1, 2048) for later use            "shape" in older versions
#     Compiling a graph for compile range (1, 2048) takes 12.34 s
#     saved AOT compiled function to /tmp/.cache/vllm/torch_compile_cache/..  the only one on CPUs

_CACHE_WORDS = (
    "Directly load ",
    "Cache the graph ",
    "Compiling a graph ",
    "save AOT ",
    "saved AOT ",
)
_CACHE_LINES: Mapping[str, re.Pattern[str]] = {
    "loaded": re.compile(
        r"(Directly load (?:the compiled graph|the cached graph|AOT compilation))"
    ),
    "compiled": re.compile(
        r"(Cache the graph |Compiling a graph |saved? AOT compiled function to )"
    ),
}


def _from_cache(log: str) -> bool | None:
    kinds = {kind for kind, _, _ in _found(log, _CACHE_WORDS, _CACHE_LINES)}
    return None if not kinds else "compiled" not in kinds


def _slowest(log: str) -> Mapping[str, float]:
    spent: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for kind, line, seconds in _found(log, _WORDS, _LINES):
        process = _PROCESS.match(line)
        spent[kind][process[1] if process is not None else ""] += float(seconds)
    return {kind: max(by_process.values()) for kind, by_process in spent.items()}


# What it chose, or fell back to; of the second line older versions write "Using Flash Attention
# backend on V1 engine.":
#
#     Chunked prefill is enabled with max_num_batched_tokens=2048.
#     Using FLASH_ATTN attention backend out of potential backends: ['FLASH_ATTN', 'FLASHINFER'].
#     Using TRITON Unquantized MoE backend out of potential backends: [..]
#     Available KV cache memory: 50.82 GiB                                    for each rank

_CHOICES: Mapping[str, re.Pattern[str]] = {
    "attention_backend": re.compile(
        r"\bUsing ([A-Za-z][A-Za-z0-9_ ]{1,40}?) (?:attention backend out of|backend on V1 engine)"
    ),
    "moe_backend": re.compile(
        r"\bUsing '?([A-Za-z][A-Za-z0-9_ ']{1,60}) MoE backend\b"
    ),
    "max_num_batched_tokens": re.compile(
        r"Chunked prefill is enabled with max_num_batched_tokens=([0-9]{1,9})\."
    ),
    "available_kv_cache_gib": re.compile(
        r"Available KV cache memory: ([0-9]{1,6}(?:\.[0-9]{1,6})?) GiB"
    ),
}
_CHOICE_WORDS = ("Using ", "Chunked prefill is ", "Available KV ")
_MAX_CHOICE_CHARS = 100
# The whole configuration, in one line of some 4,000 characters, of which the first half is read:
#
#     Initializing a V1 LLM engine (v0.32.0) with config: model='..', speculative_config=None, ...,
#         dtype=torch.bfloat16, max_seq_len=2048, ..., quantization=None, ...
_CONFIG_BEGINS = "Initializing a V1 LLM engine "
_MAX_CONFIG_CHARS = 3000
_MAX_CONFIGS = 8  # One of each engine process; they are equal.
_CONFIG_NAMES = {
    "dtype": "dtype",
    "max_seq_len": "max_model_len",
    "tensor_parallel_size": "tensor_parallel_size",
    "pipeline_parallel_size": "pipeline_parallel_size",
    "data_parallel_size": "data_parallel_size",
    "quantization": "quantization",
    "enforce_eager": "enforce_eager",
    "kv_cache_dtype": "cache_dtype",
    "enable_prefix_caching": "enable_prefix_caching",
    "enable_chunked_prefill": "enable_chunked_prefill",
    "chunked_prefill_enabled": "enable_chunked_prefill",  # in older versions
    "speculative_config": "speculative_config",
}
"""Name in that line -> name of the setting, which is that of its label where it has one."""
_CONFIG_VALUE = re.compile(
    rf", ({'|'.join(_CONFIG_NAMES)})=(?:torch\.)?"
    r"(SpeculativeConfig\([^()]{0,200}\)|[A-Za-z0-9_.-]{1,40})(?=, |\s|$)"
)
_SPECULATION = re.compile(
    r"SpeculativeConfig\(method='([^']{1,40})', (?:model='([^']{1,160})', )?"
    r".{0,200}?num_spec_tokens=([0-9]{1,4})\)"
)


def _configured(log: str) -> Iterator[tuple[str, str]]:
    """Yield the settings of the line that has the whole configuration, by name."""
    begin = 0
    for _ in range(_MAX_CONFIGS):
        if (begin := log.find(_CONFIG_BEGINS, begin)) < 0:
            return
        text = log[begin : begin + _MAX_CONFIG_CHARS].partition("\n")[0]
        begin += len(_CONFIG_BEGINS)
        for name, value in _CONFIG_VALUE.findall(text):
            yield _CONFIG_NAMES[name], _speculation(value, text)


def _speculation(value: str, config: str) -> str:
    """Return how tokens are guessed, in words; any other value as it is.

    The model that guesses is named unless it is the one that is served.
    """
    if (guessed := _SPECULATION.match(value)) is None:
        return value
    method, model, tokens = guessed.groups()
    is_own = model is None or f" config: model='{model}'," in config
    return f"{method}{'' if is_own else f' of {model}'}, {tokens} tokens"


def _chosen(log: str) -> dict[str, str]:
    found: dict[str, set[str]] = defaultdict(set)
    for setting, value in _configured(log):
        found[setting].add(value)
    for setting, _, choice in _found(log, _CHOICE_WORDS, _CHOICES):
        found[setting].add(choice)
    return {
        setting: ", ".join(sorted(choices))[:_MAX_CHOICE_CHARS]
        for setting, choices in found.items()
    }


def _less(whole: float, part: float | None) -> float:
    return round(max(0.0, whole - (part or 0.0)), 6)


# Kernels compiled while serving:
#
#     2026-11-21T12:00:00.123456789Z (EngineCore_0 pid=7) WARNING ... Triton kernel JIT
#         compilation during inference: f. ...                                in one line
#
# Each stands for a pause in that instant's answers: the warm-up did not cover that tensor shape. By
# default vLLM writes it once a kernel.


def compilations(log: str) -> tuple[float, ...]:
    instants = (
        _instant(line)
        for line in log.splitlines()
        if "JIT compilation during inference" in line
    )
    return tuple(sorted(instant for instant in instants if instant is not None))


def _instant(line: str) -> float | None:
    try:
        parsed = datetime.fromisoformat(line.partition(" ")[0])
        return parsed.timestamp() if parsed.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
