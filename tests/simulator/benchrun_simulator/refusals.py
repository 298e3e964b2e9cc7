"""Failing starts, in the words of vLLM, torch and the model hub, with vLLM's exit code.

Texts are those of vLLM 0.32.0 with the model's name and lengths filled in. Everything but usage
errors (`arguments`) ends with exit code 1; a crash of the whole process shows as a signal.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

USAGE = 2
INVALID = 1
KILLED = 137
SEGMENTATION_FAULT = 139
GIB = 2**30
AFTER_THE_CAUSE = (Path(__file__).parent / "engine_failed.txt").read_text(
    encoding="utf-8"
)
"""The API server's traceback, longer than a termination message, so that the cause is in the log
alone."""


class Refusal(Exception):
    """The server does not start: `text` goes to stderr, and the process ends with `code`."""

    def __init__(self, text: str, *, code: int = INVALID) -> None:
        super().__init__(text)
        self.text = text
        self.code = code


@dataclass(frozen=True, slots=True)
class Bound:
    """A limit of one of vLLM's configuration classes, as pydantic reports its violation."""

    config: str
    field: str
    allowed: Callable[[float], bool]
    words: str
    kind: str


BOUNDS = (
    Bound(
        "CacheConfig",
        "gpu_memory_utilization",
        lambda v: v <= 1,
        "less than or equal to 1",
        "less_than_equal",
    ),
    Bound(
        "CacheConfig",
        "gpu_memory_utilization",
        lambda v: v > 0,
        "greater than 0",
        "greater_than",
    ),
    Bound(
        "CacheConfig",
        "block_size",
        lambda v: v > 0,
        "greater than 0",
        "greater_than",
    ),
    Bound(
        "ParallelConfig",
        "tensor_parallel_size",
        lambda v: v >= 1,
        "greater than or equal to 1",
        "greater_than_equal",
    ),
    *(
        Bound(
            "SchedulerConfig",
            field,
            lambda v: v >= 1,
            "greater than or equal to 1",
            "greater_than_equal",
        )
        for field in ("max_num_seqs", "max_num_batched_tokens", "stream_interval")
    ),
    *(
        Bound(
            "SchedulerConfig",
            field,
            lambda v: v >= 0,
            "greater than or equal to 0",
            "greater_than_equal",
        )
        for field in ("max_num_queued_reqs", "max_num_queued_tokens")
    ),
)


def check_bounds(values: dict[str, float | None]) -> None:
    """Raise a `Refusal` in pydantic's words for the first of `values` outside its limit.

    None means that the value is not given.
    """
    for bound in BOUNDS:
        value = values[bound.field]
        if value is not None and not bound.allowed(value):
            kind = f"[type={bound.kind}, input_value={value}, input_type={type(value).__name__}]"
            raise Refusal(
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for "
                f"{bound.config}\n"
                f"{bound.field}\n  Input should be {bound.words} {kind}\n"
                f"    For further information visit https://errors.pydantic.dev/2.14/v/{bound.kind}"
            )


def model_folder_missing(model: str) -> Refusal:
    """Build the refusal of a path that is not a folder: it is taken for a name on the hub."""
    return Refusal(
        "huggingface_hub.errors.HFValidationError: Repo id must be in the form 'repo_name' or "
        "'namespace/repo_name': "
        f"'{model}'. Use `repo_type` argument if needed."
    )


def model_not_cached() -> Refusal:
    """Build the refusal of a name on the hub while the hub must not be asked."""
    return Refusal(
        "huggingface_hub.errors.LocalEntryNotFoundError: Cannot find an appropriate cached "
        "snapshot folder for the "
        "specified revision on the local disk and outgoing traffic has been disabled. To enable "
        "repo look-ups and "
        "downloads online, pass 'local_files_only=False' as input."
    )


def model_length_too_large(asked: int, derived: int) -> Refusal:
    """Build the refusal of a `--max-model-len` beyond what the model's config.json allows."""
    return Refusal(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
        f"  Value error, User-specified max_model_len ({asked}) is greater than the derived "
        "max_model_len "
        f"(max_position_embeddings={float(derived)} or model_max_length=None in model's "
        "config.json). To allow overriding "
        "this maximum, set the env var VLLM_ALLOW_LONG_MAX_MODEL_LEN=1. "
        "VLLM_ALLOW_LONG_MAX_MODEL_LEN must be used with "
        "extreme caution. If the model uses relative position encoding (RoPE), positions "
        "exceeding derived_max_model_len "
        "lead to nan. If the model uses absolute position encoding, positions exceeding "
        "derived_max_model_len will cause "
        "a CUDA array out-of-bounds error. [type=value_error, input_value=ArgsKwargs((), "
        "{'model': ...nderer_num_workers'"
        ": 1}), input_type=ArgsKwargs]\n"
        "    For further information visit https://errors.pydantic.dev/2.14/v/value_error"
    )


