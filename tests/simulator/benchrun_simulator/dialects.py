"""What a simulated server says in the words of its engine; all else is vLLM's."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchrun_simulator.engine_metrics import EngineMetrics
from benchrun_simulator.llamacpp_metrics import LlamaCppMetrics
from benchrun_simulator.settings import Settings
from benchrun_simulator.sglang_metrics import SGLangMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The paths and metric names of one engine; nothing has a default."""

    metrics: Callable[..., EngineMetrics]
    """Make the collector of events, from what every engine's has and `kv_tokens`."""
    version_path: str
    version: Callable[[Settings], Mapping[str, object]]
    """Return the answer of that path."""
    # Path that empties the prefix cache without development mode, with an answer in plain text.
    flush_path: str | None
    has_development_mode: bool  # Whether it has vLLM's paths that reset caches.
    has_process_metrics: bool  # Whether its page has the families of a process.
    reasoning_key: str  # Where a delta has text of the reasoning.


def _vllm_metrics(*, kv_tokens: int, **common: Any) -> EngineMetrics:
    """Return vLLM's collector, which has the size of the cache in `cache_config`."""
    del kv_tokens
    return EngineMetrics(**common)


def _version(settings: Settings) -> Mapping[str, object]:
    return {"version": settings.version}


def _llamacpp_properties(settings: Settings) -> Mapping[str, object]:
    return {
        "build_info": settings.version,
        "total_slots": settings.max_sequences,
        "default_generation_settings": {"n_ctx": settings.max_model_len},
    }


DIALECTS: Mapping[str, Dialect] = {
    "VLLM": Dialect(
        metrics=_vllm_metrics,
        version_path="/version",
        version=_version,
        flush_path=None,
        has_development_mode=True,
        has_process_metrics=True,
        reasoning_key="reasoning",
    ),
    "SGLang": Dialect(
        metrics=SGLangMetrics,
        version_path="/get_server_info",
        version=_version,
        flush_path="/flush_cache",
        has_development_mode=False,
        has_process_metrics=False,  # its processes share one page
        reasoning_key="reasoning_content",
    ),
    "LlamaCpp": Dialect(
        metrics=LlamaCppMetrics,
        version_path="/props",
        version=_llamacpp_properties,
        flush_path=None,
        has_development_mode=False,
        has_process_metrics=False,
        reasoning_key="reasoning_content",
    ),
}
"""Dialects by the engine's name in specs; `--sim-engine` takes these names."""
