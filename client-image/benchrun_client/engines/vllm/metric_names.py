"""The series of vLLM's metrics endpoint."""

import re
from collections.abc import Mapping

from benchrun_client.engines.settings import EngineSetting

SAMPLE_SERIES = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_cache": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "generation_tokens": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "prompt_tokens": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "requests_finished": ("vllm:request_success_total", "vllm:request_success"),
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prefix_queries": (
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_queries",
        "vllm:gpu_prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries",
    ),
    "prefix_hits": (
        "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_hits",
        "vllm:gpu_prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits",
    ),
    "start_time": ("process_start_time_seconds",),
}
_COUNTERS = (
    "prefix_cache_queries_total",
    "prefix_cache_hits_total",
    "prompt_tokens_total",
    "generation_tokens_total",
    "request_success_total",
    "num_preemptions_total",
    "time_to_first_token_seconds_sum",
    "time_to_first_token_seconds_count",
    "request_queue_time_seconds_sum",
    "request_queue_time_seconds_count",
    "external_prefix_cache_queries_total",
    "external_prefix_cache_hits_total",
    "admission_rejections_total",
    "nixl_num_failed_transfers_total",
    "nixl_num_failed_notifications_total",
    "nixl_num_kv_expired_reqs_total",
    "mooncake_num_failed_transfers_total",  # From 0.33 on.
    "spec_decode_num_draft_tokens_total",
    "spec_decode_num_accepted_tokens_total",
)
# Name up to 0.9; 0.10 has it beside the new name.
_OTHERWISE = {
    name: (f"vllm:gpu_{name}",)
    for name in _COUNTERS
    if name.startswith("prefix_cache_")
}
COUNTER_SERIES: Mapping[str, tuple[str, ...]] = {
    name: tuple(
        dict.fromkeys(
            spelling
            for series in (f"vllm:{name}", *_OTHERWISE.get(name, ()))
            for spelling in (series, series.removesuffix("_total"))
        )
    )
    for name in _COUNTERS
}
"""Name of a counter -> names of its series, newest first. If the metrics have several of them, only
one is counted. Records have the sum over engines and reasons."""
# One counter for each reason of `vllm.v1.engine.FinishReason`.
LABELLED_COUNTERS = {
    f"finished_{reason}_total": (
        "vllm:request_success_total",
        f'finished_reason="{reason}"',
    )
    for reason in ("stop", "length", "abort", "error", "repetition")
}
MEASURED_SETTINGS = frozenset(
    {
        "engine",
        "num_gpu_blocks",
        "num_cpu_blocks",
        "kv_cache_size_tokens",
        "kv_cache_max_concurrency",
    }
)
"""Labels of cache_config_info that are not settings: the engine's number, and values that the
server measures when it starts."""

REPORTED_SETTINGS = {
    EngineSetting.MAX_RUNNING: "max_num_seqs",
    EngineSetting.MAX_TOKENS: "max_model_len",
    EngineSetting.STEP_TOKENS: "max_num_batched_tokens",
    EngineSetting.KV_CACHE_TOKENS: "kv_cache_size_tokens",
    EngineSetting.BLOCK_TOKENS: "block_size",
    EngineSetting.PREFIX_CACHE: "enable_prefix_caching",
    EngineSetting.CHUNKED_PREFILL: "enable_chunked_prefill",
    EngineSetting.MEMORY_SHARE: "gpu_memory_utilization",
    EngineSetting.KV_CACHE_BYTES: "kv_cache_memory_bytes",
    EngineSetting.TENSOR_PARALLEL: "tensor_parallel_size",
    EngineSetting.DATA_PARALLEL: "data_parallel_size",
    EngineSetting.PIPELINE_PARALLEL: "pipeline_parallel_size",
    EngineSetting.LOGS_REQUESTS: "enable_log_requests",
    EngineSetting.DTYPE: "dtype",
    EngineSetting.QUANTIZATION: "quantization",
    EngineSetting.KV_CACHE_DTYPE: "cache_dtype",
    EngineSetting.EAGER: "enforce_eager",
    EngineSetting.SPECULATION: "speculative_config",
    EngineSetting.ATTENTION_KERNELS: "attention_backend",
    EngineSetting.EXPERT_KERNELS: "moe_backend",
}
"""Setting -> label of cache_config_info that has its value, or the name that `log.py` gives it."""


def cache_tokens(labels: Mapping[str, str]) -> int | None:
    """Return how many tokens the KV cache of one engine holds, from labels of cache_config_info.

    It is kv_cache_size_tokens (0.12 and later), else blocks x block size; None if neither is known.
    """
    size, blocks, block_size = (
        int(text)
        if re.fullmatch(r"[0-9]{1,15}", text := labels.get(name, ""))
        else None
        for name in ("kv_cache_size_tokens", "num_gpu_blocks", "block_size")
    )
    if size is not None or blocks is None or block_size is None:
        return size
    return blocks * block_size
