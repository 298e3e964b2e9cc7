"""The arguments of a server, and the settings of vLLM's engine that follow from them.

Also reads amounts as people write them: 32k tokens, 48GiB of memory.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Self, TypeVar

from benchrun_client.engines import Engine, EngineName, EngineSetting

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
    """Parse a whole number as vLLM does: 8k is 8000, 8K is 8192, 25.6k is 25600.

    Amounts above 2**63 become 2**63. Raises ValueError for any other text.
    """
    if (found := _TOKENS.fullmatch(text.strip())) is None:
        raise ValueError(
            f"{text!r} is not a whole number; write 8192, 8k (8000) or 8K (8192)"
        )
    digits, suffix = found.groups()
    if "." in digits and (suffix.isupper() or not suffix):
        raise ValueError(
            f"{text!r} is not a whole number; decimals go with k, m, g or t only"
        )
    base = 1024 if suffix.isupper() else 1000
    # 2**63 is more than any machine has.
    return int(min(float(digits) * base ** _POWER[suffix.lower()], 2**63))


def bytes_of(text: str) -> int:
    """Parse an amount of memory into bytes.

    48GiB and 48Gi are 1024-based, 48GB is 1000-based, a bare number is bytes. Amounts above 2**63
    become 2**63. Raises ValueError for any other text.
    """
    if (found := _MEMORY.fullmatch(text.strip())) is None:
        raise ValueError(
            f"{text!r} is not an amount of memory; write for example 48GiB"
        )
    digits, prefix, unit = found.groups()
    base = 1024 if (unit or "").lower() in ("i", "ib") else 1000
    return int(min(float(digits) * base ** _POWER[prefix.lower()], 2**63))


def share_of(text: str) -> float:
    """Parse a number above 0 and at most 1. Raises ValueError for any other text."""
    try:
        share = float(text)
    except ValueError:
        share = 0.0
    if not 0 < share <= 1:
        raise ValueError(f"{text!r} is not above 0 and at most 1")
    return share


def memory(amount: float) -> str:
    """Format bytes in the largest binary unit that gives at least 1: "32 GiB", "640 B"."""
    for unit, size in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(amount) >= size:
            text = f"{amount / size:.4g}"
            return f"{float(text):,.0f} {unit}" if "e" in text else f"{text} {unit}"
    return f"{amount:.0f} B"


class UnreadableValue(ValueError):
    """A flag has a value that it does not accept; the text names both."""


Which = EngineSetting | str
"""Either a setting, for which each engine has its own flag, or a flag's long name, undashed."""


