"""Samples of one server through a stage, made of what it ran and how fast it went."""

from collections.abc import Sequence
from typing import Any

from benchrun.measure import Window
from benchrun.measure.metrics_page import Sample
from unit.measure.records import edge, sample

Gauges = tuple[float, float, float | None]
"""Running, waiting, KV cache in use (0 to 1)."""


def gauge_samples(
    gauges: Sequence[Gauges],
    *,
    prompt_rates: float | Sequence[float] = 1000.0,
    generation_rates: float | Sequence[float] = 100.0,
    every_seconds: float = 1.0,
    **changes: Any,
) -> list[Sample]:
    """Return one sample for each gauge; the counters rise at these rates up to each sample."""
    prompt = 0.0
    generation = 0.0
    found = []
    for i, (running, waiting, usage) in enumerate(gauges):
        prompt += every_seconds * _at(prompt_rates, i)
        generation += every_seconds * _at(generation_rates, i)
        figures = {
            "running": running,
            "waiting": waiting,
            "kv_cache": usage,
        } | changes
        at = 1000.0 + (i + 1) * every_seconds
        found.append(
            sample(
                at, prompt_tokens=prompt, generation_tokens=generation, **figures
            )
        )
    return found


def window(
    samples: Sequence[Sample], *, preemptions: float = 0.0, hits: float = 0.0
) -> Window:
    """Build a stage's window of these samples, with 1000 prompt tokens looked up in the cache."""
    rises = {
        "num_preemptions_total": preemptions,
        "prefix_cache_hits_total": hits,
        "prefix_cache_queries_total": 1000.0,
    }
    return Window(
        "server", tuple(samples), (edge(rises=rises),), expected=float(len(samples))
    )


def _at(rates: float | Sequence[float], place: int) -> float:
    return rates[place] if isinstance(rates, Sequence) else rates
