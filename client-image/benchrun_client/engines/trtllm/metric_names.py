"""The series of `trtllm-serve`'s Prometheus page.

The page has series of requests, counted when a request has ended, and of the engine's steps. It is
there only with `return_perf_metrics`, and series of steps only with `enable_iter_perf_stats`. These
are read from when the first request has ended, and keep the values of the last step. A server
reports neither preemptions, refused and aborted requests, nor when its process started.
"""

from collections.abc import Mapping

from benchrun_client.engines.settings import EngineSetting

_PROMPTS = ("trtllm_prompt_tokens_total",)
_GENERATED = ("trtllm_generation_tokens_total",)
_HITS = ("trtllm_prompt_cached_tokens_total",)
_FINISHED = ("trtllm_request_success_total",)

SAMPLE_SERIES: Mapping[str, tuple[str, ...]] = {
    "running": ("trtllm_num_requests_running",),
    "waiting": ("trtllm_num_requests_waiting",),
    "kv_cache": ("trtllm_kv_cache_utilization",),
    "generation_tokens": _GENERATED,
    "prompt_tokens": _PROMPTS,
    "requests_finished": _FINISHED,
    # Every token of a prompt is looked up.
    "prefix_queries": _PROMPTS,
    "prefix_hits": _HITS,
}
COUNTER_SERIES: Mapping[str, tuple[str, ...]] = {
    "prefix_cache_queries_total": _PROMPTS,
    "prefix_cache_hits_total": _HITS,
    "prompt_tokens_total": _PROMPTS,
    "generation_tokens_total": _GENERATED,
    "request_success_total": _FINISHED,
    **{
        name: (f"trtllm_{name}",)
        for name in (
            "time_to_first_token_seconds_sum",
            "time_to_first_token_seconds_count",
            "request_queue_time_seconds_sum",
            "request_queue_time_seconds_count",
            "spec_decode_num_draft_tokens_total",
            "spec_decode_num_accepted_tokens_total",
        )
    },
}
"""Name of a counter -> names of its series."""
SETTINGS_SERIES = (
    "trtllm_model_config_info",
    "trtllm_parallel_config_info",
    "trtllm_speculative_config_info",
    "trtllm_kv_cache_config_info",
)
MEASURED_SETTINGS = frozenset({"pid"})  # Label of each process's own gauges.
CACHE_TOKENS_SERIES = (
    "trtllm_kv_cache_max_blocks",
    "trtllm_kv_cache_tokens_per_block",
)
REPORTED_SETTINGS = {
    EngineSetting.MAX_TOKENS: "max_model_len",  # Only if it was given.
    EngineSetting.PREFIX_CACHE: "enable_block_reuse",
    EngineSetting.TENSOR_PARALLEL: "tensor_parallel_size",
    EngineSetting.PIPELINE_PARALLEL: "pipeline_parallel_size",
}
"""Setting -> label of one of `SETTINGS_SERIES` that has its value."""
