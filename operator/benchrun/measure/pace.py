"""How fast a server went from one reading to the next, and how much it had at hand meanwhile."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from operator import mul
from typing import NamedTuple

from benchrun.measure.samples import Sample
from benchrun.measure.windows import Window


class Pace(NamedTuple):
    """One server between two neighbouring readings of one stage; gauges are the mean of both."""

    seconds: float
    running: float
    waiting: float
    kv_percent: float | None
    prompt_rate: float
    """Prompt tokens a second."""
    generation_rate: float
    """Output tokens a second."""

    @property
    def token_rate(self) -> float:
        """All tokens a second."""
        return self.prompt_rate + self.generation_rate

    @property
    def prompt_share(self) -> float:
        """Of all tokens, 0 to 1; 0 where nothing moved."""
        return self.prompt_rate / self.token_rate if self.token_rate else 0.0


Stretch = Sequence[Pace]
"""Paces of one server in one stage, in order of time."""


def stretches(windows: Iterable[Window]) -> list[Stretch]:
    """One a server and stage. A reading without a figure begins no pace."""
    found: list[Stretch] = []
    for window in windows:
        by_pod: dict[str, list[Sample]] = defaultdict(list)
        for sample in window.samples:
            by_pod[sample.pod].append(sample)
        known = ((_between(a, b) for a, b in pairwise(readings)) for readings in by_pod.values())
        found += [[pace for pace in of_server if pace is not None] for of_server in known]
    return found


def mean_pace(parts: Stretch) -> Pace:
    """Of several paces, weighted by their time."""
    seconds, running, waiting, usage, prompt, generation = zip(*parts, strict=True)
    total, known = sum(seconds), [percent for percent in usage if percent is not None]

    def mean(figures: Iterable[float]) -> float:
        return float(sum(map(mul, figures, seconds)) / total)

    return Pace(
        seconds=total,
        running=mean(running),
        waiting=mean(waiting),
        kv_percent=sum(known) / len(known) if known else None,
        prompt_rate=mean(prompt),
        generation_rate=mean(generation),
    )


def _between(first: Sample, last: Sample) -> Pace | None:
    seconds = last.at - first.at
    running, waiting = _mean(first.running, last.running), _mean(first.waiting, last.waiting)
    prompt = _rise(first.prompt_tokens, last.prompt_tokens)
    generation = _rise(first.generation_tokens, last.generation_tokens)
    if seconds <= 0 or running is None or waiting is None or prompt is None or generation is None:
        return None
    usage = _mean(first.kv_cache, last.kv_cache)
    kv_percent = None if usage is None else 100 * usage
    return Pace(seconds, running, waiting, kv_percent, prompt / seconds, generation / seconds)


def _mean(first: float | None, last: float | None) -> float | None:
    return None if first is None or last is None else (first + last) / 2


def _rise(first: float | None, last: float | None) -> float | None:
    """None where a counter fell: another process."""
    return None if first is None or last is None or last < first else last - first
