"""The arguments of `vllm serve`, and the settings that follow; amounts as people write them: 32k
tokens, 48GiB of memory."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from benchrun_client.engines import ENGINE

from benchrun.sizing.cache_layers import ModelShape

KIB = 2**10
MIB = 2**20
GIB = 2**30
TIB = 2**40
_Value = TypeVar("_Value", int, float)
_TOKENS = re.compile(r"(\d+(?:\.\d+)?)([kKmMgGtT]?)")
_POWER = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(iB|i|B)?", re.IGNORECASE)


def tokens_of(text: str) -> int:
    """A whole number as vLLM reads it: 8k is 8000, 8K is 8192, 25.6k is 25600. Raises
    ValueError."""
    if (found := _TOKENS.fullmatch(text.strip())) is None:
        raise ValueError(f"{text!r} is not a whole number; write 8192, 8k (8000) or 8K (8192)")
    digits, suffix = found.groups()
    if "." in digits and (suffix.isupper() or not suffix):
        raise ValueError(f"{text!r} is not a whole number; decimals go with k, m, g or t only")
    base = 1024 if suffix.isupper() else 1000
    return int(
        min(float(digits) * base ** _POWER[suffix.lower()], 2**63)
    )  # More than any machine has.


def bytes_of(text: str) -> int:
    """Memory: 48GiB or 48Gi are 1024-based, 48GB is 1000-based, a bare number is bytes. Raises
    ValueError."""
    if (found := _MEMORY.fullmatch(text.strip())) is None:
        raise ValueError(f"{text!r} is not an amount of memory; write for example 48GiB")
    digits, prefix, unit = found.groups()
    base = 1024 if (unit or "").lower() in ("i", "ib") else 1000
    return int(min(float(digits) * base ** _POWER[prefix.lower()], 2**63))


def share_of(text: str) -> float:
    """A number above 0 and at most 1. Raises ValueError."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is not above 0 and at most 1")
    return share


def memory(amount: float) -> str:
    """An amount in the largest binary unit that leaves a number above 1: "32 GiB", "17.6 GiB", "640
    B"."""
    for unit, size in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(amount) >= size:
            text = f"{amount / size:.4g}"
            return f"{float(text):,.0f} {unit}" if "e" in text else f"{text} {unit}"
    return f"{amount:.0f} B"


class UnreadableValue(ValueError):
    """A flag's value is not what that flag takes; the text names both."""


@dataclass(frozen=True, slots=True)
class ServeArgs:
    """What was given, by the flag's long name without dashes; None is a flag without a value. The
    last of several holds."""

    given: Mapping[str, str | None]

    @classmethod
    def of(cls, arguments: Iterable[str]) -> Self:
        """From a command line. Words that belong to no flag are passed over."""
        given: dict[str, str | None] = {}
        last: str | None = None
        for word in arguments:
            name, equals, value = word.partition("=")
            if is_flag(word):
                last = _long_name(name)
                # Taken out first: of a flag and its opposite the one that is last in here holds.
                given.pop(last, None)
                given[last] = value if equals else None
            elif last is not None and given[last] is None:
                given[last] = word
        return cls(given)

    def is_given(self, name: str) -> bool:
        """Whether a flag was given, whole or by parts (--name.key)."""
        return any(given.partition(".")[0] == name for given in self.given)

    def text(self, name: str) -> str | None:
        """The value of a flag; None where it was not given, or without a value."""
        return self.given.get(name)

    def whole(self, name: str) -> int | None:
        """A whole number above 0, with vLLM's suffixes; None where the flag was not given. Raises
        UnreadableValue."""
        if (number := self.value(name, tokens_of)) is not None and number < 1:
            raise UnreadableValue(f"--{name}: {self.text(name)} is not above 0")
        return number

    def value(self, name: str, read: Callable[[str], _Value]) -> _Value | None:
        """What `read` makes of its text; None where the flag was not given. Raises
        UnreadableValue."""
        text = self.text(name)
        try:
            return None if text is None else read(text)
        except ValueError as error:
            raise UnreadableValue(f"--{name}: {error}") from error

    def switched(self, name: str, *, default: bool) -> bool:
        """A flag that is `--name` or `--no-name`, the last of both."""
        found = [each for each in self.given if each in (name, f"no-{name}")]
        return found[-1] == name if found else default


READ = (
    "async-scheduling",
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
)
"""Flags whose values decide on something here. argparse takes the beginning of a name for the name
where no other begins so; a flag of vLLM's that is not read begins none of these."""


SHORTEST_BEGINNING = 4


def _long_name(word: str) -> str:
    """Without dashes, and whole: of other spellings, underscores and beginnings."""
    if word in ENGINE.short_flags:
        return ENGINE.short_flags[word]
    name, dot, rest = word.lstrip("-").partition(".")
    name = name.replace("_", "-")
    known = ENGINE.short_flags.get(f"--{name}")
    is_off = name.startswith("no-")
    begins = [each for each in READ if each.startswith(name.removeprefix("no-"))]
    if len(name) < SHORTEST_BEGINNING:  # So short it is that of several flags of vLLM's.
        begins = []
    if known is None and word.startswith("--") and len(begins) == 1:
        known = f"no-{begins[0]}" if is_off else begins[0]
    return (known or name) + dot + rest.replace("_", "-")