@dataclass(frozen=True, slots=True)
class ServeArgs:
    """The arguments that a server was given, by the flag's long name without dashes.

    A flag without a value has None. If a flag is given several times, the last one counts. A
    setting for which the engine has no flag counts as not given.
    """

    engine: Engine
    given: Mapping[str, str | None]

    @classmethod
    def of(cls, arguments: Iterable[str], engine: Engine) -> Self:
        """Parse a command line. Words that belong to no flag are skipped."""
        given: dict[str, str | None] = {}
        last: str | None = None
        for word in arguments:
            name, equals, value = word.partition("=")
            if is_flag(word):
                last = _long_name(name, engine)
                # Removed first to come last: of a flag and its opposite the later entry holds.
                given.pop(last, None)
                given[last] = value if equals else None
            elif last is not None and given[last] is None:
                given[last] = word
        return cls(engine, given)

    def flag(self, which: Which) -> str | None:
        """Return the long name of a flag, without dashes; None if the engine has none."""
        return (
            self.engine.setting_flags.get(which)
            if isinstance(which, EngineSetting)
            else which
        )

    def is_given(self, which: Which) -> bool:
        """Return whether a flag was given, whole or by parts (--name.key)."""
        name = self.flag(which)
        return any(given.partition(".")[0] == name for given in self.given)

    def text(self, which: Which) -> str | None:
        """Return the value of a flag; None if it was not given, or has no value."""
        name = self.flag(which)
        return None if name is None else self.given.get(name)

    def whole(self, which: Which) -> int | None:
        """Return a whole number above 0, with vLLM's suffixes; None if the flag was not given.

        A setting that the engine computes from several flags is what follows from these. Raises
        UnreadableValue.
        """
        if (
            isinstance(which, EngineSetting)
            and which in self.engine.computed_settings
        ):
            return self._computed(which)
        if (number := self.value(which, tokens_of)) is not None and number < 1:
            raise UnreadableValue(
                f"--{self.flag(which)}: {self.text(which)} is not above 0"
            )
        return number

    def _computed(self, setting: EngineSetting) -> int | None:
        try:
            return self.engine.computed_settings[setting](self.given)
        except ValueError as error:
            raise UnreadableValue(f"--{self.flag(setting)}: {error}") from error

    def value(self, which: Which, read: Callable[[str], _Value]) -> _Value | None:
        """Return what `read` makes of a flag's text; None if the flag was not given.

        Raises UnreadableValue.
        """
        text = self.text(which)
        try:
            return None if text is None else read(text)
        except ValueError as error:
            raise UnreadableValue(f"--{self.flag(which)}: {error}") from error

    def switched(self, which: Which, *, default: bool) -> bool:
        """Return whether a switch is on by the last flag that sets it; `default` without one."""
        turns = self._turns(which)
        found = [turns[each] for each in self.given if each in turns]
        return found[-1] if found else default

    def is_switched(self, which: Which) -> bool:
        """Return whether a switch was turned on or off."""
        return not self._turns(which).keys().isdisjoint(self.given)

    def _turns(self, which: Which) -> Mapping[str, bool]:
        """Return the flags that set a switch, and whether each turns it on."""
        name = self.flag(which)
        turns = {} if name is None else {name: True, f"no-{name}": False}
        verb, between, rest = (name or "").partition(self.engine.flag_separator)
        if rest and verb in _OPPOSITES:  # vLLM 0.33 and later.
            turns[f"{_OPPOSITES[verb]}{between}{rest}"] = False
        off = (
            self.engine.flags_off.get(which)
            if isinstance(which, EngineSetting)
            else None
        )
        return turns if off is None else {**turns, off: False}


_OPPOSITES = {"enable": "disable", "disable": "enable"}
SHORTEST_BEGINNING = 4


def _long_name(word: str, engine: Engine) -> str:
    """Return the long name of a flag without dashes, from any other spelling.

    Accepts short flags, underscores for dashes or the reverse, and beginnings of names.
    """
    if word in engine.flag_spellings:
        return engine.flag_spellings[word]
    name, dot, rest = word.lstrip("-").partition(".")
    between = engine.flag_separator
    name = name.replace("-" if between == "_" else "_", between)
    known = engine.flag_spellings.get(f"--{name}")
    off = f"no{between}"
    is_off = name.startswith(off)
    begins = [
        e for e in engine.readable_flags if e.startswith(name.removeprefix(off))
    ]
    if len(name) < SHORTEST_BEGINNING:  # So short a beginning fits several flags.
        begins = []
    if known is None and word.startswith("--") and len(begins) == 1:
        known = off + begins[0] if is_off else begins[0]
    return (known or name) + dot + rest.replace("_", "-")


def is_flag(word: str) -> bool:
    """Return whether a word begins a flag: `--x` or `-x`, but not a negative number."""
    return (
        word.startswith("-")
        and len(word) > 1
        and not word[1].isdigit()
        and word[1] != "."
    )


# Settings of a server that decide on memory and context, from its arguments or vLLM's defaults.

