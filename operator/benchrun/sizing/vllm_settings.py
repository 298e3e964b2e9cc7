"""Settings of a vLLM server that decide on memory and context, from its arguments or vLLM's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from benchrun.sizing.cache_layers import ModelShape
from benchrun.sizing.serve_args import GIB, ServeArgs

DEFAULT_UTILIZATION = 0.92  # Of vLLM 0.32. Older versions took 0.9.
DEFAULT_BLOCK_TOKENS = 16  # On GPUs; some attention backends take 32, 64 or 128, which changes the rounding only.
ASSUMED_DTYPE = "bfloat16"  # Models stored in float32, or without a word about it, are computed in this.
_UNSIZED = (
    "decode-context-parallel-size", "prefill-context-parallel-size", "speculative-config", "kv-transfer-config",
    "hf-overrides",
)  # fmt: skip
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
    sequences: int | None  # --max-num-seqs, where it is given.
    step_tokens: int  # Most tokens of one step (--max-num-batched-tokens).
    steps_in_flight: int
    cache_bytes: int | None  # --kv-cache-memory-bytes, a GPU.
    blocks: int | None  # --num-gpu-blocks-override.
    drops_beyond_window: bool  # Whether layers with a window give back what lies before it.
    caveats: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


def engine_of(args: ServeArgs, shape: ModelShape, *, gpu_bytes: int | None = None) -> Engine:
    """From the arguments of `vllm serve`. Raises UnreadableValue."""
    pipeline = args.whole("pipeline-parallel-size", 1)
    return Engine(
        tensor_parallel=args.whole("tensor-parallel-size", 1),
        pipeline_parallel=pipeline,
        data_parallel=args.whole("data-parallel-size", 1),
        block_tokens=args.whole("block-size", DEFAULT_BLOCK_TOKENS),
        cache_dtype=_named(args, "kv-cache-dtype") or shape.cache_dtype or compute_dtype(args, shape),
        utilization=args.share("gpu-memory-utilization", DEFAULT_UTILIZATION),
        max_tokens=max_model_tokens(args) or shape.context_tokens,
        sequences=args.whole_if_given("max-num-seqs"),
        step_tokens=args.whole("max-num-batched-tokens", default_step_tokens(gpu_bytes)),
        steps_in_flight=pipeline + args.switched("async-scheduling", default=True),
        cache_bytes=args.memory("kv-cache-memory-bytes"),
        blocks=args.whole_if_given("num-gpu-blocks-override"),
        drops_beyond_window=not args.switched("disable-hybrid-kv-cache-manager", default=False),
        caveats=tuple(f"--{name} is not counted" for name in _UNSIZED if args.is_given(name)),
    )


def max_model_tokens(args: ServeArgs) -> int | None:
    """--max-model-len; None where it is not given, or left to vLLM (-1, auto). Raises UnreadableValue."""
    is_left = (args.text("max-model-len") or "").strip().lower() in ("-1", "auto")
    return None if is_left else args.whole_if_given("max-model-len")


def default_step_tokens(gpu_bytes: int | None) -> int:
    """vLLM's default of --max-num-batched-tokens for a server: by the memory of the GPU."""
    gpu_gib = (gpu_bytes or 0) / GIB
    return 16_384 if gpu_gib >= 160 else 8192 if gpu_gib >= 70 else 2048


def compute_dtype(args: ServeArgs, shape: ModelShape) -> str:
    """The type that the model computes in, and by default keeps its cache in."""
    return _named(args, "dtype") or (shape.dtype if shape.dtype in ("bfloat16", "float16") else ASSUMED_DTYPE)


def _named(args: ServeArgs, flag: str) -> str | None:
    """None where it is not given, or left to vLLM (auto)."""
    return args.text(flag) if args.text(flag) not in ("auto", "") else None


ALLOW_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"  # vLLM's variable for sequences longer than the model is made for.


@dataclass(frozen=True, slots=True)
class BeyondContext:
    """A --max-model-len above the model's own limit."""

    is_meant: bool  # Whether vLLM accepts it: by its variable, or because the model's configuration is overridden.
    sentence: str


def beyond_context(args: ServeArgs, shape: ModelShape, *, is_allowed: bool) -> BeyondContext | None:
    """None where the limit is within the model's, or one of both is not known. `is_allowed`: whether the variable
    ALLOW_LONGER is set. Raises UnreadableValue."""
    longest, made_for = max_model_tokens(args), shape.context_tokens
    if longest is None or made_for is None or longest <= made_for:
        return None
    limits = f"--max-model-len {longest:,}, but the model is made for {made_for:,} tokens"
    if is_allowed or args.is_given("hf-overrides"):
        return BeyondContext(True, f"{limits}: output beyond that may be noise")
    remedy = f"lower it, give --hf-overrides with max_position_embeddings and the RoPE scaling that is meant, or set {ALLOW_LONGER}=1"
    return BeyondContext(False, f"{limits}: vLLM will not start; {remedy}")
