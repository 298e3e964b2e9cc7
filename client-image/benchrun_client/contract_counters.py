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
)
"""vLLM series (without the `vllm:` prefix) that an edge snapshot holds, summed over engines and reasons."""
START_TIME = "process_start_time_seconds"
"""Kept in an edge snapshot beside the counters: a change of it is a restart."""
