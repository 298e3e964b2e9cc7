"""TensorRT-LLM's metric families, filled from what the simulated engine does.

Names and labels are those of `metrics/collector.py`: tokens and requests are counted when a request
has ended, gauges are labelled with the process, and settings are labels of series that are always
1. Unlike there, gauges move from the beginning on, and not only once a request has ended.
"""

from collections import Counter

from benchrun_simulator.engine_metrics import (
    FIRST_TOKEN,
    LATENCY,
    EngineMetrics,
    Levels,
    Served,
)
from benchrun_simulator.exposition import Histogram, Labels, Series, counter, gauge


class TensorRTLLMMetrics(EngineMetrics):
    """A collector of events that renders the text of the `trtllm_` families that are read."""

    def __init__(
        self,
        *,
        model_name: str,
        max_model_len: int,
        cache_config: Labels,
        consumes: bool,
        created: float,
        kv_tokens: int,
    ) -> None:
        super().__init__(
            model_name=model_name,
            max_model_len=max_model_len,
            cache_config=cache_config,
            consumes=consumes,
            created=created,
        )
        self._own = {**self._model, "engine_type": "pytorch"}
        self._block_tokens = int(cache_config["block_size"])
        self._blocks = kv_tokens // self._block_tokens
        self._settings: dict[str, Labels] = {
            "model_config_info": {
                "served_model_name": model_name,
                "max_model_len": str(max_model_len),
            },
            "parallel_config_info": {
                "tensor_parallel_size": "1",
                "pipeline_parallel_size": "1",
            },
            "kv_cache_config_info": {
                "enable_block_reuse": cache_config["enable_prefix_caching"]
            },
        }
        self._ended: Counter[str] = Counter()
        self._sums: Counter[str] = Counter()
        self._ttft = Histogram(
            "trtllm_time_to_first_token_seconds", "To first token.", FIRST_TOKEN
        )
        self._waited = Histogram(
            "trtllm_request_queue_time_seconds", "Time spent waiting.", LATENCY
        )

    def finished(self, served: Served, *, reason: str) -> None:
        """Count a request that has ended, and its tokens."""
        super().finished(served, reason=reason)
        sequence = served.sequence
        begun = sequence.scheduled_at
        self._ended[reason] += 1
        self._sums["prompt_tokens"] += len(sequence.prompt)
        self._sums["generation_tokens"] += sequence.generated
        self._sums["prompt_cached_tokens"] += sequence.cached_tokens
        self._ttft.observe(served.first_token_at - sequence.arrived_at)
        self._waited.observe(
            (sequence.arrived_at if begun is None else begun) - sequence.arrived_at
        )

    def render(self, levels: Levels) -> str:
        """Return all families as Prometheus text."""
        gauges = {
            "num_requests_running": levels.running,
            "num_requests_waiting": levels.waiting,
            "kv_cache_utilization": levels.kv_cache_usage,
            "kv_cache_max_blocks": self._blocks,
            "kv_cache_tokens_per_block": self._block_tokens,
        }
        of_process = {**self._own, "pid": "1"}
        ended: list[Series] = [
            ({**self._own, "finished_reason": reason}, count)
            for reason, count in self._ended.items()
        ]
        return "".join(
            (
                *(
                    gauge(f"trtllm_{name}", name, [({**of_process, **labels}, 1)])
                    for name, labels in self._settings.items()
                ),
                *(
                    gauge(f"trtllm_{name}", name, [(of_process, value)])
                    for name, value in gauges.items()
                ),
                *(
                    counter(
                        f"trtllm_{name}", name, [(self._own, value)], created=None
                    )
                    for name, value in self._sums.items()
                ),
                counter("trtllm_request_success", "Ended.", ended, created=None),
                self._ttft.render(self._own, created=self._created),
                self._waited.render(self._own, created=self._created),
            )
        )
