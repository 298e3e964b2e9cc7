"""SGLang's metric families, filled from what the simulated engine does.

Names, labels and the timing of updates are SGLang's (`srt/metrics/collector.py`): tokens and
requests are counted when a request has ended, and the counter of cached tokens is there only once a
token was found. A server says neither when its process started nor why requests ended.
"""

from benchrun_simulator.engine_metrics import EngineMetrics, Levels, Served
from benchrun_simulator.exposition import Histogram, Labels, Series, counter, gauge

LATENCY = (
    0.1,
    0.2,
    0.4,
    0.6,
    0.8,
    1,
    2,
    4,
    6,
    8,
    10,
    20,
    40,
    60,
    80,
    100,
    200,
    400,
)


class SGLangMetrics(EngineMetrics):
    """A collector of events that renders the text of the `sglang:` families that are read."""

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
        self._scheduler = {
            **self._model,
            "engine_type": "unified",
            "tp_rank": "0",
            "pp_rank": "0",
        }
        self._kv_tokens = kv_tokens
        self._ended = self._prompt_total = self._generated_total = (
            self._cached_total
        ) = 0
        self._ttft = Histogram(
            "sglang:time_to_first_token_seconds", "To first token.", LATENCY
        )
        self._waited = Histogram(
            "sglang:queue_time_seconds", "Time spent waiting.", LATENCY
        )

    def finished(self, served: Served, *, reason: str) -> None:
        """Count a request that has ended, and its tokens."""
        super().finished(served, reason=reason)
        sequence = served.sequence
        begun = sequence.scheduled_at
        self._ended += 1
        self._prompt_total += len(sequence.prompt)
        self._generated_total += sequence.generated
        self._cached_total += sequence.cached_tokens
        self._ttft.observe(served.first_token_at - sequence.arrived_at)
        self._waited.observe(
            (sequence.arrived_at if begun is None else begun) - sequence.arrived_at
        )

    def render(self, levels: Levels) -> str:
        """Return all families as Prometheus text."""
        hit_rate = (
            levels.prefix_hits / levels.prefix_queries
            if levels.prefix_queries
            else 0.0
        )
        gauges = {
            "num_running_reqs": levels.running,
            "num_queue_reqs": levels.waiting,
            "token_usage": levels.kv_cache_usage,
            "cache_hit_rate": hit_rate,
            "max_total_num_tokens": self._kv_tokens,
        }
        counters = {
            "prompt_tokens": self._prompt_total,
            "generation_tokens": self._generated_total,
            "num_requests": self._ended,
            **({"cached_tokens": self._cached_total} if self._cached_total else {}),
        }
        retracted: list[Series] = [(self._scheduler, levels.preemptions)]
        return "".join(
            (
                *(
                    gauge(f"sglang:{n}", n, [(self._scheduler, v)])
                    for n, v in gauges.items()
                ),
                counter(
                    "sglang:num_retracted_requests",
                    "Retracted.",
                    retracted,
                    created=None,
                ),
                *(
                    counter(f"sglang:{n}", n, [(self._model, v)], created=None)
                    for n, v in counters.items()
                ),
                *(
                    each.render(self._model, created=self._created)
                    for each in (self._ttft,)
                ),
                self._waited.render(self._scheduler, created=self._created),
            )
        )
