"""llama.cpp's metric families, filled from what the simulated engine does.

Names and the timing of updates are those of `llama-server` b10434: prompt tokens, without those
found in the cache, are counted once they are computed, and generated ones when a request has ended.
Series have no labels. There is none of the KV cache, of finished requests or of waiting times.
"""

from benchrun_simulator.engine_metrics import EngineMetrics, Levels, Served
from benchrun_simulator.exposition import Labels, counter, gauge


class LlamaCppMetrics(EngineMetrics):
    """A collector of events that renders the text of the `llamacpp:` families that are read."""

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
        del kv_tokens
        super().__init__(
            model_name=model_name,
            max_model_len=max_model_len,
            cache_config=cache_config,
            consumes=consumes,
            created=created,
        )
        self._predicted = 0

    def finished(self, served: Served, *, reason: str) -> None:
        """Count the tokens of a request that has ended."""
        super().finished(served, reason=reason)
        self._predicted += served.sequence.generated

    def render(self, levels: Levels) -> str:
        """Return all families as Prometheus text."""
        gauges = {
            "requests_processing": levels.running,
            "requests_deferred": levels.waiting,
        }
        counters = {
            "prompt_tokens": self._prompt_tokens - self._cached_tokens,
            "prompt_tokens_cached": self._cached_tokens,
            "tokens_predicted": self._predicted,
            "spec_decode_num_draft_tokens": 0,
            "spec_decode_num_accepted_tokens": 0,
        }
        return "".join(
            (
                *(gauge(f"llamacpp:{n}", n, [({}, v)]) for n, v in gauges.items()),
                *(
                    counter(f"llamacpp:{n}", n, [({}, v)], created=None)
                    for n, v in counters.items()
                ),
            )
        )
