"""What a simulated server says in the words of its engine; all else is vLLM's."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchrun_simulator.engine_metrics import EngineMetrics
from benchrun_simulator.llamacpp_metrics import LlamaCppMetrics
from benchrun_simulator.settings import Settings
from benchrun_simulator.sglang_metrics import SGLangMetrics
from benchrun_simulator.trtllm_metrics import TensorRTLLMMetrics


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The paths and metric names of one engine; nothing has a default."""

    metrics: Callable[..., EngineMetrics]
    """Make the collector of events, from what every engine's has and `kv_tokens`."""
    version_path: str
    version: Callable[[Settings], Mapping[str, object]]
    """Return the answer of that path."""
    metrics_path: str
    flags: Mapping[str, str]
    """A flag of the engine -> vLLM's name of it; empty: it changes nothing here. A name with a value
    stands for that value alone."""
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


def _sglang_info(settings: Settings) -> Mapping[str, object]:
    return {
        "version": settings.version,
        "api_key": "not to be read",
        "disable_radix_cache": not settings.prefix_caching,
        "mem_fraction_static": settings.gpu_memory_utilization,
        "page_size": settings.block_size,
        "tp_size": 1,
        "internal_states": [
            {"effective_max_running_requests_per_dp": settings.max_sequences}
        ],
    }


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
        metrics_path="/metrics",
        flags={},
        flush_path=None,
        has_development_mode=True,
        has_process_metrics=True,
        reasoning_key="reasoning",
    ),
    "SGLang": Dialect(
        metrics=SGLangMetrics,
        version_path="/get_server_info",
        version=_sglang_info,
        metrics_path="/metrics",
        flags={
            "--model-path": "--model",
            "--tokenizer-path": "--tokenizer",
            "--enable-metrics": "",
            "--context-length": "--max-model-len",
            "--max-running-requests": "--max-num-seqs",
            "--disable-radix-cache": "--no-enable-prefix-caching",
            "--page-size": "--block-size",
            "--mem-fraction-static": "--gpu-memory-utilization",
        },
        flush_path="/flush_cache",
        has_development_mode=False,
        has_process_metrics=False,  # its processes share one page
        reasoning_key="reasoning_content",
    ),
    "LlamaCpp": Dialect(
        metrics=LlamaCppMetrics,
        version_path="/props",
        version=_llamacpp_properties,
        metrics_path="/metrics",
        flags={},
        flush_path=None,
        has_development_mode=False,
        has_process_metrics=False,
        reasoning_key="reasoning_content",
    ),
    "TensorRTLLM": Dialect(
        metrics=TensorRTLLMMetrics,
        version_path="/version",
        version=_version,
        metrics_path="/prometheus/metrics",
        flags={
            "--set": "",
            "--set=kv_cache_config.enable_block_reuse=false": "--no-enable-prefix-caching",
            "--max_seq_len": "--max-model-len",
            "--max_batch_size": "--max-num-seqs",
            "--max_num_tokens": "--max-num-batched-tokens",
        },
        flush_path=None,
        has_development_mode=False,
        has_process_metrics=False,  # its page is of several processes
        reasoning_key="reasoning_content",
    ),
}
"""Dialects by the engine's name in specs; `--sim-engine` takes these names."""


def in_vllms_words(words: Sequence[str]) -> list[str]:
    """Return a command line with the flags of the engine that `--sim-engine` names as vLLM's."""
    named = [
        word.partition("=")[2] for word in words if word.startswith("--sim-engine=")
    ]
    flags = DIALECTS[named[-1]].flags if named and named[-1] in DIALECTS else {}
    found = []
    for word in words:
        name, equals, value = word.partition("=")
        if flags.get(word):
            found.append(flags[word])
        elif flags.get(name):
            found.append(flags[name] + equals + value)
        elif word not in flags and name not in flags:
            found.append(word)
    return found
