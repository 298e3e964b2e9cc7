"""What a vLLM server is told about its memory and context, by its arguments or vLLM's defaults; and how large the weights are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from benchrun.sizing.layers import ModelShape
from benchrun.sizing.serve_args import GIB, ServeArgs, UnreadableValue, bytes_of

DEFAULT_UTILIZATION = 0.92
"""Of vLLM 0.32. Older versions took 0.9."""
DEFAULT_BLOCK_TOKENS = 16
"""On GPUs; some attention backends take 32, 64 or 128, which changes the rounding only."""
ASSUMED_DTYPE = "bfloat16"
"""Models stored in float32, or without a word about it, are computed in this."""
_UNSIZED = (
    "decode-context-parallel-size",
    "prefill-context-parallel-size",
    "speculative-config",
    "kv-transfer-config",
    "hf-overrides",
)
"""Flags that change the cache in ways that are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine. With data parallelism there are several, each with GPUs and a cache of its own."""

    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    block_tokens: int
    cache_dtype: str
    utilization: float
    max_tokens: int | None
    """Longest sequence: --max-model-len, else what the model is made for; None: neither is known."""
    sequences: int | None
    """--max-num-seqs, where it is given."""
    step_tokens: int
    """Most tokens of one step (--max-num-batched-tokens)."""
    steps_in_flight: int
    cache_bytes: int | None
    """--kv-cache-memory-bytes, a GPU."""
    blocks: int | None
    """--num-gpu-blocks-override."""
    drops_beyond_window: bool
    """Whether layers with a window give back what lies before it."""
    caveats: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        """Of one engine."""
        return self.tensor_parallel * self.pipeline_parallel


def engine_of(args: ServeArgs, shape: ModelShape, *, gpu_bytes: int | None = None) -> Engine:
    """From the arguments of `vllm serve`. Raises UnreadableValue."""
    pipeline = args.whole("pipeline-parallel-size", 1)
    asynchronous = args.switched("async-scheduling", default=True)
    return Engine(
        tensor_parallel=args.whole("tensor-parallel-size", 1),
        pipeline_parallel=pipeline,
        data_parallel=args.whole("data-parallel-size", 1),
        block_tokens=args.whole("block-size", DEFAULT_BLOCK_TOKENS),
        cache_dtype=_cache_dtype(args, shape),
        utilization=args.share("gpu-memory-utilization", DEFAULT_UTILIZATION),
        max_tokens=max_model_tokens(args) or shape.context_tokens,
        sequences=args.whole_if_given("max-num-seqs"),
        step_tokens=args.whole("max-num-batched-tokens", default_step_tokens(gpu_bytes)),
        steps_in_flight=pipeline + asynchronous,
        cache_bytes=_memory(args, "kv-cache-memory-bytes"),
        blocks=args.whole_if_given("num-gpu-blocks-override"),
        drops_beyond_window=not args.switched("disable-hybrid-kv-cache-manager", default=False),
        caveats=tuple(f"--{name} is not counted" for name in _UNSIZED if args.is_given(name)),
    )


def max_model_tokens(args: ServeArgs) -> int | None:
    """--max-model-len; None where it is not given, or left to vLLM (-1, auto). Raises UnreadableValue."""
    said = args.text("max-model-len")
    return None if said is None or said.strip().lower() in ("-1", "auto") else args.whole_if_given("max-model-len")


def default_step_tokens(gpu_bytes: int | None) -> int:
    """vLLM's default of --max-num-batched-tokens for a server: by the memory of the GPU."""
    gpu_gib = (gpu_bytes or 0) / GIB
    return 16_384 if gpu_gib >= 160 else 8192 if gpu_gib >= 70 else 2048


def compute_dtype(args: ServeArgs, shape: ModelShape) -> str:
    """The type that the model computes in, and keeps its cache in unless told otherwise."""
    asked = args.text("dtype") or "auto"
    if asked != "auto":
        return asked
    return shape.dtype if shape.dtype in ("bfloat16", "float16") else ASSUMED_DTYPE


def _cache_dtype(args: ServeArgs, shape: ModelShape) -> str:
    asked = args.text("kv-cache-dtype") or "auto"
    if asked != "auto":
        return asked
    return shape.cache_dtype or compute_dtype(args, shape)


def _memory(args: ServeArgs, name: str) -> int | None:
    text = args.text(name)
    if text is None:
        return None
    try:
        return bytes_of(text)
    except ValueError as error:
        raise UnreadableValue(f"--{name}: {error}") from error


# ---- context ----------------------------------------------------------------------------------------------------------
# Sequences longer than the model is made for: vLLM refuses to start with them, unless it is told that they are meant.

ALLOW_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"
"""vLLM's variable for sequences longer than the model is made for."""


@dataclass(frozen=True, slots=True)
class BeyondContext:
    """A --max-model-len above the model's own limit."""

    is_meant: bool
    """Whether vLLM was told so: by its variable, or by overriding the model's configuration."""
    sentence: str


def beyond_context(args: ServeArgs, shape: ModelShape, *, is_allowed: bool) -> BeyondContext | None:
    """What is said of a limit beyond the model's; None: it is within, or one of both is not known. `is_allowed`: whether the
    variable ALLOW_LONGER is set. Raises UnreadableValue."""
    longest, made_for = max_model_tokens(args), shape.context_tokens
    if longest is None or made_for is None or longest <= made_for:
        return None
    said = f"--max-model-len {longest:,}, but the model is made for {made_for:,} tokens"
    if is_allowed or args.is_given("hf-overrides"):
        return BeyondContext(True, f"{said}: what is asked for beyond may come out as noise")
    remedy = f"lower it, give --hf-overrides with the RoPE scaling that is meant, or set {ALLOW_LONGER}=1"
    return BeyondContext(False, f"{said}: vLLM will not start; {remedy}")


# ---- weights ----------------------------------------------------------------------------------------------------------
# How large a model's weights are, from what safetensors files say about themselves.


class NotWeights(ValueError):
    """It does not have the form of a safetensors index or header."""


def bytes_by_index(index: Mapping[str, Any]) -> int:
    """From `model.safetensors.index.json`. Raises NotWeights."""
    metadata = index.get("metadata")
    total = metadata.get("total_size") if isinstance(metadata, Mapping) else None
    if isinstance(total, bool) or not isinstance(total, int | float) or not 0 < total < math.inf:
        raise NotWeights("the index of the weights does not say metadata.total_size")
    return int(total)


def bytes_by_header(header: Mapping[str, Any]) -> int:
    """From the header of one safetensors file: where its tensors end. Raises NotWeights."""
    ends = list(_ends(header))
    if not ends:
        raise NotWeights("the header of the weights names no tensors")
    return max(ends)


def _ends(header: Mapping[str, Any]) -> Iterator[int]:
    for name, tensor in header.items():
        if name == "__metadata__":
            continue
        offsets = tensor.get("data_offsets") if isinstance(tensor, Mapping) else None
        if not isinstance(offsets, list) or len(offsets) != 2 or not all(isinstance(each, int) for each in offsets):
            raise NotWeights(f"the header of the weights does not say where tensor {name} begins and ends")
        yield offsets[1]
