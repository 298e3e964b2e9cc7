"""The series of SGLang's metrics endpoint.

A server counts the tokens of a request, and the request, when it has ended. It does not report when
its process started or why requests ended.
"""

from collections.abc import Mapping

from benchrun_client.engines.settings import EngineSetting

SAMPLE_SERIES: Mapping[str, tuple[str, ...]] = {
    "running": ("sglang:num_running_reqs",),
    "waiting": ("sglang:num_queue_reqs",),
    "kv_cache": ("sglang:token_usage",),
    "generation_tokens": ("sglang:generation_tokens_total",),
    "prompt_tokens": ("sglang:prompt_tokens_total",),
    "requests_finished": ("sglang:num_requests_total",),
    "preemptions": ("sglang:num_retracted_requests_total",),
    # The radix cache is asked for every token of a prompt.
    "prefix_queries": ("sglang:prompt_tokens_total",),
    "prefix_hits": ("sglang:cached_tokens_total",),
}
COUNTER_SERIES: Mapping[str, tuple[str, ...]] = {
    "prefix_cache_queries_total": ("sglang:prompt_tokens_total",),
    "prefix_cache_hits_total": ("sglang:cached_tokens_total",),
    "prompt_tokens_total": ("sglang:prompt_tokens_total",),
    "generation_tokens_total": ("sglang:generation_tokens_total",),
    "request_success_total": ("sglang:num_requests_total",),
    "num_preemptions_total": ("sglang:num_retracted_requests_total",),
    "time_to_first_token_seconds_sum": ("sglang:time_to_first_token_seconds_sum",),
    "time_to_first_token_seconds_count": (
        "sglang:time_to_first_token_seconds_count",
    ),
    "request_queue_time_seconds_sum": ("sglang:queue_time_seconds_sum",),
    "request_queue_time_seconds_count": ("sglang:queue_time_seconds_count",),
    "finished_abort_total": ("sglang:num_aborted_requests_total",),
}
"""Name of a counter -> names of its series."""
MAX_RUNNING = "effective_max_running_requests_per_dp"
"""Name of the limit that the first engine process has, among its state."""
REPORTED_SETTINGS = {
    EngineSetting.MAX_RUNNING: MAX_RUNNING,
    EngineSetting.MAX_TOKENS: "context_length",  # Only if it was given.
    EngineSetting.BLOCK_TOKENS: "page_size",
    EngineSetting.MEMORY_SHARE: "mem_fraction_static",
    EngineSetting.TENSOR_PARALLEL: "tp_size",
    EngineSetting.PIPELINE_PARALLEL: "pp_size",
    EngineSetting.DATA_PARALLEL: "dp_size",
    EngineSetting.DTYPE: "dtype",
    EngineSetting.QUANTIZATION: "quantization",
    EngineSetting.KV_CACHE_DTYPE: "kv_cache_dtype",
    EngineSetting.SPECULATION: "speculative_algorithm",
    EngineSetting.ATTENTION_KERNELS: "attention_backend",
    EngineSetting.STEP_TOKENS: "chunked_prefill_size",
}
"""Setting -> its name among those that a server answers."""
ANSWERED_SETTINGS = (
    *REPORTED_SETTINGS.values(),
    "disable_radix_cache",
    "enable_mixed_chunk",
    "ep_size",
    "max_prefill_tokens",
    "max_total_num_tokens",
    "sampling_backend",
    "schedule_policy",
)
"""Names of /get_server_info that are settings."""
AT_FIRST_EVENT = frozenset({"prefix_cache_hits_total"})
"""Counters that are 0 if their series is missing. Retractions and aborts are not among them: some
releases do not count them, so that a missing series means that they are not known."""