def is_flag(word: str) -> bool:
    """Whether a word begins a flag: `--x` or `-x`, but not a negative number."""
    return word.startswith("-") and len(word) > 1 and not word[1].isdigit() and word[1] != "."


# Settings of a server that decide on memory and context: from its arguments, else vLLM's defaults.

DEFAULT_UTILIZATION = 0.92  # Of vLLM 0.32. Older versions took 0.9.
DEFAULT_BLOCK_TOKENS = (
    16  # On GPUs; some attention backends take 32, 64 or 128, which changes the rounding only.
)
ASSUMED_DTYPE = (
    "bfloat16"  # Models stored in float32, or without a word about it, are computed in this.
)
_UNSIZED = (
    "decode-context-parallel-size",
    "disable-sliding-window",
    "enable-lora",
    "hf-config-path",
    "hf-overrides",
    "kv-cache-dtype-skip-layers",
    "kv-transfer-config",
    "prefill-context-parallel-size",
    "speculative-config",
)
"""Flags that change the cache in ways that are not counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """One engine. With data parallelism there are several, each with GPUs and a cache of its
    own."""

    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    block_tokens: int
    cache_dtype: str
    utilization: float
    max_tokens: int | None
    """Longest sequence: --max-model-len, else what the model is made for; None: neither is
    known."""
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
    pipeline = args.whole("pipeline-parallel-size") or 1
    return Engine(
        tensor_parallel=args.whole("tensor-parallel-size") or 1,
        pipeline_parallel=pipeline,
        data_parallel=args.whole("data-parallel-size") or 1,
        block_tokens=args.whole("block-size") or DEFAULT_BLOCK_TOKENS,
        cache_dtype=_named(args, "kv-cache-dtype")
        or shape.cache_dtype
        or compute_dtype(args, shape),
        utilization=args.value("gpu-memory-utilization", share_of) or DEFAULT_UTILIZATION,
        max_tokens=max_model_tokens(args) or shape.default_tokens or shape.context_tokens,
        sequences=args.whole("max-num-seqs"),
        step_tokens=args.whole("max-num-batched-tokens") or default_step_tokens(gpu_bytes),
        steps_in_flight=pipeline + args.switched("async-scheduling", default=True),
        cache_bytes=args.value("kv-cache-memory-bytes", bytes_of),
        blocks=args.whole("num-gpu-blocks-override"),
        drops_beyond_window=not args.switched("disable-hybrid-kv-cache-manager", default=False),
        caveats=tuple(f"--{name} is not counted" for name in _UNSIZED if args.is_given(name)),
    )


def max_model_tokens(args: ServeArgs) -> int | None:
    """--max-model-len; None where it is not given, or left to vLLM (-1, auto). Raises
    UnreadableValue."""
    is_left = (args.text("max-model-len") or "").strip().lower() in ("-1", "auto")
    return None if is_left else args.whole("max-model-len")


def default_step_tokens(gpu_bytes: int | None) -> int:
    """vLLM's default of --max-num-batched-tokens for a server: by the memory of the GPU."""
    gpu_gib = (gpu_bytes or 0) / GIB
    return 16_384 if gpu_gib >= 160 else 8192 if gpu_gib >= 70 else 2048


def compute_dtype(args: ServeArgs, shape: ModelShape) -> str:
    """The type that the model computes in, and by default keeps its cache in."""
    return _named(args, "dtype") or (
        shape.dtype if shape.dtype in ("bfloat16", "float16") else ASSUMED_DTYPE
    )


def _named(args: ServeArgs, flag: str) -> str | None:
    """None where it is not given, or left to vLLM (auto)."""
    return args.text(flag) if args.text(flag) not in ("auto", "") else None


# vLLM's variable for sequences longer than the model is made for.
ALLOW_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def beyond_context(
    args: ServeArgs, shape: ModelShape, *, is_allowed: bool
) -> tuple[bool, str] | None:
    """Of a --max-model-len above the model's own limit: whether vLLM accepts it, by its variable or
    because the model's configuration is overridden, and a sentence. None: within the limit, or not
    known. `is_allowed`: whether ALLOW_LONGER is set. Raises UnreadableValue."""
    longest = max_model_tokens(args)
    made_for = shape.context_tokens
    if longest is None or made_for is None or longest <= made_for:
        return None
    limits = f"--max-model-len {longest:,}, but the model is made for {made_for:,} tokens"
    if is_allowed or args.is_given("hf-overrides"):
        return True, f"{limits}: output beyond that may be noise"
    remedy = (
        "lower it, give --hf-overrides with max_position_embeddings and the RoPE scaling that is "
        f"meant, or set {ALLOW_LONGER}=1"
    )
    return False, f"{limits}: vLLM will not start; {remedy}"
