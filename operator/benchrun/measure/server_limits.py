"""The server's own limits on how much it does at once, as far as its arguments or its own words tell them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_NUMBER = re.compile(r"(?P<digits>\d+(?:\.\d+)?)(?P<suffix>[kKmMgG]?)")
_MULTIPLIERS: Mapping[str, int] = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
"""As vLLM reads them: 8k is 8000 tokens, 8K is 8192."""
DEFAULT_SEQUENCES_STEP = 128
"""vLLM's defaults of max-num-seqs are multiples of it: 128 on a CPU, 256 or 1024 on GPUs."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Of one server, all its engines together. None: not known; vLLM's defaults depend on version and GPU."""

    sequences: int | None = None
    """Most requests that run at once (--max-num-seqs)."""
    sequences_are_default: bool = False
    """Whether it is vLLM's own default: all arguments are known, and none sets it."""
    step_tokens: int | None = None
    """Most tokens of one step (--max-num-batched-tokens)."""
    kv_cache_tokens: int | None = None


def server_limits(
    args: Sequence[str] | None, reported: Mapping[str, str] | None = None, *, kv_cache_tokens: int | None = None
) -> ServerLimits:
    """From the arguments of `vllm serve` (None: not known), else from the settings that the server reports."""
    said = {_flag_name(name): value for name, value in (reported or {}).items()}
    engines = _setting("data-parallel-size", args, said) or 1

    def of_all_engines(flag: str) -> int | None:
        value = _setting(flag, args, said)
        return None if value is None else value * engines

    sequences = of_all_engines("max-num-seqs")
    all_known = args is not None and _argument("config", args) is None
    return ServerLimits(
        sequences=sequences,
        sequences_are_default=all_known and sequences is None,
        step_tokens=of_all_engines("max-num-batched-tokens"),
        kv_cache_tokens=kv_cache_tokens or _setting("kv-cache-size-tokens", (), said),
    )


def _setting(flag: str, args: Sequence[str] | None, reported: Mapping[str, str]) -> int | None:
    """The last of several holds, as on the command line. Nothing for what is no positive number."""
    given = _argument(flag, args or ()) or reported.get(flag)
    number = _NUMBER.fullmatch(given.strip()) if given is not None else None
    return None if number is None else int(float(number["digits"]) * _MULTIPLIERS[number["suffix"]]) or None


def _argument(flag: str, args: Sequence[str]) -> str | None:
    found = None
    for place, argument in enumerate(args):
        name, equals, value = argument.partition("=")
        if not name.startswith("--") or _flag_name(name[2:]) != flag:
            continue
        if equals:
            found = value
        elif place + 1 < len(args):
            found = args[place + 1]
    return found


def _flag_name(text: str) -> str:
    """vLLM takes a flag with dashes or underscores."""
    return text.replace("_", "-")
