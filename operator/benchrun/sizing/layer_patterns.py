"""Which layers of a model attend to everything, which to a window, and which keep a state instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from benchrun.sizing.layers import UnknownShape

Config = Mapping[str, Any]

_FULL = frozenset({"full_attention", "attention", "full", "global", "chunked_attention"})
"""Chunked attention computes in chunks, but vLLM keeps every token: its hybrid cache manager is off for such models."""
_SLIDING = frozenset({"sliding_attention", "sliding_window", "sliding", "local", "swa"})
_STATE = frozenset({"linear_attention", "mamba", "mamba2", "conv", "recurrent", "kda", "gdn", "ssm"})
_NOTHING = frozenset({"mlp", "moe"})
_PERIODS: Mapping[str, int] = {
    "gemma2": 2, "gemma3_text": 6, "gemma3": 6, "gemma3n_text": 5, "cohere2": 4, "gpt_oss": 2, "olmo3": 4,
}  # fmt: skip
"""The last of so many layers attends to everything, where config.json lists no types."""
_OFF_UNLESS_ASKED = ("qwen2", "qwen3")
"""Models that have a window in config.json and use it only with use_sliding_window."""
_NEMOTRON = {"M": "mamba", "*": "attention", "-": "mlp", "E": "moe"}


@dataclass(frozen=True, slots=True)
class Attention:
    """Of one layer."""

    kind: Literal["Full", "Sliding", "State"]
    window_tokens: int | None = None


def attention_of_layers(text: Config, *, model_type: str, count: int) -> tuple[Attention, ...]:
    """One entry a layer that keeps anything. Raises UnknownShape for a type of layer that is not known here."""
    window = _window(text, model_type)
    types = _types(text, model_type=model_type, count=count, has_window=window is not None)
    found = []
    for name in types:
        if name in _NOTHING:
            continue
        if name in _STATE:
            found.append(Attention("State"))
        elif name in _SLIDING and window is not None:
            found.append(Attention("Sliding", window))
        elif name in _FULL or name in _SLIDING:
            found.append(Attention("Full"))
        else:
            raise UnknownShape(f"config.json has a layer of type {name!r}, which is not known here")
    return tuple(found)


def _window(text: Config, model_type: str) -> int | None:
    """0 stands for none."""
    used = text.get("use_sliding_window", not model_type.startswith(_OFF_UNLESS_ASKED))
    window = int(text.get("sliding_window") or 0) if used else 0
    if window and model_type == "cohere2":
        return window + 1
    return window or None


def _types(text: Config, *, model_type: str, count: int, has_window: bool) -> list[str]:
    listed = text.get("layer_types") or text.get("layers_block_type")
    if isinstance(listed, list):
        return [str(each) for each in listed[:count]]
    pattern = text.get("hybrid_override_pattern")
    if isinstance(pattern, str):
        return [_NEMOTRON.get(letter, letter) for letter in pattern[:count]]
    interval = text.get("full_attention_interval")
    if interval:
        return [_last_of(n, int(interval), "linear_attention") for n in range(count)]
    if not has_window:
        return ["full_attention"] * count
    if model_type.startswith(_OFF_UNLESS_ASKED):
        first = int(text.get("max_window_layers", 0))
        return ["full_attention" if n < first else "sliding_attention" for n in range(count)]
    period = text.get("sliding_window_pattern") or text.get("_sliding_window_pattern") or _PERIODS.get(model_type)
    if isinstance(period, str):
        return ["sliding_attention" if period[n % len(period)] == "L" else "full_attention" for n in range(count)]
    return [_last_of(n, int(period), "sliding_attention") if period else "sliding_attention" for n in range(count)]


def _last_of(layer: int, period: int, otherwise: str) -> str:
    return otherwise if (layer + 1) % period else "full_attention"