def kv_cache_too_small(
    *, max_model_len: int, kv_tokens: int, bytes_per_token: int = 128 * 1024
) -> Refusal:
    """Build the refusal of a KV cache that does not hold one request of the longest length.

    The default bytes of a token are those of an 8 B model.
    """
    return engine_failed(
        "ValueError: To serve at least one request with the model's max seq len "
        f"({max_model_len}), "
        f"({round(max_model_len * bytes_per_token / GIB, 2)} GiB KV cache is needed, which is "
        "larger than the available KV cache "
        f"memory ({round(kv_tokens * bytes_per_token / GIB, 2)} GiB). Based on the available "
        "memory, the estimated maximum model "
        f"length is {kv_tokens}. Try increasing `gpu_memory_utilization` (which also controls CPU "
        "memory on the CPU "
        "backend) or decreasing `max_model_len` when initializing the engine. "
        "See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more details."
    )


def engine_failed(cause: str) -> Refusal:
    """Build the refusal of a start in which the engine dies, and the API server after it."""
    prefix = f"(EngineCore pid=42) ERROR {time.strftime('%m-%d %H:%M:%S')} [core.py:1510]"
    return Refusal(
        f"{prefix} EngineCore failed to start.\n{prefix} {cause}\n{cause}\n{AFTER_THE_CAUSE}".rstrip()
    )


def _out_of_gpu_memory(model: str) -> Refusal:
    return engine_failed(
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.16 GiB. GPU 0 has a "
        "total capacity of "
        "79.18 GiB of which 826.69 MiB is free. Including non-PyTorch memory, this process has "
        "78.36 GiB memory in "
        "use. Of the allocated memory 77.71 GiB is allocated by PyTorch, and 12.45 MiB is "
        "reserved by PyTorch but "
        "unallocated. If reserved but unallocated memory is large try setting "
        "PYTORCH_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
        "for Memory "
        "Management  (https://docs.pytorch.org/docs/stable/notes/cuda.html#environment-variables)"
    )


def _gpu_memory_taken(model: str) -> Refusal:
    return engine_failed(
        "ValueError: Free memory on device cuda:0 (9.71/79.18 GiB) on startup is less than "
        "desired GPU memory "
        "utilization (0.92, 72.85 GiB). Decrease GPU memory utilization or reduce GPU memory used "
        "by other processes."
    )


def _no_kv_cache_memory(model: str) -> Refusal:
    return engine_failed(
        "ValueError: No available memory for the cache blocks. Try increasing "
        "`gpu_memory_utilization` when "
        "initializing the engine (this flag also controls CPU memory reservation on the CPU "
        "backend, despite its "
        "name). See https://docs.vllm.ai/en/latest/configuration/conserving_memory/ for more "
        "details."
    )


def _gated_model(model: str) -> Refusal:
    return Refusal(
        "OSError: You are trying to access a gated repo.\n"
        f"Make sure to have access to it at https://huggingface.co/{model}.\n"
        "401 Client Error. (Request ID: Root=1-0-0)\n\n"
        f"Cannot access gated repo for url https://huggingface.co/{model}/resolve/main/config.json.\n"
        f"Access to model {model} is restricted. You must have access to it and be authenticated "
        "to access it. "
        "Please log in."
    )


def _model_not_found(model: str) -> Refusal:
    return Refusal(
        f"OSError: {model} is not a local folder and is not a valid model identifier listed on "
        "'https://huggingface.co/models'\nIf this is a private repository, make sure to pass a "
        "token having permission "
        "to this repo either by logging in with `hf auth login` or by passing `token=<your_token>`"
    )


def _not_enough_gpus(model: str) -> Refusal:
    return Refusal(
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for ParallelConfig\n"
        "  Value error, World size (4) is larger than the number of available GPUs (1) in this "
        "node. If this is "
        "intentional and you are using:\n- ray, set '--distributed-executor-backend ray'.\n"
        "- multiprocessing, set '--nnodes' appropriately. [type=value_error]\n"
        "    For further information visit https://errors.pydantic.dev/2.14/v/value_error"
    )


def _crash(model: str) -> Refusal:
    return engine_failed(
        "RuntimeError: CUDA error: an illegal memory access was encountered"
    )


FAILING_STARTS: dict[str, Callable[[str], Refusal]] = {
    "oom-gpu": _out_of_gpu_memory,
    "gpu-memory-taken": _gpu_memory_taken,
    "no-kv-cache-memory": _no_kv_cache_memory,
    "kv-cache-too-small": lambda model: kv_cache_too_small(
        max_model_len=131072, kv_tokens=30512
    ),
    "gated-model": _gated_model,
    "model-not-found": _model_not_found,
    "not-enough-gpus": _not_enough_gpus,
    "crash": _crash,
    "segfault": lambda model: Refusal(
        "Segmentation fault (core dumped)", code=SEGMENTATION_FAULT
    ),
    "killed": lambda model: Refusal("Killed", code=KILLED),
}
"""By the name given to `--sim-fail-start`."""
