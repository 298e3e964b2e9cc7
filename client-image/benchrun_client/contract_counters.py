"""What a snapshot of a server at a stage's edge holds; a part of `contract`."""

from __future__ import annotations

SERVER_COUNTERS = (
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
)
"""vLLM series (without the `vllm:` prefix) that an edge snapshot holds, summed over engines and reasons."""
PROXY_COUNTERS = (
    "benchrun_proxy_requests_total",
    "benchrun_proxy_added_seconds_sum",
    "benchrun_proxy_added_seconds_count",
    "benchrun_proxy_queue_seconds_sum",
    "benchrun_proxy_time_to_first_token_seconds_sum",
    "benchrun_proxy_time_to_first_token_seconds_count",
    "benchrun_proxy_loop_lag_seconds_sum",
    "benchrun_proxy_loop_lag_seconds_count",
    "process_cpu_seconds_total",
)
"""Series of the proxy between prefill and decode, by their whole names; a vLLM tells the last one, too, which is left aside."""
START_TIME = "process_start_time_seconds"
"""Kept in an edge snapshot beside the counters: a change of it is a restart."""
