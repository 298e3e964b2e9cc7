"""Which layers of a model attend to everything, which to a window, and which keep a state; read from config.json."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from benchrun.sizing.cache_layers import UnknownShape

Config = Mapping[str, Any]
MOST = 10**12
"""Beyond any number of a model: larger ones are a mistake, and would take long to work with."""


# Single values of config.json. What is not of the type that its key has is an error that names the key, never a guess.
def whole(config: Config, name: str) -> int:
    """A whole number above 0. Raises UnknownShape where there is none."""
    value = config.get(name)
    if value is None:
        raise UnknownShape(f"config.json does not say {name}")
    if not isinstance(value, int):
        raise UnknownShape(f"{name} is {value!r}")
    return int(number_if_any(config, name) or 0)


def whole_if_any(config: Config, name: str) -> int | None:
    """The same; None where the key is missing, or null, false or 0, which all stand for none."""
    return whole(config, name) if config.get(name) else None


def number_if_any(config: Config, name: str) -> float | None:
    """A number above 0; None where the key is missing. Raises UnknownShape where it is something else."""
    value = config.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= MOST:
        raise UnknownShape(f"{name} is {value!r}")
    return value


def list_if_any(config: Config, name: str) -> list[Any] | None:
    """A list; None where the key is missing. Raises UnknownShape where it is something else."""
    value = config.get(name)
    if value is not None and not isinstance(value, list):
        raise UnknownShape(f"{name} is {value!r}")
    return value


def part_if_any(config: Config, name: str) -> Config:
    """An object; empty where the key is missing. Raises UnknownShape where it is something else."""
    value = config.get(name)
    if value is not None and not isinstance(value, Mapping):
        raise UnknownShape(f"{name} is {value!r}")
    return value or {}


_FULL = frozenset({"full_attention", "attention", "full", "global", "chunked_attention"})
"""Chunked attention computes in chunks, but vLLM keeps every token: its hybrid cache manager is off for such models."""
_SLIDING = frozenset({"sliding_attention", "sliding_window", "sliding", "local", "swa"})
_STATE = frozenset({"linear_attention", "mamba", "mamba2", "conv", "recurrent", "kda", "gdn", "ssm"})
_NOTHING = frozenset({"mlp", "moe"})
_PERIODS: Mapping[str, int] = {
    "gemma2": 2, "gemma3_text": 6, "gemma3": 6, "gemma3n_text": 5, "cohere2": 4, "gpt_oss": 2, "olmo3": 4,
}  # fmt: skip
"""The last of so many layers attends to everything, where config.json lists no types."""
_OFF_UNLESS_SWITCHED_ON = ("qwen2", "qwen3")
"""Models that have a window in config.json and use it only with use_sliding_window."""
_NEMOTRON = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


class Attention(NamedTuple):
    """Of one layer."""

    kind: Literal["Full", "Sliding", "State"]
    window_tokens: int | None = None


def attention_of_layers(text: Config, *, model_type: str, count: int) -> tuple[Attention, ...]:
    """One entry a layer that keeps anything. Raises UnknownShape for a type of layer that is not known here."""
    # Tokens that a layer with a window looks back; None: no layer has one.
    used = text.get("use_sliding_window", not model_type.startswith(_OFF_UNLESS_SWITCHED_ON))
    window = whole_if_any(text, "sliding_window") if used else None
    if window and model_type == "cohere2":
        window += 1
    found = []
    for name in _types(text, model_type=model_type, count=count, has_window=window is not None):
        if name in _STATE:
            found.append(Attention("State"))
        elif name in _SLIDING and window is not None:
            found.append(Attention("Sliding", window))
        elif name in _FULL or name in _SLIDING:
            found.append(Attention("Full"))
        elif name not in _NOTHING:
            raise UnknownShape(f"config.json has a layer of type {name!r}, which is not known here")
    return tuple(found)


def _types(text: Config, *, model_type: str, count: int, has_window: bool) -> list[str]:
    listed = _listed(text)
    if listed is not None:
        if len(listed) < count:
            raise UnknownShape(f"config.json has the type of {len(listed)} layers, of {count} (num_hidden_layers)")
        return listed[:count]
    is_full = _beside_states(text)
    if is_full is not None:
        return ["full_attention" if is_full(n) else "linear_attention" for n in range(count)]
    if not has_window:
        return ["full_attention"] * count
    if model_type.startswith(_OFF_UNLESS_SWITCHED_ON):
        first = whole_if_any(text, "max_window_layers") or 0
        return ["full_attention" if n < first else "sliding_attention" for n in range(count)]
    period = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern") or _PERIODS.get(model_type)
    if isinstance(period, str):
        return ["sliding_attention" if period[n % len(period)] == "L" else "full_attention" for n in range(count)]
    if period is None:
        return ["sliding_attention"] * count
    period = whole({"sliding_window_pattern": period}, "sliding_window_pattern")
    return ["sliding_attention" if (n + 1) % period else "full_attention" for n in range(count)]


def _listed(text: Config) -> list[str] | None:
    """The type of each layer, where config.json names them one by one."""
    types = list_if_any(text, "layer_types") or list_if_any(text, "layers_block_type")
    if types:
        return [str(each) for each in types]
    pattern = text.get("hybrid_override_pattern")
    return [_NEMOTRON.get(letter, letter) for letter in pattern] if isinstance(pattern, str) else None


def _beside_states(text: Config) -> Callable[[int], bool] | None:
    """Which layers, counted from 0, attend to everything where the others keep a state; None: no such key."""
    if (interval := whole_if_any(text, "full_attention_interval")) is not None:
        return lambda n: (n + 1) % interval == 0
    if (period := whole_if_any(text, "attn_layer_period")) is not None:
        offset = whole_if_any(text, "attn_layer_offset") or 0
        return lambda n: n % period == offset
    if (places := list_if_any(text, "attn_layer_indices")) is not None:
        return lambda n: n in places
    if (kinds := list_if_any(text, "attn_type_list")) is not None:
        return lambda n: n < len(kinds) and kinds[n] == 1
    # Kimi counts its layers from 1.
    states = list_if_any(part_if_any(text, "linear_attn_config"), "kda_layers")
    return None if states is None else lambda n: n + 1 not in states
