"""One metrics page (Prometheus text) of a vLLM server made into a `Sample`, or into what the server says of itself.

A page has some 800 lines, of which a dozen matter: lines are picked by their beginning and only those are parsed, which
costs a hundredth of parsing everything. A figure that the page does not have is None, never 0: `--disable-log-stats`
leaves a page without any.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from benchrun.measure.samples import Sample, ServerFacts, start_instant

MAX_SERIES = 4096
"""Wanted series on one page: 8 families of 512 engines. More is not a page of a vLLM server."""
MAX_REPORTED = 39
"""Labels kept of what a server reports of itself; one place is left for the model's length."""

_CACHE_CONFIG = "vllm:cache_config_info"
_FAMILIES: Mapping[str, tuple[str, ...]] = {
    "running": ("vllm:num_requests_running",),
    "waiting": ("vllm:num_requests_waiting",),
    "kv_cache": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "generation_tokens": ("vllm:generation_tokens_total", "vllm:generation_tokens"),
    "prompt_tokens": ("vllm:prompt_tokens_total", "vllm:prompt_tokens"),
    "requests_finished": ("vllm:request_success_total", "vllm:request_success"),
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prefix_queries": (
        "vllm:prefix_cache_queries_total",
        "vllm:prefix_cache_queries",
        "vllm:gpu_prefix_cache_queries_total",
        "vllm:gpu_prefix_cache_queries",
    ),
    "prefix_hits": (
        "vllm:prefix_cache_hits_total",
        "vllm:prefix_cache_hits",
        "vllm:gpu_prefix_cache_hits_total",
        "vllm:gpu_prefix_cache_hits",
    ),
    "start_time": ("process_start_time_seconds",),
}
"""Names of every figure, newest first: a page that has both counts once."""

_ANY_LINE = re.compile(r"\s*(#|[a-zA-Z_:][a-zA-Z0-9_:]*(\{[^\n]*\})?\s+[-+0-9NIni])")


class UnreadablePage(ValueError):
    """What came back is not a metrics page."""


@dataclass(frozen=True, slots=True)
class Series:
    """One line of the wanted ones."""

    name: str
    labels: Mapping[str, str]
    value: float


def sample_from_page(text: str, *, at: float, role: str, pod: str) -> Sample:
    """Figures of one page, summed over engines (KV cache: their mean). Raises UnreadablePage."""
    values: dict[str, list[float]] = {}
    for series in series_of(text, _SAMPLE_LINES):
        if math.isfinite(series.value):
            values.setdefault(series.name, []).append(series.value)

    def total(figure: str) -> float | None:
        found = next((values[name] for name in _FAMILIES[figure] if name in values), None)
        return None if found is None else math.fsum(found)

    usage = next((values[name] for name in _FAMILIES["kv_cache"] if name in values), None)
    started = total("start_time")
    return Sample(
        at=at,
        role=role,
        pod=pod,
        running=total("running"),
        waiting=total("waiting"),
        kv_cache=None if usage is None else math.fsum(usage) / len(usage),
        generation_tokens=total("generation_tokens"),
        prompt_tokens=total("prompt_tokens"),
        requests_finished=total("requests_finished"),
        preemptions=total("preemptions"),
        prefix_queries=total("prefix_queries"),
        prefix_hits=total("prefix_hits"),
        start_time=None if started is None else start_instant(started),
    )


def facts_from_page(text: str) -> ServerFacts:
    """What the server says of its cache: labels of the first engine, tokens of all. Raises UnreadablePage."""
    engines = [series.labels for series in series_of(text, (_CACHE_CONFIG,)) if series.name == _CACHE_CONFIG]
    if not engines:
        return ServerFacts()
    tokens = [_cache_tokens(labels) for labels in engines]
    reported = {key[:100]: value[:253] for key, value in sorted(engines[0].items()) if _says_something(key, value)}
    return ServerFacts(
        kv_cache_tokens=sum(t for t in tokens if t is not None) if None not in tokens else None,
        reported=dict(list(reported.items())[:MAX_REPORTED]),
    )


def _says_something(key: str, value: str) -> bool:
    return key != "engine" and not key.startswith("_") and value not in ("", "None")


def _cache_tokens(labels: Mapping[str, str]) -> int | None:
    """Tokens one engine's cache holds: its own word (0.12 and later), else blocks x block size."""
    said = _whole(labels.get("kv_cache_size_tokens"))
    if said is not None:
        return said
    blocks, block_size = _whole(labels.get("num_gpu_blocks")), _whole(labels.get("block_size"))
    return None if blocks is None or block_size is None else blocks * block_size


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and re.fullmatch(r"[0-9]{1,15}", text) else None


def _line_starts() -> tuple[str, ...]:
    names = [name for names in _FAMILIES.values() for name in names]
    return tuple(name + end for name in names for end in ("{", " "))


_SAMPLE_LINES = _line_starts()


def series_of(text: str, starts: tuple[str, ...]) -> Iterator[Series]:
    """The lines of a page that begin so. Raises UnreadablePage."""
    first = next((line for line in text.split("\n", 20)[:20] if line.strip()), None)
    if first is not None and not _ANY_LINE.match(first):
        raise UnreadablePage(f"not a metrics page; it begins with {first.strip()[:60]!r}")
    wanted = [line for line in text.split("\n") if line.startswith(starts)]
    if len(wanted) > MAX_SERIES:
        raise UnreadablePage(f"{len(wanted)} series of the wanted families; at most {MAX_SERIES} are read")
    try:
        families = list(text_string_to_metric_families("\n".join(wanted) + "\n"))
    except (ValueError, IndexError, KeyError, TypeError) as error:
        raise UnreadablePage(f"a metrics line can't be parsed: {str(error)[:100]}") from error
    for family in families:
        for sample in family.samples:
            yield Series(name=sample.name, labels=sample.labels, value=float(sample.value))
