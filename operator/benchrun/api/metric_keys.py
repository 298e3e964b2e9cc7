"""Keys of `results[].metrics` that comparisons read."""

from __future__ import annotations

from collections.abc import Mapping

from benchrun.api.comparison import ComparedMetric

KEYS: Mapping[ComparedMetric, str] = {
    "OutputThroughput": "output_throughput",
    "RequestThroughput": "request_throughput",
    "TotalTokenThroughput": "total_token_throughput",
    "MeanTTFT": "mean_ttft_ms",
    "MeanTPOT": "mean_tpot_ms",
    "MeanITL": "mean_itl_ms",
    "MeanE2EL": "mean_e2el_ms",
}
"""vLLM's own names, under which results hold them."""
OUTPUT_COST, TOTAL_COST = "cost_per_million_output_tokens", "cost_per_million_total_tokens"
COSTS: tuple[str, ...] = (OUTPUT_COST, TOTAL_COST)
"""There only where the spec names a price; in its currency."""
TOKENS_PER_JOULE = "output_tokens_per_joule"
"""There only where the power of GPUs is known."""
