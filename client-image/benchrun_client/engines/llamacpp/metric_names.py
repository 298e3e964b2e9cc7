"""The series of llama.cpp's metrics endpoint, and the names of its settings.

A server reports neither the use of its KV cache nor finished requests, time to first token, time in
the queue, preemptions or when its process started. It counts the tokens of an answer when that has
ended. Numbers are written with six digits.
"""

from collections.abc import Mapping

from benchrun_client.engines.settings import EngineSetting

_GENERATED = ("llamacpp:tokens_predicted_total",)
_HITS = ("llamacpp:prompt_tokens_cached_total",)
# Its own counter of prompt tokens is without those that were found in the cache.
_PROMPTS = ("llamacpp:prompt_tokens_total", *_HITS)

SAMPLE_SERIES: Mapping[str, tuple[str, ...]] = {
    "running": ("llamacpp:requests_processing",),
    "waiting": ("llamacpp:requests_deferred",),
    "generation_tokens": _GENERATED,
    "prefix_hits": _HITS,
}
SAMPLE_SUMS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens": _PROMPTS,
    "prefix_queries": _PROMPTS,
}
COUNTER_SERIES: Mapping[str, tuple[str, ...]] = {
    "generation_tokens_total": _GENERATED,
    "prefix_cache_hits_total": _HITS,
    **{
        name: (f"llamacpp:{name}",)
        for name in (
            "spec_decode_num_draft_tokens_total",
            "spec_decode_num_accepted_tokens_total",
        )
    },
}
COUNTER_SUMS: Mapping[str, tuple[str, ...]] = {
    "prompt_tokens_total": _PROMPTS,
    "prefix_cache_queries_total": _PROMPTS,
}
REPORTED_SETTINGS = {
    EngineSetting.MAX_RUNNING: "total_slots",
    EngineSetting.MAX_TOKENS: "n_ctx",
    EngineSetting.DTYPE: "dtype",
    EngineSetting.QUANTIZATION: "quantization",
    EngineSetting.SPECULATION: "speculation",
}
"""Setting -> its name among those that are made of /props."""
