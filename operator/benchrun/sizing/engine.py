"""What a vLLM server is told about its memory: by its arguments, else by vLLM's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.sizing.amounts import GIB, bytes_of
from benchrun.sizing.layers import ModelShape
from benchrun.sizing.serve_args import ServeArgs, UnreadableValue

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