SIZED: EngineName = "VLLM"
"""The only engine whose KV cache is computed and whose demands are known."""
DEFAULT_UTILIZATION = 0.92  # Default of vLLM 0.32. Older versions had 0.9.
# On GPUs; some attention backends take 32, 64 or 128, which changes the rounding only.
DEFAULT_BLOCK_TOKENS = 16
# Models that are stored in float32, or whose config.json names no type, are computed in this type.
ASSUMED_DTYPE = "bfloat16"
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
"""Flags that change the cache in ways that the size does not include."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SizedEngine:
    """One engine process of vLLM.

    With data parallelism there are several, each with its own GPUs and cache.
    """

    tensor_parallel: int
    pipeline_parallel: int
    data_parallel: int
    block_tokens: int
    cache_dtype: str
    utilization: float
    max_tokens: int | None
    """Longest sequence in tokens: --max-model-len, else the model's own limit; None if neither is
    known."""
    sequences: int | None  # Value of --max-num-seqs, if given.
    step_tokens: int  # Most tokens of one step (--max-num-batched-tokens).
    steps_in_flight: int
    cache_bytes: int | None  # Value of --kv-cache-memory-bytes, on each GPU.
    blocks: int | None  # Value of --num-gpu-blocks-override.
    drops_beyond_window: (
        bool  # Whether layers with a window free what is before it.
    )
    caveats: tuple[str, ...] = ()

    @property
    def gpus(self) -> int:
        return self.tensor_parallel * self.pipeline_parallel


def engine_of(
    args: ServeArgs, shape: ModelShape, *, gpu_bytes: int | None = None
) -> SizedEngine:
    """Build the engine settings from the arguments of `vllm serve`. Raises UnreadableValue.

    One of vLLM's defaults depends on `gpu_bytes`, the memory of a GPU.
    """
    pipeline = args.whole("pipeline-parallel-size") or 1
    return SizedEngine(
        tensor_parallel=args.whole("tensor-parallel-size") or 1,
        pipeline_parallel=pipeline,
        data_parallel=args.whole("data-parallel-size") or 1,
        block_tokens=args.whole("block-size") or DEFAULT_BLOCK_TOKENS,
        cache_dtype=_named(args, "kv-cache-dtype")
        or shape.cache_dtype
        or compute_dtype(args, shape),
        utilization=args.value("gpu-memory-utilization", share_of)
        or DEFAULT_UTILIZATION,
        max_tokens=max_model_tokens(args)
        or shape.default_tokens
        or shape.context_tokens,
        sequences=args.whole("max-num-seqs"),
        step_tokens=args.whole("max-num-batched-tokens")
        or default_step_tokens(gpu_bytes),
        steps_in_flight=pipeline + args.switched("async-scheduling", default=True),
        cache_bytes=args.value("kv-cache-memory-bytes", bytes_of),
        blocks=args.whole("num-gpu-blocks-override"),
        drops_beyond_window=not args.switched(
            "disable-hybrid-kv-cache-manager", default=False
        ),
        caveats=tuple(
            f"--{name} changes the cache, but is not counted"
            for name in _UNSIZED
            if args.is_given(name)
        ),
    )


def max_model_tokens(args: ServeArgs) -> int | None:
    """Return --max-model-len in tokens; None if not given, or left to vLLM (-1, auto).

    Raises UnreadableValue.
    """
    is_left = (args.text("max-model-len") or "").strip().lower() in ("-1", "auto")
    return None if is_left else args.whole("max-model-len")


def default_step_tokens(gpu_bytes: int | None) -> int:
    """Return vLLM's default of --max-num-batched-tokens for a server, by a GPU's memory in bytes.

    An unknown memory (None) counts as small.
    """
    gpu_gib = (gpu_bytes or 0) / GIB
    return 16_384 if gpu_gib >= 160 else 8192 if gpu_gib >= 70 else 2048


def compute_dtype(args: ServeArgs, shape: ModelShape) -> str:
    """Return the type that the model computes in, by default also the type of its cache."""
    return _named(args, "dtype") or (
        shape.dtype if shape.dtype in ("bfloat16", "float16") else ASSUMED_DTYPE
    )


def _named(args: ServeArgs, flag: str) -> str | None:
    """Return the value of a flag; None if not given, or left to vLLM (auto)."""
    return args.text(flag) if args.text(flag) not in ("auto", "") else None


# vLLM's variable for sequences longer than the model is made for.
ALLOW_LONGER = "VLLM_ALLOW_LONG_MAX_MODEL_LEN"


def beyond_context(
    args: ServeArgs, shape: ModelShape, *, is_allowed: bool
) -> tuple[bool, str] | None:
    """Judge a --max-model-len above the model's own limit. Raises UnreadableValue.

    Returns whether vLLM accepts it, and a sentence about it. vLLM accepts it if ALLOW_LONGER is set
    (`is_allowed`) or the model's configuration is overridden. Returns None if the length is within
    the limit, or either is not known.
    """
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
